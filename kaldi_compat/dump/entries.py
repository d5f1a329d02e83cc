"""Entries that the stages of a dump pass on: audio, features, and utterances that failed.

Audio and features are blocks of consecutive utterances of an archive's list; a long utterance is a block by itself.
Every entry has a number of utterances (``len``), the position of its first utterance (``index``), the seconds of its
audio, and its size in memory.
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
        start: index of the first sample.
    """

    tensor: Any
    start: int


@dataclass(frozen=True)
class Failure:
    """An utterance without features.

    Attributes:
        index: position of the utterance in the archive's list.
        key: name of the utterance.
        reason: cause in one short, printable line without the key.
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
        """Return a list of this failure, like the methods of blocks that return a list of utterances."""
        return [self]


def failed(index: int, key: str, error: BaseException) -> Failure:
    """Return the failure of an utterance whose processing raised an error."""
    if isinstance(error, MemoryError):
        return Failure(index, key, "not enough memory for it: cut it into segments")
    return Failure(index, key, reason_for(key, one_line(error)))


@dataclass(frozen=True)
class Utterances:
    """Consecutive utterances of an archive's list.

    Attributes:
        index: position of the first utterance.
        block: keys, and audio or features.
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
        """Split the utterances at ascending bounds, from 0 to the number of utterances. Samples are not copied."""
        blocks = zip(pairwise(bounds), self.block.split(bounds), strict=True)
        return [self._part(slice(first, end), block) for (first, end), block in blocks]

    def _part(self, utterances: slice, block: Block) -> Self:
        return replace(self, index=self.index + utterances.start, block=block)

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
    """Audio of utterances.

    Attributes:
        place: place of the block's first sample if the samples are in memory that a device can copy from.
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
        durations: (utterances,), durations of the audio in seconds.
        name: name of the output. An utterance has the same position in all outputs.
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

    def _part(self, utterances: slice, block: Block) -> Self:
        return replace(super()._part(utterances, block), durations=self.durations[utterances])


@dataclass(frozen=True)
class Encoded(Features):
    """Features encoded for the archive.

    Attributes:
        block: keys and entries of the archive.
        frames: (utterances,), number of rows of each matrix.
        left_uncompressed: number of matrices that were not compressed because of NaN or infinities.
    """

    block: PackedBlock
    frames: Integers = field(kw_only=True)
    left_uncompressed: int = 0


Entry = Audio | Failure
Result = Features | Failure
