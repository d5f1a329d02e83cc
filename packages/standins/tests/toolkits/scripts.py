"""Run the projects' scripts whole, with the originals and by the switch where no original is installed.

``python -m packages.standins.tests.toolkits.scripts --sources DIR --bare PYTHON``: DIR holds the checkouts, PYTHON is
an interpreter that has NumPy, torch and what else the scripts import, but none of the libraries that are replaced. The
second run is ``PYTHON -m kaldi_standins replace LIBRARIES -- SCRIPT ARGUMENTS``, nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import io_ark
from tests.support.frontend_audio import clips

ROOT = Path(__file__).parents[4]
TOLERANCE = 1e-4  # Tolerance, relative for values above 1. Rounding gives up to 8e-5.


@dataclass(frozen=True)
class Script:
    """A script of a repository, run in a folder that ``prepare`` has filled.

    Attributes:
        repository: name of its folder.
        command: path in the repository, and arguments.
        libraries: what is replaced, as the switch takes it.
        path: folder of the repository that the script finds its own modules in.
    """

    repository: str
    command: str
    libraries: str
    path: str = "."


TORCH = "torchaudio"
SPEAKER = "--dir=. --onnx_path=speaker.onnx"
CMVN = "--train_config=conf.yaml --in_scp=wav.scp --out_cmvn=global_cmvn"
FBANK = "--wav-lists=wav.scp --text-files=text --ark-index=1 --output-dir=."
SCRIPTS = (
    Script("wenet", f"tools/compute_cmvn_stats.py --num_workers=2 {CMVN}",
           TORCH),
    Script("wekws", f"tools/compute_cmvn_stats.py --num_workers=0 {CMVN}",
           TORCH),
    Script("enskd", "tools/vector_mean.py --spk2utt=spk2utt --xvector_scp=vec.scp --spk_xvector_ark=x.ark", "kaldiio"),
    Script("wesep", "tools/extract_embed_depreciated.py --onnx_path=speaker.onnx --wav_scp=wav.scp --out_path=.",
           f"{TORCH},kaldiio"),
    Script("CosyVoice", f"tools/extract_embedding.py {SPEAKER} --num_thread=1", TORCH),
    Script("InspireMusic", f"tools/extract_embedding.py {SPEAKER}", TORCH),
    Script("FunCodec", f"egs/LibriTTS/codec/utils/compute_fbank.py {FBANK}", f"{TORCH},kaldiio"),
    Script("FunCodec", "egs/LibriTTS/codec/utils/compute_cmvn.py --ark-file=. --ark-index=1 --output-dir=.", "kaldiio"),
    Script("FunCodec", "egs/LibriTTS/codec/utils/apply_cmvn.py --ark-file=feats.1.ark --cmvn-file=cmvn.json "
           "--ark-index=2 --output-dir=.", "kaldiio"),
    *(Script("UniCATS-CTX-vec2wav", f"utils/{command}", "kaldiio", path="utils")
      for command in ("copy-feats.py --compress=true --write-num-frames=ark,t:frames scp:feats.scp ark,scp:x.ark,x.scp",
                      "compute-cmvn-stats.py --spk2utt=spk2utt scp:feats.scp ark,scp:x.ark,x.scp",
                      "feat-to-shape.py scp:feats.scp shapes", "paste-feats.py scp:feats.scp scp:feats.scp ark:x.ark")),
    Script("sherpa", ".github/scripts/generate_feats_scp.py scp:wav.scp ark,scp:x.ark,x.scp",
           "kaldifeat,kaldi_native_io"),
    Script("sherpa-onnx", "scripts/3dspeaker/test-onnx.py --model=speaker.onnx --file1=a.wav --file2=b.wav",
           "kaldi_native_fbank"),
    Script("fairseq", "examples/wav2vec/unsupervised/kaldi_self_train/st/local/prepare_data_from_w2v.py . x train",
           "kaldi_io"),
)  # fmt: skip


def prepare(folder: Path) -> None:
    """Write a data directory of three utterances, their features and vectors, a configuration, and a speaker model."""
    import onnx
    import soundfile
    from onnx import TensorProto, helper

    for name in ("ark", "txt"):
        (folder / name).mkdir()
    audio = dict(zip("abc", (clips()[name] for name in ("speech", "noise", "clipped")), strict=True))
    for name, samples in audio.items():
        soundfile.write(folder / f"{name}.wav", samples, 16000)
    features = {name: samples[:16000].reshape(-1, 80).astype(np.float32) / 7 for name, samples in audio.items()}
    lines = {
        "wav.scp": [f"{name} {name}.wav" for name in audio],
        "text": [f"{name} some words" for name in audio],
        "utt2spk": [f"{name} s{name in 'ab':d}" for name in audio],
        "spk2utt": ["s0 c", "s1 a b"],
        "segments": [f"{name}-{i} {name} {i * 0.3:.2f} {i * 0.3 + 0.5:.2f}" for name in audio for i in (0, 1)],
        "conf.yaml": ["dataset_conf: {feats_type: fbank, fbank_conf: {num_mel_bins: 80}}"],
        "train.lengths": [str(len(each)) for each in features.values()],
    }  # fmt: skip
    for name, text in lines.items():
        (folder / name).write_text("\n".join(text) + "\n")
    for name, table in (("feats", features), ("feats.1", features), ("vec", {k: v[0] for k, v in features.items()})):
        with io_ark.writer(f"ark,scp:{folder}/{name}.ark,{folder}/{name}.scp") as out:
            for key, value in table.items():
                out[key] = value
        (folder / f"{name}.scp").write_text((folder / f"{name}.scp").read_text().replace(f"{folder}/", ""))
    np.save(folder / "train.npy", np.concatenate(list(features.values())))
    stats = {"mean_stats": [1.0] * 80, "var_stats": [2000.0] * 80, "total_frames": 1000}
    (folder / "cmvn.json").write_text(json.dumps(stats))
    inputs = [helper.make_tensor_value_info("feats", TensorProto.FLOAT, [1, None, 80])]
    outputs = [helper.make_tensor_value_info("embs", TensorProto.FLOAT, [1, 80])]
    axes = helper.make_tensor("axes", TensorProto.INT64, [1], [1])
    square = helper.make_node("Mul", ["feats", "feats"], ["squares"])
    mean = helper.make_node("ReduceMean", ["squares", "axes"], ["embs"], keepdims=0)
    graph = helper.make_graph([square, mean], "speaker", inputs, outputs, [axes])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    described = {"normalize_samples": "1", "sample_rate": "16000", "output_dim": "80",
                 "feature_normalize_type": "global-mean"}  # fmt: skip
    helper.set_model_props(model, described)
    onnx.save(model, str(folder / "speaker.onnx"))


def outcome(script: Script, command: Sequence[str], sources: Path, folder: Path, name: str) -> dict[str, bytes]:
    """Run a command in a copy of the data, and return the files that it has written, or else what it has printed."""
    shutil.rmtree(folder.parent / name, ignore_errors=True)
    shutil.copytree(folder, folder.parent / name)
    own = str(sources / script.repository / script.path)
    if name == "original":
        paths, command = [str(ROOT), str(sources / "kaldi-io-for-python")], [*command, own]
    else:
        paths = [str(ROOT), own]
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONHASHSEED": "0"}
    words = script.command.split()
    done = subprocess.run([*command, str(sources / script.repository / words[0]), *words[1:]], cwd=folder.parent / name,
                          env=surroundings, capture_output=True, check=False)  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{script.repository}/{script.command} by {name}:\n{done.stderr.decode()[-2000:]}")
    found = {}
    for file in sorted((folder.parent / name).rglob("*")):
        at = file.relative_to(folder.parent / name)
        if file.is_file() and not (folder / at).exists():
            found[str(at)] = file.read_bytes().replace(f"/{name}/".encode(), b"/")
    return found or {"standard output": done.stdout}


def numbers(name: str, content: bytes) -> Iterator[tuple[str, Any]]:
    """Yield the keys and arrays of a file, or its text without numbers, and these."""
    if name.endswith(".ark") and content[:1].isalpha() and b" \0B" in content[:20]:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "x").write_bytes(content)
            yield from ((key, np.asarray(value)) for key, value in io_ark.read(f"ark:{folder}/x"))
    elif name.endswith(".pt"):
        import io

        import torch

        stored = torch.load(io.BytesIO(content))  # The order depends on threads.
        yield from ((key, np.asarray(stored[key])) for key in sorted(stored))
    else:
        number = rb"-?\d+\.?\d*(?:e[-+]?\d+)?"
        text = re.sub(number, b"#", content)
        yield repr(text), np.array([float(each) for each in re.findall(number, content)])


def difference(expected: dict[str, bytes], found: dict[str, bytes]) -> float:
    """Return the largest difference of numbers in the files of two runs, relative to values above 1; inf for others."""
    if expected.keys() != found.keys():
        return float("inf")
    largest = 0.0
    for name, content in expected.items():
        if content == found[name]:
            continue
        pairs = zip(numbers(name, content), numbers(name, found[name]), strict=True)
        for (key, a), (other, b) in pairs:
            if key != other or a.shape != b.shape or a.dtype != b.dtype:
                return float("inf")
            largest = max(largest, float((np.abs(a - b) / np.maximum(1, np.abs(a))).max(initial=0)))
    return largest


def original(arguments: Sequence[str]) -> None:
    """Run a script with the originals."""
    from packages.standins.tests.toolkits.run import prepare_libraries

    prepare_libraries()
    own, script, *_ = arguments
    sys.argv = list(arguments[1:])
    sys.path[:1] = [str(Path(script).parent), own]
    runpy.run_path(script, run_name="__main__")


def compare(sources: Path, bare: str) -> Iterator[tuple[str, float]]:
    """Yield each script, and the largest difference of its outputs, which is infinity if a run fails."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "data")
        folder.mkdir()
        prepare(folder)
        for script in SCRIPTS:
            theirs = [sys.executable, "-m", "packages.standins.tests.toolkits.scripts", "--original"]
            ours = [bare, "-m", "kaldi_standins", "replace", script.libraries, "--"]
            try:
                expected, found = (outcome(script, command, sources, folder, name)
                                   for name, command in (("original", theirs), ("switch", ours)))  # fmt: skip
            except RuntimeError as error:
                print(error, file=sys.stderr)
                yield f"{script.repository}/{script.command}", float("inf")
                continue
            yield f"{script.repository}/{script.command}", difference(expected, found)


def main() -> None:
    """Run all scripts twice, print the differences of their outputs, and fail if one is too large."""
    if sys.argv[1:2] == ["--original"]:
        original(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--bare", required=True)
    given = parser.parse_args()
    largest = 0.0
    for name, value in compare(given.sources, given.bare):
        print(f"{name}: {value:.0e}", flush=True)
        largest = max(largest, value)
    raise SystemExit(int(largest > TOLERANCE))


if __name__ == "__main__":
    main()
