"""The dump of encoders against ssl-kaldi-feats: equal outputs, and processor time of whole processes.

python benchmarks/extractors.py [--utterances 60] [--runs 3]

Needs `pip install ssl-kaldi-feats`. Random models of few layers, audio of 1 to 6 s. Both write the same layer
uncompressed in one process, in turn. Layers of ssl-kaldi-feats are without the final normalization.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from figures import Table, report
from measuring import core_seconds, parser_of

sys.path.insert(0, str(Path(__file__).parents[1]))
import io_ark
from tests.support.tiny_models import save_tiny

LAYER = 2
MODELS = ("hubert", "hubert-base", "wavlm", "whisper")
OURS = "import sys; from kaldi_compat.dump.cli import main; sys.exit(main(sys.argv[1:]))"
THEIRS = "import sys; from ssl_kaldi_feats.cli import main; sys.exit(main(sys.argv[1:]))"


def seconds_of(code: str, arguments: list[str]) -> float:
    """Return the processor time of a process."""
    before = core_seconds()
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return core_seconds() - before


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--utterances", type=int, default=60)
    parser.add_argument("--runs", type=int, default=3)
    chosen = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        work, rng = Path(scratch), np.random.default_rng(0)
        data = work / "data"
        data.mkdir()
        with open(data / "wav.scp", "w") as script:
            for i in range(chosen.utterances):
                samples = rng.normal(0, 2000, (1, int(rng.integers(16000, 96000)))).astype(np.int16)
                io_ark.save(work / f"{i:04d}.wav", io_ark.Wave(16000.0, samples))
                script.write(f"utt{i:04d} {work}/{i:04d}.wav\n")
        for name in MODELS:
            folder = save_tiny(name, work / name)
            ours = ["dump", f"--transformers={folder}", f"--layers={LAYER}", "--nj=1", str(data)]
            theirs = [f"--model={folder}", f"--layer={LAYER}", f"--wav-scp={data}/wav.scp", "--output-dir", f"{work}/o",
                      "--no-compress", "--final-layer-norm=strip", "--device=cpu"]  # fmt: skip
            taken = [(seconds_of(OURS, ours), seconds_of(THEIRS, theirs)) for _ in range(chosen.runs)]
            found, expected = io_ark.load_scp(data / "feats.scp"), io_ark.load_scp(work / "o" / "feats.scp")
            assert list(found) == list(expected)
            worst = max(float(np.abs(found[k] - expected[k]).max() / np.abs(expected[k]).max()) for k in expected)
            mine, other = (statistics.median(each) for each in zip(*taken, strict=True))
            rows.append([name, f"{worst:.1e}", f"{mine:.1f}", f"{other:.1f}", f"{mine / other:.2f}"])
    columns = ["model", "largest difference", "dump: s", "ssl-kaldi-feats: s", "ratio"]
    command = f"python benchmarks/extractors.py --utterances {chosen.utterances} --runs {chosen.runs}"
    report("extractors", Table(command, columns, rows))


if __name__ == "__main__":
    main()
