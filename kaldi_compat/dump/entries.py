"""What the stages of a dump pass on: audio, features, and utterances that failed.

Audio and features are blocks of utterances that follow each other in an archive's list; a long utterance is a block of
one. All entries have the number of their utterances (``len``), the position of the first one (``index``), their seconds
of audio and their bytes in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from io_ark.blocks import ArrayBlock, Block, Wave, WaveBlock, block_of
from kaldi_compat.cli.objects import durations_of
from kaldi_compat.dump.errors import one_line
from kaldi_compat.dump.failures import reason_for

Doubles = npt.NDArray[np.float64]


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
        reason: the cause in one line, which does not repeat the key.
    """

    index: int
    key: str
    reason: str

    seconds = 0.0
    nbytes = 0

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
class Audio:
    """Audio to compute features of.

    Attributes:
        index: position of the first utterance.
        block: keys and audio.
        place: where the first sample of the block's samples is, if a device can copy them from there.
    """

    index: int
    block: Block
    place: OnGrid | None = None

    @classmethod
    def of(cls, index: int, key: str, wave: Wave, place: OnGrid | None = None) -> Audio:
        """Return the audio of one utterance."""
        return cls(index, block_of([key], [wave]), place)

    def __len__(self) -> int:
        return len(self.block)

    @property
    def key(self) -> str:
        """Name of the only utterance."""
        (name,) = self.block.names()
        return name

    @property
    def wave(self) -> Wave:
        """Audio of the only utterance."""
        ((_, wave),) = self.block.entries()
        found: Wave = wave
        return found

    def durations(self) -> Doubles:
        """Return the duration of each utterance in seconds."""
        return durations_of(self.block)

    @property
    def seconds(self) -> float:
        """Seconds of audio."""
        return float(self.durations().sum())

    @property
    def nbytes(self) -> int:
        """Bytes of the samples."""
        if isinstance(self.block, WaveBlock):
            return self.block.samples.nbytes
        return sum(wave.samples.nbytes for _, wave in self.block.entries())

    def each(self) -> list[Audio]:
        """Return the audio of the utterances one by one; samples are not copied."""
        if len(self) == 1:
            return [self]
        starts = self.block.starts.tolist() if isinstance(self.block, WaveBlock) else [0] * len(self)
        found = []
        for i, ((key, wave), start) in enumerate(zip(self.block.entries(), starts, strict=True)):
            place = None if self.place is None else OnGrid(self.place.tensor, self.place.start + start)
            found.append(Audio.of(self.index + i, key, wave, place))
        return found

    def halves(self) -> list[Audio]:
        """Return the audio of the first and of the second half of several utterances."""
        middle = len(self) // 2
        first = np.arange(len(self)) < middle
        second = Audio(self.index + middle, self.block.select(~first), self.place)
        return [Audio(self.index, self.block.select(first), self.place), second]


@dataclass(frozen=True)
class Features:
    """Features of utterances.

    Attributes:
        index: position of the first utterance.
        block: keys and features, (frames, dim) each, compressed if the device did that.
        durations: (utterances,): of the audio, in seconds.
        stats: CMVN statistics of what the features read back as, (utterances, 2, dim + 1), if the device counted them.
    """

    index: int
    block: Block
    durations: Doubles
    stats: Doubles | None = None

    @classmethod
    def of(cls, audio: Audio, features: Any, stats: Doubles | None = None) -> Features:
        """Return the features of one utterance."""
        return cls(audio.index, block_of([audio.key], [features]), audio.durations(), stats)

    def __len__(self) -> int:
        return len(self.block)

    @property
    def key(self) -> str:
        """Name of the only utterance."""
        (name,) = self.block.names()
        return name

    @property
    def matrix(self) -> Any:
        """Features of the only utterance."""
        ((_, matrix),) = self.block.entries()
        return matrix

    @property
    def seconds(self) -> float:
        """Seconds of audio."""
        return float(self.durations.sum())

    @property
    def nbytes(self) -> int:
        """Bytes of the features."""
        if isinstance(self.block, ArrayBlock):
            return self.block.values.nbytes
        return sum(matrix.codes.nbytes for _, matrix in self.block.entries())

    def each(self) -> list[Features]:
        """Return the features of the utterances one by one; numbers are not copied."""
        if len(self) == 1:
            return [self]
        found = []
        for i, (key, matrix) in enumerate(self.block.entries()):
            stats = None if self.stats is None else self.stats[i : i + 1]
            found.append(Features(self.index + i, block_of([key], [matrix]), self.durations[i : i + 1], stats))
        return found


Entry = Audio | Failure
Result = Features | Failure
