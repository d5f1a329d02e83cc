"""Blocks of utterances that the stages of a dump exchange: audio, features, and failures.

A block of audio or features has consecutive utterances of an archive's list. A long utterance is a block by itself.
Every block has a number of utterances (``len``), the position of its first utterance (``index``), the duration of its
audio (``seconds``), and its size in memory (``nbytes``). A failure is a block of one utterance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from io_ark.blocks import ArrayBlock, Block, PackedBlock, Wave, WaveBlock, create_block
from io_ark.text import escape_controls, shorten
from kaldi_compat.cli.objects import compute_durations, list_waves
from kaldi_compat.dump.errors import format_error, remove_key
from kaldi_compat.dump.options import FEATS
from kaldi_compat.exact.arrays import Doubles, Integers

if TYPE_CHECKING:
    from typing_extensions import Self


class OnGrid(NamedTuple):
    """Place of the samples of utterances in memory from which a device can copy."""

    tensor: Any  # All samples of the memory, as an int16 tensor.
    start: int  # Index in ``tensor`` of the first sample of the utterances.


@dataclass(frozen=True)
class Failure:
    """An utterance whose features could not be computed."""

    index: int  # Position of the utterance in the archive's list.
    key: str  # Name of the utterance.
    reason: str  # Cause in one short, printable line without the key.

    seconds = 0.0
    nbytes = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", escape_controls(shorten(" ".join(self.reason.split()))))

    def __len__(self) -> int:
        return 1

    def separate(self) -> list[Failure]:
        """Return a list with only this failure, as :meth:`Utterances.separate` does for a single utterance."""
        return [self]


def make_failure(index: int, key: str, error: BaseException) -> Failure:
    """Return the failure of the utterance ``key`` at position ``index``, whose processing raised ``error``."""
    if isinstance(error, MemoryError):
        return Failure(index, key, "the memory is too small for this utterance: cut the audio into segments")
    return Failure(index, key, remove_key(key, format_error(error)))


@dataclass(frozen=True)
class Utterances:
    """Consecutive utterances of an archive's list."""

    index: int  # Position of the first utterance in the archive's list.
    block: Block  # Keys, and audio or features.

    def __len__(self) -> int:
        return len(self.block)

    @property
    def key(self) -> str:
        """Key of the only utterance. A block of several utterances raises ValueError."""
        (name,) = self.block.decode_keys()
        return name

    @property
    def value(self) -> Any:
        """Audio or features of the only utterance. A block of several utterances raises ValueError."""
        ((_, value),) = self.block.entries()
        return value

    def split(self, bounds: Sequence[int]) -> list[Self]:
        """Split the utterances at ``bounds``, indices that start with 0 and end with ``len(self)``. Copy no samples."""
        blocks = zip(pairwise(bounds), self.block.split(bounds), strict=True)
        return [self._make_part(slice(first, end), block) for (first, end), block in blocks]

    def _make_part(self, utterances: slice, block: Block) -> Self:
        return replace(self, index=self.index + utterances.start, block=block)

    def halve(self) -> list[Self]:
        """Split the utterances into two parts. For an odd number of utterances, the second part is longer."""
        return self.split([0, len(self) // 2, len(self)])

    def separate(self) -> list[Self]:
        """Split the utterances into single utterances."""
        return self.split(range(len(self) + 1))

    @property
    def nbytes(self) -> int:
        """Number of bytes of the samples, features or encoded entries in memory."""
        block = self.block
        if isinstance(block, ArrayBlock):
            return block.values.nbytes
        if isinstance(block, PackedBlock):
            return block.data.nbytes
        if isinstance(block, WaveBlock):
            return block.samples.nbytes
        return sum(wave.samples.nbytes for wave in list_waves(block))


@dataclass(frozen=True)
class Audio(Utterances):
    """Audio of utterances."""

    # Place of the block's samples in memory from which a device can copy. None for samples in other memory.
    place: OnGrid | None = None

    @classmethod
    def from_wave(cls, index: int, key: str, wave: Wave, place: OnGrid | None = None) -> Audio:
        """Make the audio of the utterance ``key``, which has the position ``index`` in the archive's utterance list.

        ``place`` is the place of the samples if they are in memory from which a device can copy, and otherwise None.
        """
        return cls(index, create_block([key], [wave]), place)

    def get_durations(self) -> Doubles:
        """Return the durations of the utterances in seconds, as an array of shape (utterances,)."""
        return compute_durations(self.block)

    @property
    def seconds(self) -> float:
        """Total duration of the audio in seconds."""
        return float(self.get_durations().sum())


@dataclass(frozen=True)
class Features(Utterances):
    """Features of utterances."""

    durations: Doubles  # (utterances,): duration of the audio of each utterance in seconds.
    name: str = FEATS  # Name of the output. An utterance has the same position in all outputs.

    @classmethod
    def from_array(cls, audio: Audio, features: Any) -> Features:
        """Make the features of the only utterance in ``audio`` from an array, such as a matrix (frames, dim)."""
        return cls(audio.index, create_block([audio.key], [features]), audio.get_durations())

    @property
    def seconds(self) -> float:
        """Total duration of the audio in seconds."""
        return float(self.durations.sum())

    def _make_part(self, utterances: slice, block: Block) -> Self:
        return replace(super()._make_part(utterances, block), durations=self.durations[utterances])


@dataclass(frozen=True)
class Encoded(Features):
    """Features and their keys, encoded as entries of an archive."""

    block: PackedBlock  # Entries with their keys, as bytes of the archive.
    frames: Integers = field(kw_only=True)  # (utterances,): number of rows of each matrix.
    left_uncompressed: int = 0  # Number of matrices that were not compressed because of NaN or infinities.


AudioOrFailure = Audio | Failure
FeaturesOrFailure = Features | Failure
