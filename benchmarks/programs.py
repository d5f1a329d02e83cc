"""Compare our feature programs with other programs as whole processes over four hours of audio.

python benchmarks/programs.py [--hours 4] [--runs 3] [--work DIR] [--kaldi DIR] [--record]

All commands run in turn, `--runs` times each, on one thread and with files in the page cache. The benchmark prints the
median wall clock time of every program for each feature, and the ratios. --kaldi names the folder of Kaldi's own
programs, which then run, too.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from corpus import SECONDS, make, repeat
from figures import Table, report
from measuring import make_parser

PEERS = Path(__file__).parent / "peers"
FBANK = "compute-fbank-feats --num-mel-bins=80 --dither={dither} scp:{script} ark:{out}"
FEATURES = {
    "MFCC": "compute-mfcc-feats --dither=0 scp:{script} ark:{out}",
    "PLP": "compute-plp-feats --dither=0 scp:{script} ark:{out}",
    "spectrogram": "compute-spectrogram-feats --dither=0 scp:{script} ark:{out}",
}
COLUMNS = ["feature", "ours: s", "Kaldi: s", "kaldi-native-fbank: s", "torchaudio: s"]
RATIOS = [[f"times {peer}", f"{peer}: s", "ours: s"] for peer in ("Kaldi", "kaldi-native-fbank", "torchaudio")]


def list_commands(kaldi: Path | None, torchaudio: bool) -> dict[str, str]:
    """Map names to command lines with {script} and {out}. kaldi-native-fbank is first, because ratios refer to it."""
    by_name = {
        "kaldi-native-fbank + kaldiio": f"{sys.executable} {PEERS}/native_fbank.py {{script}} {{out}} 0",
        "ours, fbank": FBANK.format(dither=0, script="{script}", out="{out}"),
        "ours, fbank, dithered": FBANK.format(dither=1, script="{script}", out="{out}"),
    }
    by_name |= {f"ours, {name}": command for name, command in FEATURES.items()}
    if torchaudio:
        by_name["torchaudio + kaldiio"] = f"{sys.executable} {PEERS}/torchaudio_fbank.py {{script}} {{out}} 0"
        by_name["torchaudio + kaldiio, dithered"] = f"{sys.executable} {PEERS}/torchaudio_fbank.py {{script}} {{out}} 1"
    if kaldi:
        for name in [name_of_command for name_of_command in by_name if name_of_command.startswith("ours")]:
            by_name[name.replace("ours", "Kaldi's program")] = f"{kaldi}/{by_name[name]}"
    return by_name


def measure_command(command: str, script: Path, out: Path, cores: int) -> float:
    """Return the wall clock time of one run in seconds."""
    line = command.format(script=script, out=out).split()
    start = time.perf_counter()
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    result = subprocess.run(["taskset", "-c", f"0-{cores - 1}", *line], capture_output=True, env=environment)
    seconds = time.perf_counter() - start
    if result.returncode:
        sys.exit(f"{command}: {result.stderr.decode()[-500:]}")
    out.unlink()
    return seconds


def main() -> None:
    """Measure the programs, and print a table."""
    parser = make_parser(__doc__)
    parser.add_argument("--hours", type=int, default=4)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--work", type=Path, help="keep the audio here between runs")
    parser.add_argument("--kaldi", type=Path, help="folder of Kaldi's own programs")
    parser.add_argument("--cores", type=int, default=os.cpu_count(), help="processors each command may use")
    parser.add_argument("--only", default="", help="only commands whose name holds this, and the first")
    chosen = parser.parse_args()
    has_torchaudio = subprocess.run([sys.executable, "-c", "import torchaudio"], capture_output=True).returncode == 0
    with tempfile.TemporaryDirectory() as scratch:
        work = chosen.work or Path(scratch)
        script = repeat(make(work / "corpus"), chosen.hours)
        selected = list_commands(chosen.kaldi, has_torchaudio)
        first = next(iter(selected))
        selected = {name: command for name, command in selected.items() if name == first or chosen.only in name}
        rounds = [
            {
                name: measure_command(command, script, work / "out.ark", chosen.cores)
                for name, command in selected.items()
            }
            for _ in range(chosen.runs)
        ]
    audio = SECONDS * chosen.hours

    def median(name: str) -> str:
        return f"{statistics.median(each[name] for each in rounds):.2f}" if name in selected else ""

    features = [name.removeprefix("ours, ") for name in selected if name.startswith("ours")]
    rows = [
        [
            feature,
            median(f"ours, {feature}"),
            median(f"Kaldi's program, {feature}"),
            median("kaldi-native-fbank + kaldiio") if feature == "fbank" else "",
            median(feature.replace("fbank", "torchaudio + kaldiio")) if "fbank" in feature else "",
        ]
        for feature in features
    ]
    command = f"python benchmarks/programs.py --kaldi DIR --cores {chosen.cores} --runs {chosen.runs}"
    report("programs", Table(command, COLUMNS, rows, [["times real time", f"{audio:.0f}", "ours: s"], *RATIOS]))


if __name__ == "__main__":
    main()
