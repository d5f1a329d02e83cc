"""Commands on tables whose blocks contain usual and unusual utterances, and the outputs of Kaldi's programs.

``python -m tests.support.block_commands DIRECTORY`` runs Kaldi's programs in a directory and stores digests of their
outputs in ``block_commands.json``. The tests of the programs compare ours with them, for blocks of any size.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import io_ark

STORED = Path(__file__).with_suffix(".json")
IN, OUT = "ark:in.ark", "ark,scp:out.ark,out.scp"  # as which the words of a command stand
_PLAIN = "extract-feature-segments --min-segment-length=0 --snip-edges=false"
_SHORT = "extract-feature-segments --min-segment-length=0.01 --snip-edges=false --max-overshoot=0.1"
_BY_SPEAKER = "compose-transforms --utt2spk=ark:utt2spk"
_DELAYED = "process-kaldi-pitch-feats --delay=3 --add-raw-log-pitch --srand=3"
COMMANDS = {
    "copy-feats": "copy-feats --write-num-frames=ark,t:out_frames IN OUT",
    "copy-feats from a script": "copy-feats scp:in.scp OUT",
    "copy-feats to text": "copy-feats IN ark,t:out.txt",
    "copy-feats from text": "copy-feats ark:text.ark OUT",
    "copy-feats from doubles": "copy-feats ark:doubles.ark OUT",
    "copy-feats from a pipe": "copy-feats 'ark:cat in.ark |' ark,f:out.ark",
    "copy-feats to files": "copy-feats scp:in.scp scp:targets.scp",
    "copy-feats --compress": "copy-feats --compress --write-num-frames=ark:out_frames IN OUT",
    **{
        f"copy-feats --compression-method={n}": f"copy-feats --compress --compression-method={n} ark:hard.ark OUT"
        for n in range(2, 8)
    },
    "copy-feats --compress to text": "copy-feats --compress IN ark,t:out.ark",
    "add-deltas": "add-deltas IN OUT",
    "add-deltas --truncate": "add-deltas --truncate=2 --delta-order=3 IN OUT",
    "add-deltas too many": "add-deltas --truncate=4 IN OUT",
    "add-deltas-sdc": "add-deltas-sdc IN OUT",
    "splice-feats": "splice-feats ark:full.ark OUT",
    "splice-feats of nothing": "splice-feats IN OUT",
    "compute-vad": "compute-vad --vad-energy-threshold=3 IN OUT",
    "compute-vad of silence": "compute-vad --vad-energy-threshold=18 --omit-unvoiced-utts IN OUT",
    "apply-cmvn-sliding": "apply-cmvn-sliding --cmn-window=5 --min-cmn-window=3 IN OUT",
    "apply-cmvn-sliding --center": "apply-cmvn-sliding --center --norm-vars --cmn-window=7 IN OUT",
    "compute-cmvn-stats": "compute-cmvn-stats IN OUT",
    "compute-cmvn-stats of all": "compute-cmvn-stats IN out.stats",
    "compute-cmvn-stats of dimensions": "compute-cmvn-stats ark:mixed.ark out.stats",
    "compute-cmvn-stats --spk2utt": "compute-cmvn-stats --spk2utt=ark:spk2utt IN OUT",
    "apply-cmvn": "apply-cmvn ark:stats.ark IN OUT",
    "apply-cmvn --norm-vars": "apply-cmvn --norm-vars --skip-dims=1 scp:stats.scp IN OUT",
    "apply-cmvn --reverse": "apply-cmvn --reverse --norm-vars ark:stats.ark IN OUT",
    "apply-cmvn --utt2spk": "apply-cmvn --utt2spk=ark:utt2spk ark:speakers.ark IN OUT",
    "apply-cmvn of all": "apply-cmvn all.stats IN OUT",
    "apply-cmvn --norm-means=false": "apply-cmvn --norm-means=false all.stats IN OUT",
    "select-feats": "select-feats 2,0 ark:full.ark OUT",
    "select-feats of dimensions": "select-feats 1 ark:mixed.ark OUT",
    "shift-feats": "shift-feats --shift=-2 IN OUT",
    "subsample-feats": "subsample-feats --n=3 --offset=1 IN OUT",
    "subsample-feats repeated": "subsample-feats --n=-2 IN OUT",
    "subset-feats": "subset-feats --include=some IN OUT",
    "subset-feats --exclude": "subset-feats --exclude=some scp:in.scp OUT",
    "append-vector-to-feats": "append-vector-to-feats IN ark:vectors.ark OUT",
    "append-vector-to-feats sorted": "append-vector-to-feats ark:full.ark ark,s,cs:vectors.ark OUT",
    "append-vector-to-feats once": "append-vector-to-feats ark:full.ark ark,o:vectors.ark OUT",
    "append-vector-to-feats lacking one": "append-vector-to-feats ark:full.ark ark:some_vectors.ark OUT",
    "append-vector-to-feats out of order": "append-vector-to-feats IN ark,s,cs:reversed.ark OUT",
    "paste-feats": "paste-feats ark:full.ark scp:in.scp ark:mixed.ark OUT",
    "paste-feats --length-tolerance": "paste-feats --length-tolerance=1 IN ark:longer.ark OUT",
    "multiply-vectors": "multiply-vectors ark:vad.ark ark:vad.ark scp:vad.scp OUT",
    "multiply-vectors of lengths": "multiply-vectors ark:vectors.ark ark:vad.ark OUT",
    "paste-vectors": "paste-vectors ark:vad.ark ark:vectors.ark OUT",
    "paste-vectors lacking one": "paste-vectors ark:vectors.ark ark:some_vectors.ark OUT",
    "select-voiced-frames": "select-voiced-frames IN ark:vad.ark OUT",
    "copy-vector": "copy-vector --scale=2 ark:vad.ark OUT",
    "copy-matrix": "copy-matrix --apply-exp IN OUT",
    "compare-feats": "compare-feats IN scp:in.scp",
    "transform-feats, linear": "transform-feats square.mat ark:mixed.ark OUT",
    "transform-feats": "transform-feats transform.mat ark:full.ark OUT",
    "copy-post": "copy-post --scale=0.5 ark:post.ark OUT",
    "post-to-feats": "post-to-feats --post-dim=4 ark:post.ark OUT",
    "copy-post as it is": "copy-post ark:post.ark OUT",
    "copy-post to text": "copy-post ark:post.ark ark,t:out.txt",
    "copy-int-vector of text": "copy-int-vector ark:ints.txt OUT",
    "subset-feats --n": "subset-feats --n=70 IN OUT",
    "modify-cmvn-stats": "modify-cmvn-stats 0:2 ark:stats.ark OUT",
    "modify-cmvn-stats to means": "modify-cmvn-stats --convert-to-mean-and-var ark:stats.ark OUT",
    "extend-transform-dim": "extend-transform-dim --new-dimension=5 ark:transforms.ark OUT",
    "extend-transform-dim too small": "extend-transform-dim --new-dimension=2 ark:transforms.ark OUT",
    "compose-transforms": "compose-transforms ark:transforms.ark ark:transforms.ark OUT",
    "compare-feats of dimensions": "compare-feats ark:mixed.ark ark:mixed.ark",
    "copy-int-vector": "copy-int-vector ark:ints.ark OUT",
    "copy-int-vector from a script": "copy-int-vector scp:ints.scp ark,t:out.txt",
    "copy-vector --change-dim": "copy-vector --change_dim=3 ark:lengths.ark OUT",
    "copy-vector to text": "copy-vector ark:lengths.ark ark,t:out.txt",
    "copy-matrix as it is": "copy-matrix ark:mixed.ark OUT",
    "copy-matrix --apply-softmax-per-row": "copy-matrix --apply-softmax-per-row --scale=0.5 IN OUT",
    "copy-post --scale=0": "copy-post --scale=0 scp:hard_post.scp OUT",
    "copy-post from text": "copy-post --scale=0.3 ark:hard_post.txt OUT",
    "copy-post of a damaged archive": "copy-post ark:cut_post.ark OUT",
    "copy-post of a damaged archive, permissive": "copy-post ark,p:cut_post.ark OUT",
    "post-to-feats of odd frames": "post-to-feats --post-dim=6 ark:hard_post.ark OUT",
    "post-to-feats from text": "post-to-feats --post-dim=6 ark:hard_post.txt ark,t:out.txt",
    "post-to-feats out of range": "post-to-feats --post-dim=3 scp:post.scp OUT",
    "post-to-feats of a damaged archive": "post-to-feats --post-dim=6 ark:cut_post.ark OUT",
    "append-post-to-feats": "append-post-to-feats --post-dim=4 IN ark:post.ark OUT",
    "append-post-to-feats of odd frames": "append-post-to-feats --post-dim=6 ark:full.ark ark:hard_post.ark OUT",
    "append-post-to-feats sorted": "append-post-to-feats --post-dim=6 IN ark,s,cs:hard_post.ark OUT",
    "append-post-to-feats from a script": "append-post-to-feats --post-dim=6 IN scp:hard_post.scp OUT",
    "append-post-to-feats lacking some": "append-post-to-feats --post-dim=6 IN ark:some_post.ark OUT",
    "append-post-to-feats out of range": "append-post-to-feats --post-dim=3 IN ark:post.ark OUT",
    "append-post-to-feats, damaged": "append-post-to-feats --post-dim=6 IN ark:cut_post.ark OUT",
    "append-post-to-feats, damaged and permissive": "append-post-to-feats --post-dim=6 IN ark,p:cut_post.ark OUT",
    "compose-transforms with one": "compose-transforms affine.mat ark:transforms.ark OUT",
    "compose-transforms onto one": "compose-transforms ark:transforms.ark square.mat OUT",
    "compose-transforms of shapes": "compose-transforms ark:transforms.ark ark:some_transforms.ark OUT",
    "compose-transforms --utt2spk": f"{_BY_SPEAKER} ark:transforms.ark ark:speaker_transforms.ark OUT",
    "two-channel statistics": "compute-cmvn-stats-two-channel calls IN OUT",
    "two-channel statistics of frames": "compute-cmvn-stats-two-channel full_calls ark:full.ark OUT",
    "two-channel statistics from a script": "compute-cmvn-stats-two-channel full_calls scp:in.scp OUT",
    "two-channel statistics of dimensions": "compute-cmvn-stats-two-channel full_calls ark:mixed.ark OUT",
    "two-channel statistics, damaged": "compute-cmvn-stats-two-channel full_calls ark:cut.ark OUT",
    "extract-feature-segments": "extract-feature-segments IN segments OUT",
    "extract-feature-segments, short": f"{_SHORT} IN segments OUT",
    "extract-feature-segments, plain": f"{_PLAIN} ark:full.ark plain_segments OUT",
    "extract-feature-segments, once": f"{_PLAIN} ark,o:full.ark plain_segments OUT",
    "extract-feature-segments, damaged": f"{_PLAIN} ark:cut.ark plain_segments OUT",
    "extract-feature-segments, damaged and permissive": f"{_PLAIN} ark,p:cut.ark plain_segments OUT",
    "process-kaldi-pitch-feats": "process-kaldi-pitch-feats ark:pitch.ark OUT",
    "process-kaldi-pitch-feats --delay": f"{_DELAYED} --normalization-right-context=-1 scp:pitch.scp OUT",
    "process-kaldi-pitch-feats of gaps": "process-kaldi-pitch-feats ark:gaps.ark OUT",
    "process-pitch-feats": "process-pitch-feats ark:voicing.ark OUT",
    "process-pitch-feats of correlations": "process-pitch-feats ark:pitch.ark OUT",
    "interpolate-pitch": "interpolate-pitch ark:gaps.ark OUT",
    "interpolate-pitch --linear-interpolation": "interpolate-pitch --linear-interpolation ark:gaps.ark OUT",
    "interpolate-pitch of correlations": "interpolate-pitch --pitch-interval=3 ark:negative.ark OUT",
    "feat-to-len": "feat-to-len IN ark,t:out_len",
    "feat-to-len of a script": "feat-to-len scp:in.scp ark:out_len",
    "feat-to-dim": "feat-to-dim ark:mixed.ark ark,t:out_dim",
    "copy-vector --change_dim=0": "copy-vector --change_dim=0 ark:lengths.ark OUT",
    "copy-vector of a file": "copy-vector four.vec out.vec",
    "select-voiced-frames of lengths": "select-voiced-frames ark:longer.ark ark:vad.ark OUT",
    "compute-cmvn-stats --weights": "compute-cmvn-stats --weights=ark:weights.ark ark:full.ark OUT",
    "compute-cmvn-stats --weights of all": "compute-cmvn-stats --weights=ark:weights.ark ark:full.ark out.stats",
    "compute-cmvn-stats --weights --spk2utt": (
        "compute-cmvn-stats --weights=ark:weights.ark --spk2utt=ark:spk2utt ark:full.ark OUT"
    ),
    "modify-cmvn-stats of nothing": "modify-cmvn-stats --convert-to-mean-and-var ark:no_stats.ark OUT",
    "transform-feats --utt2spk": "transform-feats --utt2spk=ark:utt2spk ark:speaker_transforms.ark ark:full.ark OUT",
    "append-post-to-feats of files": "append-post-to-feats --post-dim=6 affine.mat two.post out.mat",
    "append-vector-to-feats of files": "append-vector-to-feats affine.mat four.vec out.mat",
    "append-vector-to-feats of none": "append-vector-to-feats ark:/dev/null ark:vectors.ark OUT",
    "concat-feats": "concat-feats affine.mat transform.mat affine.mat out.mat",
    "compose-transforms of files": "compose-transforms transform.mat square.mat out.mat",
    "compose-transforms of an empty file": "compose-transforms square.mat empty.mat out.mat",
    "extend-transform-dim of a file": "extend-transform-dim --new-dimension=7 square.mat out.mat",
    "multiply-vectors --length-tolerance": "multiply-vectors --length-tolerance=1 ark:long.ark ark:vad.ark OUT",
    "multiply-vectors --length-tolerance=-1": "multiply-vectors --length-tolerance=-1 ark:vad.ark ark:vad.ark OUT",
    "multiply-vectors of files": "multiply-vectors four.vec four.vec four.vec out.vec",
    "multiply-vectors of files of lengths": "multiply-vectors four.vec three.vec out.vec",
    "paste-feats --length-tolerance=-1": "paste-feats --length-tolerance=-1 ark:full.ark ark:full.ark OUT",
    "paste-feats of files": "paste-feats affine.mat transform.mat out.mat",
    "paste-feats of files of lengths": "paste-feats affine.mat square.mat out.mat",
}

# Commands for which Kaldi's programs give a different result, by reason (see docs/programs.md).
DEVIATIONS: dict[str, list[str]] = {
    "an utterance without frames is skipped or kept; Kaldi's programs fail an assertion, or count it as done": [
        "compute-cmvn-stats",
        "compute-cmvn-stats of all",
        "compute-cmvn-stats --spk2utt",
        "append-vector-to-feats",
        "compare-feats",
        "post-to-feats",
        "post-to-feats of odd frames",
        "post-to-feats from text",
        "append-post-to-feats",
        "append-post-to-feats sorted",
        "append-post-to-feats from a script",
        "append-post-to-feats lacking some",
        "two-channel statistics",
        "process-kaldi-pitch-feats",
        "process-kaldi-pitch-feats --delay",
        "interpolate-pitch",
        "interpolate-pitch of correlations",
        "copy-feats --compress",
    ],
    "matrices with NaN are written uncompressed": [f"copy-feats --compression-method={n}" for n in range(2, 8)],
    "a damaged archive is an error": [
        "copy-post of a damaged archive",
        "copy-post of a damaged archive, permissive",
        "post-to-feats of a damaged archive",
        "append-post-to-feats, damaged",
        "append-post-to-feats, damaged and permissive",
        "two-channel statistics, damaged",
        "extract-feature-segments, damaged",
        "extract-feature-segments, damaged and permissive",
    ],
    "dimensions may not change": ["compare-feats of dimensions"],
    "a window that --center does not use may be small": ["apply-cmvn-sliding --center"],
    "the speaker is looked up": ["compose-transforms --utt2spk"],
    "a key may be looked up again": ["extract-feature-segments, once"],
}


def words_of(command: str) -> list[str]:
    """Return the words of a command."""
    return [{"IN": IN, "OUT": OUT}.get(word, word) for word in shlex.split(command)]


def program(name: str) -> Any:
    """Return the main function of one of our programs."""
    return importlib.import_module(f"kaldi_compat.programs.{name.replace('-', '_')}").main


def write(kind: Any, name: str, values: dict[str, Any]) -> None:
    with io_ark.Writer[Any](f"ark,scp:{name}.ark,{name}.scp", kind=kind) as writer:
        for key, value in values.items():
            writer[key] = value


def random_matrices(rng: np.random.RandomState, count: int) -> dict[str, npt.NDArray[np.float32]]:
    """Features of 3 columns, mostly of a few frames; some are empty, one is long."""
    lengths = rng.choice([0, 1, 2, 3, 5, 8, 20], count, p=[0.02, 0.1, 0.1, 0.2, 0.2, 0.28, 0.1])
    lengths[count // 2] = 700
    return {f"utt{i:04d}": rng.normal(15, 4, (n, 3)).astype(np.float32) for i, n in enumerate(lengths.tolist())}


def write_tables() -> None:
    """Write the tables that the commands read to this directory."""
    rng = np.random.RandomState(3)
    feats = random_matrices(rng, 240)
    full = {key: value for key, value in feats.items() if value.size}
    write("matrix", "in", feats)
    write("matrix", "full", full)
    hard = {key: value.round() if i % 3 else value * 1e30 for i, (key, value) in enumerate(full.items())}
    hard |= {"constant": np.full((9, 3), -7, np.float32), "zeros": np.array([[-0.0, 0.0], [3, 2]], np.float32)}
    hard |= {"not_a_number": np.array([[np.nan]], np.float32), "end": np.eye(30, dtype=np.float32)}
    write("matrix", "hard", hard)
    write("double-matrix", "doubles", feats)
    mixed = {key: value[:, : 2 + i % 90 // 60] for i, (key, value) in enumerate(full.items())}
    write("matrix", "mixed", mixed)
    with io_ark.Writer[Any]("ark,t:text.ark", kind="matrix") as text:
        for key, value in feats.items():
            text[key] = value
    Path("targets.scp").write_text("".join(f"{key} out_{key}\n" for key in feats))
    Path("some").write_text("".join(f"{key}\n" for key in list(feats)[::3]))
    Path("spk2utt").write_text(f"a {' '.join(list(feats)[:50])}\nb {' '.join(list(feats)[90:])} absent\n")
    Path("utt2spk").write_text("".join(f"{key} {'ab'[i % 2]}\n" for i, key in enumerate(list(feats)[:200])))
    stats = program("compute-cmvn-stats")
    for source, target in (IN, "ark,scp:stats.ark,stats.scp"), ("ark:full.ark", "all.stats"):
        assert stats([source, target]) == 0
    assert stats(["--spk2utt=ark:spk2utt", IN, "ark:speakers.ark"]) == 0
    assert program("compute-vad")(["--vad-energy-threshold=12", IN, "ark,scp:vad.ark,vad.scp"]) == 0
    vectors = {key: rng.normal(size=4).astype(np.float32) for key in feats}
    write("vector", "vectors", vectors)
    write("vector", "reversed", dict(sorted(vectors.items(), reverse=True)))
    write("vector", "some_vectors", {key: each for i, (key, each) in enumerate(vectors.items()) if i % 60})
    write("matrix", "longer", {key: each.repeat(1 + (len(each) == 2), axis=0) for key, each in feats.items()})
    io_ark.save("square.mat", rng.normal(size=(3, 3)).astype(np.float32), kind="matrix")
    io_ark.save("transform.mat", rng.normal(size=(2, 4)).astype(np.float32), kind="matrix")
    posteriors = {key: [[(int(row[0]) % 4, float(row[1]))] for row in each] for key, each in feats.items()}
    write("posterior", "post", posteriors)
    hard_posteriors = {
        key: [
            [(int(rng.randint(0, 6)), float(np.float32(rng.normal()))) for _ in range(rng.randint(0, 4))] for _ in each
        ]
        for key, each in feats.items()
    }
    write("posterior", "hard_post", hard_posteriors)
    write("posterior", "some_post", {key: each for key, each in hard_posteriors.items() if int(key[3:]) % 40})
    with io_ark.Writer[Any]("ark,t:hard_post.txt", kind="posterior") as text:
        for key, frames in hard_posteriors.items():
            text[key] = frames
    for name in "hard_post", "full":
        data = Path(f"{name}.ark").read_bytes()
        Path(f"cut{name.removeprefix('hard').removeprefix('full')}.ark").write_bytes(data[: 2 * len(data) // 3])
    write("vector", "lengths", {key: rng.normal(size=len(each)).astype(np.float32) for key, each in feats.items()})
    for name, keys in ("calls", list(feats)), ("full_calls", list(full)):
        lines = [f"{key} {'call' if i % 50 else 'three'}{i // 2} {'AB'[i % 2]}\n" for i, key in enumerate(keys)]
        Path(name).write_text("".join(lines) + ("absent call7000 A\n" if name == "calls" else ""))
    ends = {key: len(each) / 100 for key, each in feats.items()}
    lines = [
        f"{key}-0 {key} {end * 0.2 if i % 7 else 0:g} {end + (i % 9 == 8):.3f}\n"
        for i, (key, end) in enumerate(ends.items())
    ]
    lines[30:30] = [
        "bad\n",
        "a utt0005 1x 2\n",
        "b utt0006\t0 1e-1 0\n",
        "c absent 0 1\n",
        "d utt0100 0 -1\n",
        "\n",
    ]
    Path("segments").write_text("".join(lines))
    Path("plain_segments").write_text("".join(f"{key}-{i} {key} 0 {ends[key]:.2f}\n" for key in full for i in range(2)))
    write("matrix", "speaker_transforms", {key: np.eye(4, dtype=np.float32)[:, : 3 + (key == "b")] for key in "ab"})
    io_ark.save("affine.mat", rng.normal(size=(2, 4)).astype(np.float32), kind="matrix")
    shapes = {key: (4, 2 + i // 100) for i, key in enumerate(feats) if i % 60 != 59}
    write("matrix", "some_transforms", {key: rng.normal(size=each).astype(np.float32) for key, each in shapes.items()})
    transforms = {key: rng.normal(size=(3, 4)).astype(np.float32) for key in feats}
    write("matrix", "transforms", transforms)
    with io_ark.Writer[Any]("ark,t:ints.txt", kind="int-vector") as numbers:
        for i, key in enumerate(feats):
            numbers[key] = np.arange(i % 5, dtype=np.int32)
    tracks = {key: each[:, :2] * [0.05, 9] for key, each in feats.items()}
    write("matrix", "pitch", {key: np.abs(each).astype(np.float32) for key, each in tracks.items()})
    write("matrix", "negative", {key: each.astype(np.float32) for key, each in tracks.items()})
    voicing = {key: np.abs(each[:, [0, 1, 0]]).clip(0.05, [1, 900, 1]) for key, each in tracks.items()}
    write("matrix", "voicing", {key: each.astype(np.float32) for key, each in voicing.items()})
    gaps = {key: np.where(each > 95, 0, each) for key, each in tracks.items()}
    write("matrix", "gaps", {key: np.abs(each).astype(np.float32) for key, each in gaps.items()})
    write("int-vector", "ints", {key: each[:, 0].astype(np.int32) for key, each in feats.items()})
    weights = {
        key: rng.rand(len(each) + (i % 50 == 9)) for i, (key, each) in enumerate(list(full.items())[:80]) if i % 60
    }
    write("vector", "weights", {key: each.astype(np.float32) for key, each in weights.items()})
    write(
        "vector",
        "long",
        {key: np.ones(len(each) + i % 3, "f4") for i, (key, each) in enumerate(feats.items())},
    )
    write("double-matrix", "no_stats", {"a": np.zeros((2, 3)), "b": np.full((2, 3), 2.0), "c": -np.ones((2, 3))})
    io_ark.save("two.post", [[(1, 0.5), (2, 0.25), (2, 0.75)], []], kind="posterior")
    for name, numbers in ("four", [1, -2, 3, 0.5]), ("three", [1, 2, 3]):
        io_ark.save(f"{name}.vec", np.array(numbers, np.float32), kind="vector")
    io_ark.save("empty.mat", np.zeros((0, 0), np.float32), kind="matrix")


def remove_outputs() -> None:
    """Remove the outputs of the command before."""
    for name in os.listdir("."):
        if name.startswith("out"):
            os.remove(name)


def left(status: int, log: str) -> dict[str, Any]:
    """Return the success of a command, digests of its files, the number of its warnings, and its last log line."""
    messages = re.findall(r"^(LOG|WARNING) \([^)]*\(\)[^)]*\) (.*)", log, re.MULTILINE)
    files = sorted(name for name in os.listdir(".") if name.startswith("out"))
    digests = {name: hashlib.sha256(Path(name).read_bytes()).hexdigest()[:12] for name in files}
    totals = [text for kind, text in messages if kind == "LOG"][-1:]
    return {
        "ok": status == 0,
        "files": digests,
        "warnings": sum(kind == "WARNING" for kind, _ in messages),
        "totals": "".join(totals),
    }


def main(directory: str) -> None:
    """Run Kaldi's programs of a directory and store what they leave."""
    stored = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_tables()
        for name, command in COMMANDS.items():
            remove_outputs()
            ours, *arguments = words_of(command)
            result = subprocess.run([f"{directory}/{ours}", *arguments], capture_output=True)
            stored[name] = left(result.returncode, result.stderr.decode("utf8", "replace"))
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(digest)}" for name, digest in stored.items())
    STORED.write_text(f"{{\n{rows}\n}}\n")


if __name__ == "__main__":
    main(sys.argv[1])
