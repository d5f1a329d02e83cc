"""The dump of models against the scripts of other projects: equal outputs, and processor time of whole processes.

python benchmarks/extractors.py [--utterances 60] [--runs 3] [--espnet DIR] [--wespeaker DIR] [--speaker3d DIR]

Random models, audio of 1 to 6 s. Each pair computes the same with the same weights in one process, in turn. Without
checkouts, only ssl-kaldi-feats (`pip install ssl-kaldi-feats`) takes part: encoders of few layers; its layers lack the
final normalization. ESPnet's dump_ssl_feature.py (which needs s3prl) repeats the last row of HuBERT, which is left
out. WeSpeaker's and 3D-Speaker's extract.py run an ECAPA-TDNN. Empty modules replace the modules that these scripts
import but do not use here, soundfile reads the files, and WeSpeaker's fixed device cuda becomes cpu.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from figures import Table, report
from measuring import make_parser, measure_core_seconds

sys.path.insert(0, str(Path(__file__).parents[1]))
import io_ark
from tests.support.tiny_models import save_tiny

LAYER = 2
MODELS = ("hubert", "hubert-base", "wavlm", "whisper")
OURS = "import sys; from kaldi_compat.dump.cli import main; sys.exit(main(sys.argv[1:]))"
THEIRS = "import sys; from ssl_kaldi_feats.cli import main; sys.exit(main(sys.argv[1:]))"
# Modules that the scripts import and do not call here.
UNUSED = [
    "g2p_en",
    "hdbscan",
    "inflect",
    "jamo",
    "tacotron_cleaner.cleaners",
    "tacotron_cleaner",
    "sentencepiece",
    "librosa",
    "lmdb",
    "peft",
    "torchaudio.sox_effects",
    "umap",
    "whisper",
]
PRELUDE = f"""
import importlib.machinery, sys, types
import soundfile, torch, torchaudio

class Unused(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *values, **options: None

for name in {UNUSED} + {{more}}:
    sys.modules[name] = Unused(name)
    sys.modules[name].__spec__ = importlib.machinery.ModuleSpec(name, None)
torchaudio.sox_effects, torchaudio.set_audio_backend = sys.modules["torchaudio.sox_effects"], lambda name: None

def load(path, **options):
    samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    return torch.from_numpy(samples.T.copy()), rate

torchaudio.load = load
script = {{script!r}}
sys.path.insert(0, {{place!r}})
text = open(script).read().replace('torch.device("cuda")', 'torch.device("cpu")')
exec(compile(text, script, "exec"), {{{{"__name__": "__main__"}}}})
"""
WESPEAKER = {"model": "ECAPA_TDNN_c512", "model_args": {"feat_dim": 80, "embed_dim": 192, "pooling_func": "ASTP"}}
SPEAKER3D = """
num_epoch: 1
sample_rate: 16000
feature_extractor:
  obj: speakerlab.process.processor.FBank
  args: {n_mels: 80, sample_rate: 16000, mean_nor: True}
embedding_model:
  obj: speakerlab.models.ecapa_tdnn.ECAPA_TDNN.ECAPA_TDNN
  args: {input_size: 80, lin_neurons: 192, channels: [512, 512, 512, 512, 1536]}
checkpointer:
  obj: speakerlab.utils.checkpoint.Checkpointer
  args: {checkpoints_dir: "", recoverables: {}}
"""
MODULE = """
import sys
sys.path.insert(0, {place!r})
import torch, kaldi_compat
{load}

class Embedding:
    def __init__(self):
        self.frontend, self.model = kaldi_compat.Frontend({preset!r}), made()

    def __call__(self, audio):
        found = [self.model(self.frontend(torch.from_numpy(samples))[None]) for samples in audio]
        return [(each[-1] if isinstance(each, tuple) else each)[0] for each in found]
"""


def measure_seconds(code: str, arguments: list[str], cwd: Path) -> float:
    """Run Python code in a new process in the folder ``cwd``, and return its processor time in seconds."""
    before = measure_core_seconds()
    settings = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
    paths = os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | settings | {"PYTHONPATH": paths}, capture_output=True, text=True, cwd=cwd,
    )  # fmt: skip
    if done.returncode:
        sys.exit(done.stderr)
    return measure_core_seconds() - before


# Model, other program, the dump's options, the name of its output, the other's code, arguments and script file.
Pair = tuple[str, str, list[str], str, str, list[str], Path]


def list_encoders(work: Path, data: Path) -> Iterator[Pair]:
    """Yield the encoders that ssl-kaldi-feats also computes."""
    for name in MODELS:
        folder = save_tiny(name, work / name)
        theirs = [f"--model={folder}", f"--layer={LAYER}", f"--wav-scp={data}/wav.scp", "--output-dir", f"{work}/o",
                  "--no-compress", "--final-layer-norm=strip", "--device=cpu"]  # fmt: skip
        ours = [f"--transformers={folder}", f"--layers={LAYER}"]
        yield name, "ssl-kaldi-feats", ours, "feats", THEIRS, theirs, work / "o" / "feats.scp"


def list_espnet(work: Path, data: Path, checkout: Path) -> Iterator[Pair]:
    """Yield HuBERT by ESPnet."""
    folder, scripts = save_tiny("hubert", work / "hubert"), checkout / "egs2/TEMPLATE/asr1/pyscripts/feats"
    code = PRELUDE.format(more=[], script=str(scripts / "dump_ssl_feature.py"), place=str(scripts))
    upstream = f"{{upstream=hf_hubert_custom,path_or_url={folder}}}"
    conf = f"{{type=s3prl,conf={{s3prl_conf={upstream},download_dir={work},multilayer_feature=False,layer={LAYER}}}}}"
    theirs = [f"--feature_conf={conf}", "--use_gpu=false", "--in_filetype=sound", "--out_filetype=mat",
              f"--utt2num_samples={work}/utt2num_samples", f"scp:{data}/wav.scp",
              f"ark,scp:{work}/e.ark,{work}/e.scp"]  # fmt: skip
    ours = [f"--transformers={folder}", f"--layers={LAYER}"]
    yield "hubert", "ESPnet dump_ssl_feature.py", ours, "feats", code, theirs, work / "e.scp"


def list_wespeaker(work: Path, data: Path, checkout: Path) -> Iterator[Pair]:
    """Yield an ECAPA-TDNN by WeSpeaker."""
    load = "import types\nsys.modules['wespeaker'] = package = types.ModuleType('wespeaker')\n"
    # A substitute for the package, because wespeaker/__init__.py would import all modules and their dependencies.
    load += f"package.__path__ = [{str(checkout / 'wespeaker')!r}]\n"
    load += f"from wespeaker.models.ecapa_tdnn import {WESPEAKER['model']} as Model\n"
    load += f"def made():\n    torch.manual_seed(0)\n    return Model(**{WESPEAKER['model_args']!r}).eval()\n"
    own = work / "ws.py"
    own.write_text(MODULE.format(place=str(checkout), preset="wespeaker", load=load))
    save = f"{own.read_text()}\ntorch.save(made().state_dict(), sys.argv[1])"
    measure_seconds(save, [str(work / "ws.pt")], work)
    fbank = {"num_mel_bins": 80, "frame_shift": 10, "frame_length": 25, "dither": 0.0}
    conf = {**WESPEAKER, "model_path": str(work / "ws.pt"), "embed_ark": str(work / "w.ark"), "data_type": "raw",
            "data_list": str(work / "raw.list"), "dataset_args": {"fbank_args": fbank}}  # fmt: skip
    (work / "ws.yaml").write_text(json.dumps(conf))
    with open(data / "wav.scp") as lines, open(work / "raw.list", "w") as file:
        for key, path in map(str.split, lines):
            file.write(json.dumps({"key": key, "wav": path, "spk": key}) + "\n")
    code = PRELUDE.format(
        more=["s3prl", "s3prl.nn"], script=str(checkout / "wespeaker/bin/extract.py"), place=str(checkout)
    )
    ours = [f"--module={own}:Embedding"]
    yield "ECAPA-TDNN", "WeSpeaker extract.py", ours, "xvector", code, [f"--config={work}/ws.yaml"], work / "w.scp"


def list_speaker3d(work: Path, data: Path, checkout: Path) -> Iterator[Pair]:
    """Yield an ECAPA-TDNN by 3D-Speaker."""
    load = "from speakerlab.models.ecapa_tdnn.ECAPA_TDNN import ECAPA_TDNN\ndef made():\n    torch.manual_seed(0)\n"
    load += "    return ECAPA_TDNN(input_size=80, lin_neurons=192, channels=[512, 512, 512, 512, 1536])\n"
    own, checkpoint = work / "sp.py", work / "exp" / "models" / "CKPT-EPOCH-1-00"
    checkpoint.mkdir(parents=True)
    own.write_text(MODULE.format(place=str(checkout), preset="campplus", load=load))
    (work / "exp" / "config.yaml").write_text(SPEAKER3D)
    (checkpoint / "CKPT.yaml").write_text("epoch: 1\nunixtime: 1\n")
    save = f"{own.read_text()}\ntorch.save(made().state_dict(), sys.argv[1])"
    measure_seconds(save, [str(checkpoint / "embedding_model.ckpt")], work)
    code = PRELUDE.format(more=[], script=str(checkout / "speakerlab/bin/extract.py"), place=str(checkout))
    theirs, ours = [f"--exp_dir={work}/exp", f"--data={data}/wav.scp"], [f"--module={own}:Embedding"]
    yield "ECAPA-TDNN", "3D-Speaker extract.py", ours, "xvector", code, theirs, work / "exp/embeddings/xvector_00.scp"


def main() -> None:
    """Compare the programs, and print a table."""
    parser = make_parser(__doc__)
    parser.add_argument("--utterances", type=int, default=60)
    parser.add_argument("--runs", type=int, default=3)
    checkouts = {"espnet": list_espnet, "wespeaker": list_wespeaker, "speaker3d": list_speaker3d}
    for name in checkouts:
        parser.add_argument(f"--{name}", type=Path)
    chosen = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        work, rng = Path(scratch), np.random.default_rng(0)
        data = work / "data"
        data.mkdir()
        with open(data / "wav.scp", "w") as script, open(work / "utt2num_samples", "w") as counts:
            for i in range(chosen.utterances):
                samples = rng.normal(0, 2000, (1, int(rng.integers(16000, 96000)))).astype(np.int16)
                io_ark.save(work / f"{i:04d}.wav", io_ark.Wave(16000.0, samples))
                script.write(f"utt{i:04d} {work}/{i:04d}.wav\n")
                counts.write(f"utt{i:04d} {samples.size}\n")
        pairs = list(list_encoders(work, data))
        for name, make in checkouts.items():
            if checkout := getattr(chosen, name):
                pairs += make(work, data, checkout.absolute())
        for model, other, options, output, code, theirs, found_by in pairs:
            ours = ["dump", *options, "--nj=1", str(data)]
            timings = [
                (measure_seconds(OURS, ours, work), measure_seconds(code, theirs, work)) for _ in range(chosen.runs)
            ]
            ours_scores, expected = io_ark.load_scp(data / f"{output}.scp"), io_ark.load_scp(found_by)
            assert set(ours_scores) == set(expected)
            differences = []
            for key, value in ours_scores.items():
                # 3D-Speaker writes a vector as a matrix of one row, and ESPnet one more row.
                reference = np.asarray(expected[key]).reshape(-1, value.shape[-1])[
                    : len(value) if value.ndim > 1 else 1
                ]
                differences.append(float(np.abs(value - reference).max() / np.abs(reference).max()))
            medians = [f"{statistics.median(column):.1f}" for column in zip(*timings, strict=True)]
            rows.append([model, other, f"{max(differences):.1e}", *medians])
    columns = ["model", "other", "largest difference", "dump: s", "other: s"]
    paths = "".join(f" --{name} DIR" for name in checkouts if getattr(chosen, name))
    command = f"python benchmarks/extractors.py --utterances {chosen.utterances} --runs {chosen.runs}{paths}"
    report("extractors", Table(command, columns, rows, [["ratio", "dump: s", "other: s"]]))


if __name__ == "__main__":
    main()
