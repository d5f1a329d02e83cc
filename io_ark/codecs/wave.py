"""Audio: RIFF and RIFX wave files of 16-bit linear samples.

Source: ``WaveInfo::Read``, ``WaveData::Read`` and ``WaveData::Write`` in Kaldi's ``src/feat/wave-reader.cc``.
"""

from __future__ import annotations

import logging
import math
import struct
import sys
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from io_ark.codecs.base import Codec, Sink, raw_bytes, shown
from io_ark.errors import FormatError, TruncatedError
from io_ark.streams.source import Source

logger = logging.getLogger("io_ark")

_PCM = 1
_EXTENSIBLE = 0xFFFE
# The GUID 00000001-0000-0010-8000-00aa00389b71 as it stands in a little-endian file.
_PCM_SUBTYPE = (0x00000001, 0x00100000, 0xAA000080, 0x719B3800)
# Sizes that programs write when they do not know yet how much audio will come (the last of them: sox).
_UNKNOWN_RIFF_SIZES = (0, 0xFFFFFFFF)
_UNKNOWN_DATA_SIZES = (0, 0xFFFFFFFF, 0x7FFFF000)
_PIECE = 1 << 20


class Wave(NamedTuple):
    """Audio.

    Attributes:
        sample_frequency: in Hz.
        samples: int16 of shape (channels, samples).
    """

    sample_frequency: float
    samples: npt.NDArray[Any]

    @property
    def duration(self) -> float:
        """In seconds."""
        return float(self.samples.shape[1] / self.sample_frequency)


class WaveInfo(NamedTuple):
    """What the header of a wave file says about its audio.

    Attributes:
        sample_frequency: in Hz.
        channels: how many.
        sample_count: of each channel; None if the header does not say (audio written to a pipe).
        big_endian: whether the samples are (RIFX).
        data_bytes: how many bytes of samples the header announces; None if it does not say.
    """

    sample_frequency: float
    channels: int
    sample_count: int | None
    big_endian: bool
    data_bytes: int | None

    @property
    def duration(self) -> float | None:
        """In seconds; None if the header does not say."""
        return None if self.sample_count is None else self.sample_count / self.sample_frequency

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels and samples; () if the header does not say."""
        return () if self.sample_count is None else (self.channels, self.sample_count)


class _Chunks:
    """Reads a RIFF file's fields in its byte order, and counts its bytes."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._start = source.tell()
        tag = source.peek(4)
        if tag not in (b"RIFF", b"RIFX"):
            source.fail(f"a wave file starts with RIFF or RIFX, not {shown(tag)}")
        source.skip(4)
        self.big_endian = tag == b"RIFX"
        self._order = ">" if self.big_endian else "<"
        self.riff_size = self.integers("I")[0]
        if source.peek(4) != b"WAVE":
            source.fail(f"a wave file should say WAVE here, not {shown(source.peek(4))}")
        source.skip(4)

    def integers(self, layout: str) -> tuple[int, ...]:
        """Unsigned integers: ``H`` of 16 bits, ``I`` of 32."""
        fields = struct.Struct(self._order + layout)
        return fields.unpack(self._source.read(fields.size))

    def enter(self, tag: bytes) -> int:
        """Go past other chunks into the one with this tag; its size."""
        while True:
            found = bytes(self._source.read(4))
            (size,) = self.integers("I")
            if found == tag:
                return size
            if found == b"fact" and size != 4:
                logger.warning("%s: a fact chunk of %d bytes instead of 4", self._source.name, size)
            self._source.skip(size)
            # A zero follows a chunk of odd size by the standard; not all writers know, nor does Kaldi. No tag is so.
            if size % 2 and self._source.peek(1) == b"\0":
                self._source.skip(1)

    @property
    def count(self) -> int:
        """Bytes read that the RIFF chunk's size should count: all but its tag and the size itself."""
        return self._source.tell() - self._start - 8


def read_info(source: Source) -> WaveInfo:
    """The header of a wave file, up to its samples."""
    chunks = _Chunks(source)
    size = chunks.enter(b"fmt ")
    at = source.tell()

    def refuse(message: str) -> NoReturn:
        source.fail(f"a wave file {message}", at)

    coding, channels, rate, byte_rate, block, bits = chunks.integers("HHIIHH")
    done = 16
    if coding == _EXTENSIBLE:
        (extra,) = chunks.integers("H")
        subtype = chunks.integers("HIIIII")[2:]
        done = 40
        if size < 40 or extra < 22:
            refuse("in the extensible format with a format chunk that is too short")
        if subtype != _PCM_SUBTYPE:
            refuse("in the extensible format whose samples are not linear PCM: convert it to 16-bit PCM first")
    elif coding != _PCM:
        refuse(f"whose samples are not linear PCM (format {coding}): convert it to 16-bit PCM first")
    if size < 16:
        refuse(f"with a format chunk of {size} bytes, where 16 are the least")
    source.skip(size - done)
    if channels == 0:
        refuse("without channels")
    if bits != 16:
        refuse(f"with {bits} bits a sample: convert it to 16-bit PCM first")
    if rate == 0:
        refuse("with 0 samples a second")
    if byte_rate != rate * 2 * channels % 2**32 or block != 2 * channels:
        refuse(f"that contradicts itself: {byte_rate} bytes a second in blocks of {block} for {channels} channels "
               f"of 2 bytes at {rate} Hz")  # fmt: skip
    data_size = chunks.enter(b"data")
    if chunks.riff_size in _UNKNOWN_RIFF_SIZES or data_size in _UNKNOWN_DATA_SIZES:
        return WaveInfo(float(np.float32(rate)), channels, None, chunks.big_endian, None)
    # One byte more or less is the padding of a chunk of odd size.
    if abs(chunks.count + data_size - chunks.riff_size) > 1:
        logger.warning(
            "%s: the RIFF chunk should have %d bytes, but %d are read and %d of samples follow; what lies after them "
            "is not read", source.name, chunks.riff_size, chunks.count, data_size,
        )  # fmt: skip
    return WaveInfo(float(np.float32(rate)), channels, data_size // block, chunks.big_endian, data_size)


def _read_samples(source: Source, info: WaveInfo, max_duration: float) -> bytes | bytearray | memoryview:
    """The bytes of the samples: as many as announced, or if it is not, or fewer are there, all up to the end."""
    limit = max_duration * info.sample_frequency * 2 * info.channels
    announced, remaining = info.data_bytes, source.remaining()
    there = min((size for size in (announced, remaining) if size is not None), default=0)
    if remaining is not None and there > limit:
        _refuse_long(source, max_duration)
    if announced is None and (remaining is not None or limit == math.inf):
        return source.read_rest()
    if announced is not None and remaining is not None and remaining >= announced:
        return source.read(announced)
    wanted = sys.maxsize if announced is None else announced
    data = bytearray()
    while len(data) < wanted:
        piece = source.peek(min(_PIECE, wanted - len(data)))
        if not piece:
            if announced is not None:
                logger.warning("%s: %d bytes of samples announced, but only %d are there; is the file cut short?",
                               source.name, announced, len(data))  # fmt: skip
            break
        source.skip(len(piece))
        data += piece
        if len(data) > limit:
            _refuse_long(source, max_duration)
    return data


def _refuse_long(source: Source, max_duration: float) -> NoReturn:
    source.fail(f"audio longer than max_duration={max_duration:g} s")


def _frames(source: Source, info: WaveInfo, size: int) -> int:
    """How many samples of each channel ``size`` bytes are."""
    frames = size // (2 * info.channels)
    if frames == 0:
        source.fail("a wave file without samples")
    return frames


class WaveInfoCodec(Codec[WaveInfo]):
    """The header of a wave file; the samples are passed over, as far as they are there. Read only."""

    marker = b""

    def read(self, source: Source) -> WaveInfo:
        info = read_info(source)
        # In an archive the next key follows the samples. A file that is cut short still says how long it should be.
        with suppress(TruncatedError):
            source.skip(info.data_bytes or 0)
        return info

    def write_body(self, sink: Sink, value: WaveInfo, binary: bool) -> None:
        raise FormatError("a header of a wave file without its samples cannot be written")


class WaveCodec(Codec[Wave]):
    """Audio as a :class:`Wave`. No text form and no binary marker: a wave file stands in the archive as it is.

    Args:
        max_duration: audio that is longer than this, in seconds, is refused.
    """

    marker = b""

    def __init__(self, max_duration: float = math.inf) -> None:
        self.max_duration = max_duration

    def read(self, source: Source) -> Wave:
        info = read_info(source)
        data = _read_samples(source, info, self.max_duration)
        frames = _frames(source, info, len(data))
        order = ">i2" if info.big_endian else "<i2"
        samples = np.frombuffer(data, order, frames * info.channels).reshape(frames, info.channels)
        return Wave(info.sample_frequency, np.ascontiguousarray(samples.T, np.int16))

    def read_outline(self, source: Source) -> WaveInfo:
        info = read_info(source)
        remaining = source.remaining()
        if info.data_bytes is None or remaining is None or remaining < info.data_bytes:
            size = len(_read_samples(source, info, self.max_duration))
        else:
            size = info.data_bytes
            source.skip(size)
        return info._replace(sample_count=_frames(source, info, size))

    def write_body(self, sink: Sink, value: Wave, binary: bool) -> None:
        if not binary:
            raise FormatError("audio has no text form: write it to a table without the option 't'")
        frequency, samples = value
        if _is_unscaled(samples):
            raise FormatError(
                "the samples are fractions within -1 and 1, but Kaldi's are 16-bit integers: multiply them by 32768"
            )
        data = pcm16(samples)
        channels = data.shape[0]
        rate = int(frequency)
        if rate <= 0 or 2 * channels * rate >= 2**32 or data.nbytes >= 2**32 - 36:
            raise FormatError(f"{data.shape[1]} samples of {channels} channels at {frequency} Hz are not a wave file")
        sink.write(struct.pack("<4sI8sIHHIIHH4sI", b"RIFF", 36 + data.nbytes, b"WAVEfmt ", 16, _PCM, channels, rate,
                               2 * channels * rate, 2 * channels, 16, b"data", data.nbytes))  # fmt: skip
        sink.write(raw_bytes(data.T))


def _is_unscaled(samples: npt.ArrayLike) -> bool:
    """Whether these can only be samples on a scale from -1 to 1. (Whole numbers are near silence, on Kaldi's scale.)"""
    array = np.asarray(samples)
    return array.dtype.kind == "f" and bool((np.abs(array) <= 1).all()) and bool((array != np.trunc(array)).any())


def pcm16(samples: npt.ArrayLike) -> npt.NDArray[Any]:
    """Samples of shape (channels, samples) as 16-bit integers: truncated towards zero, and clipped with a warning."""
    array = np.asarray(samples)
    if array.ndim == 1:
        array = array[None]
    if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "fiu":
        raise FormatError(f"audio is an array of shape (channels, samples), not {array.shape} of {array.dtype}")
    if array.dtype == np.int16:
        return array.astype("<i2", copy=False)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise FormatError("audio with infinite or undefined samples")
    whole: npt.NDArray[Any] = np.trunc(array) if array.dtype.kind == "f" else array
    clipped: npt.NDArray[Any] = np.clip(whole, -32768, 32767)
    count = int((clipped != whole).sum())
    if count:
        logger.warning("%d of %d samples are beyond 16 bits and were clipped; reduce the volume?", count, array.size)
    return clipped.astype("<i2")
