"""Entries that the stages of a dump pass on: audio, features, and utterances that failed.

Audio and features are blocks of utterances that follow each other in an archive's list; a long utterance is a block of
one. All entries have the number of their utterances (``len``), the position of the first one (``index``), their seconds
of audio and their bytes in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from io_ark.blocks import ArrayBlock, Block, PackedBlock, Wave, WaveBlock, block_of
from io_ark.text import printable
from kaldi_compat.cli.objects import durations_of, waves_of
from kaldi_compat.dump.errors import one_line
from kaldi_compat.dump.failures import reason_for, shorten
from kaldi_compat.dump.options import FEATS
from kaldi_compat.exact.arrays import Doubles, Integers

if TYPE_CHECKING:
    from typing_extensions import Self


class OnGrid(NamedTuple):
    """Place of samples in memory that a device can copy from.

    Attributes:
        tensor: the memory, int16.
        start: the first sample there.
    """

    tensor: Any
    start: int


@dataclass(frozen=True)
class Failure:
    """An utterance without features.

    Attributes:
        index: its position in the archive's list.
        key: its name.
        reason: the cause in one short line that a terminal can show, which does not repeat the key.
    """

    index: int
    key: str
    reason: str

    seconds = 0.0
    nbytes = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", printable(shorten(" ".join(self.reason.split()))))

    def __len__(self) -> int:
        return 1

    def each(self) -> list[Failure]:
        """Return the failure, as other entries return those of each utterance."""
        return [self]


def failed(index: int, key: str, error: BaseException) -> Failure:
    """Return the failure that an error means for an utterance."""
    if isinstance(error, MemoryError):
        return Failure(index, key, "not enough memory for it: cut it into segments")
    return Failure(index, key, reason_for(key, one_line(error)))


@dataclass(frozen=True)
class Utterances:
    """Utterances that follow each other in an archive's list.

    Attributes:
        index: position of the first one.
        block: their keys, and audio or features.
    """

    index: int
    block: Block

    def __len__(self) -> int:
        return len(self.block)

    @property
    def key(self) -> str:
        """Name of the only utterance."""
        (name,) = self.block.names()
        return name

    @property
    def value(self) -> Any:
        """Audio or features of the only utterance."""
        ((_, value),) = self.block.entries()
        return value

    def split(self, bounds: Sequence[int]) -> list[Self]:
        """Return the utterances between these: from 0, ascending, to their number. Samples are not copied."""
        blocks = zip(pairwise(bounds), self.block.split(bounds), strict=True)
        return [self._part(slice(first, end), block) for (first, end), block in blocks]

    def _part(self, own: slice, block: Block) -> Self:
        return replace(self, index=self.index + own.start, block=block)

    def halves(self) -> list[Self]:
        """Return the first and the second half of several utterances."""
        return self.split([0, len(self) // 2, len(self)])

    def each(self) -> list[Self]:
        """Return the utterances one by one."""
        return self.split(range(len(self) + 1))

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        block = self.block
        if isinstance(block, ArrayBlock):
            return block.values.nbytes
        if isinstance(block, PackedBlock):
            return block.data.nbytes
        return block.samples.nbytes if isinstance(block, WaveBlock) else sum(x.samples.nbytes for x in waves_of(block))


@dataclass(frozen=True)
class Audio(Utterances):
    """Audio to compute features of.

    Attributes:
        place: where the first sample of the block's samples is, if a device can copy them from there.
    """

    place: OnGrid | None = None

    @classmethod
    def of(cls, index: int, key: str, wave: Wave, place: OnGrid | None = None) -> Audio:
        """Return the audio of one utterance."""
        return cls(index, block_of([key], [wave]), place)

    def durations(self) -> Doubles:
        """Return the duration of each utterance in seconds."""
        return durations_of(self.block)

    @property
    def seconds(self) -> float:
        """Seconds of audio."""
        return float(self.durations().sum())


@dataclass(frozen=True)
class Features(Utterances):
    """Features of utterances.

    Attributes:
        durations: (utterances,): of the audio, in seconds.
        name: of the output that they belong to; an utterance has the same position in each.
    """

    durations: Doubles
    name: str = FEATS

    @classmethod
    def of(cls, audio: Audio, features: Any) -> Features:
        """Return the features of one utterance."""
        return cls(audio.index, block_of([audio.key], [features]), audio.durations())

    @property
    def seconds(self) -> float:
        """Seconds of audio."""
        return float(self.durations.sum())

    def _part(self, own: slice, block: Block) -> Self:
        return replace(super()._part(own, block), durations=self.durations[own])


@dataclass(frozen=True)
class Encoded(Features):
    """Features as they are stored in the archive.

    Attributes:
        block: the keys, and the entries in the archive.
        frames: (utterances,): rows of each matrix.
        left_uncompressed: how many should have been compressed, but have values that cannot be.
    """

    block: PackedBlock
    frames: Integers = field(kw_only=True)
    left_uncompressed: int = 0


Entry = Audio | Failure
Result = Features | Failure
