"""Code of a user of io_ark, for type checkers: each line marked ``# error`` must be refused, and no other line.

Not run. ``test_user_code.py`` runs mypy and pyright over this file.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import assert_type

import io_ark
from io_ark.codecs.compressed import CompressedMatrix

Float32 = npt.NDArray[np.float32]

# Values have the type of the kind.
assert_type(io_ark.load_scp("feats.scp", kind="matrix")["utt"], Float32)
assert_type(io_ark.load_scp("feats.scp", kind="double-vector")["utt"], npt.NDArray[np.float64])
assert_type(io_ark.load_scp("wav.scp", kind="wave")["utt"], io_ark.Wave)
found = io_ark.load_scp("feats.scp")["utt"]
assert_type(found, Any)
print(found.shape, found.sample_frequency)
for _, value in io_ark.read("ark:feats.ark"):
    value.upper()
assert_type(io_ark.load("mean.vec", kind="vector"), Float32)
io_ark.load("mean.vec").tolist()
assert_type(io_ark.load("feats.ark:17", kind="compressed-matrix"), CompressedMatrix)
assert_type(io_ark.load("count", kind="int"), int)
for key, frames in io_ark.read("ark:feats.ark", kind="matrix"):
    assert_type(key, str)
    assert_type(frames, Float32)

with io_ark.SequentialReader("scp:feats.scp", kind="matrix") as reader:
    for key, matrix in reader:
        assert_type((key, matrix), tuple[str, Float32])
    for key, load in reader.entries():
        assert_type((key, load()), tuple[str, Float32])
with io_ark.RandomAccessReader("scp:post.scp", kind="posterior", utt2spk="ark:utt2spk") as lookup:
    assert_type(lookup["utt"], list[list[tuple[int, float]]])
    assert_type(lookup.get("utt"), list[list[tuple[int, float]]] | None)
with io_ark.RandomAccessReader("ark:vtln", kind="float") as factors:
    assert_type(factors.get("utt", 1.0), float)
with io_ark.RandomAccessReader("ark:utt2spk", kind="token") as speakers:
    speakers["utt"].upper()
    speakers["utt"].mean()  # error


def copy(kind: io_ark.Kind, source: str, target: str) -> None:
    """A kind in a variable."""
    with io_ark.SequentialReader(source, kind=kind) as reader, io_ark.Writer(target, kind=kind) as writer:
        for key, value in reader:
            writer[key] = value
    copied: Any = io_ark.load("mean.vec", kind=kind)
    io_ark.save("copy.vec", copied, kind=kind)


# Misspelt kinds.
io_ark.load_scp("feats.scp", kind="matirx")  # error
io_ark.SequentialReader("scp:feats.scp", kind="matirx")  # error
io_ark.RandomAccessReader("scp:feats.scp", kind="matirx")  # error
io_ark.Writer("ark:feats.ark", kind="matirx")  # error
io_ark.load("mean.vec", kind="matirx")  # error
io_ark.save("mean.vec", found, kind="matirx")  # error

# Writers take what can be written as their kind.
with io_ark.Writer("ark:feats.ark", kind="matrix") as writer:
    writer["utt"] = np.zeros((2, 3))
    writer["utt"] = [[1.0, 2.0]]
    writer["utt"] = None  # error
with io_ark.Writer("ark,t:utt2spk", kind="token") as tokens:
    tokens["utt"] = "speaker"
    tokens["utt"] = 3  # error
with io_ark.writer("ark:feats.ark", compress="speech") as any_writer:
    any_writer["utt"] = np.zeros((2, 3))
io_ark.save("factor", 1.0, kind="float")
io_ark.save("factor", "one", kind="float")  # error

# Named tuples have their fields.
wave = io_ark.load("a.wav", kind="wave")
assert_type(wave.sample_frequency, float)
print(wave.sample_rate)  # error
io_ark.__version__.split(".")
