"""Audio, and blocks of audio."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from io_ark.blocks.base import Block, Integers, Mask, encode_keys, select_keys


class Wave(NamedTuple):
    """Audio of one or more channels of 16-bit samples.

    Attributes:
        sample_frequency: sampling rate in Hz.
        samples: int16 of shape (channels, samples).

    >>> import io_ark, numpy as np
    >>> io_ark.Wave(16000.0, np.zeros((1, 8000), np.int16)).duration
    0.5
    """

    sample_frequency: float
    samples: npt.NDArray[Any]

    @property
    def duration(self) -> float:
        """Duration of the audio in seconds."""
        return float(self.samples.shape[1] / self.sample_frequency)


class WaveInfo(NamedTuple):
    """Fields of the header of a wave file.

    Attributes:
        sample_frequency: sampling rate in Hz.
        channels: number of channels.
        sample_count: samples per channel, or None if the header lacks it (audio written to a pipe).
        big_endian: True for big-endian samples (RIFX).
        data_bytes: number of bytes of samples, or None if the header lacks it.

    >>> import io_ark, numpy as np, tempfile
    >>> name = tempfile.mkdtemp() + "/a.wav"
    >>> io_ark.save(name, io_ark.Wave(16000.0, np.zeros((1, 8000), np.int16)))
    >>> info = io_ark.load(name, kind="wave-info")
    >>> info.duration, info.shape
    (0.5, (1, 8000))
    """

    sample_frequency: float
    channels: int
    sample_count: int | None
    big_endian: bool
    data_bytes: int | None

    @property
    def duration(self) -> float | None:
        """Duration of the audio in seconds, or None if the header lacks the number of samples."""
        return None if self.sample_count is None else self.sample_count / self.sample_frequency

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of channels and of samples per channel, or () if the header lacks the number of samples."""
        return () if self.sample_count is None else (self.channels, self.sample_count)


@dataclass(frozen=True, eq=False)
class WaveBlock(Block):
    """Block of entries whose values are audio with one channel of 16-bit samples and an integer sampling rate."""

    keys: bytes
    # (samples,) int16: buffer of the samples of all entries. Entries need not be adjacent.
    samples: npt.NDArray[np.int16]
    starts: Integers  # (entries,) int64: index of the first sample of each entry.
    lengths: Integers  # (entries,) int64: number of samples of each entry.
    rates: npt.NDArray[np.uint32]  # (entries,) uint32: sampling rate of each entry in Hz.
    only_headers: bool = False  # True if the samples were not read. Values are then WaveInfo.

    @classmethod
    def from_wave(cls, key: str, wave: Wave) -> WaveBlock:
        """Return a block of one entry without copying the samples. :meth:`can_hold` must accept the audio."""
        return cls.concatenate([(key, wave)])

    @classmethod
    def concatenate(cls, entries: Sequence[tuple[str, Wave]]) -> WaveBlock:
        """Return a block of one or more entries. :meth:`can_hold` must accept their audio.

        The samples of several entries are copied into one array.
        """
        lengths = np.array([wave.samples.shape[1] for _, wave in entries], np.int64)
        rates = np.array([wave.sample_frequency for _, wave in entries], np.uint32)
        channels = [wave.samples[0] for _, wave in entries]
        samples = channels[0] if len(channels) == 1 else np.concatenate(channels)
        return cls(encode_keys([key for key, _ in entries]), samples, np.cumsum(lengths) - lengths, lengths, rates)

    @staticmethod
    def can_hold(wave: Wave) -> bool:
        """Return True if a WaveBlock can hold this audio: one channel of int16, with an integer sampling rate."""
        samples = wave.samples
        return len(samples) == 1 and samples.dtype == np.int16 and wave.sample_frequency % 1 == 0

    def compute_durations(self) -> npt.NDArray[np.float64]:
        """Return the duration of each entry in seconds, shape (entries,), rounded to float32 as in Kaldi."""
        return (self.lengths.astype(np.float32) / self.rates.astype(np.float32)).astype(np.float64)

    def __len__(self) -> int:
        return len(self.starts)

    def entries(self) -> Iterator[tuple[str, Any]]:
        """Iterate over keys and audio: a Wave with a view of the samples, or a WaveInfo if ``only_headers``."""
        sections = zip(self.starts.tolist(), self.lengths.tolist(), self.rates.tolist(), strict=True)
        for key, (start, length, rate) in zip(self.decode_keys(), sections, strict=True):
            frequency = float(np.float32(rate))  # Kaldi stores sampling rates as float32.
            if self.only_headers:
                yield key, WaveInfo(frequency, channels=1, sample_count=length, big_endian=False, data_bytes=2 * length)
            else:
                yield key, Wave(frequency, self.samples[start : start + length][None])

    def select(self, mask: Mask) -> WaveBlock:
        """Return a block of the entries for which ``mask`` is true. No samples are copied."""
        return replace(
            self,
            keys=select_keys(self.keys, mask),
            starts=self.starts[mask],
            lengths=self.lengths[mask],
            rates=self.rates[mask],
        )
