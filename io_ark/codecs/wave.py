"""Audio: RIFF and RIFX wave files with 16-bit linear samples. For other formats, see :mod:`io_ark.codecs.audio`.

Source: ``WaveInfo::Read``, ``WaveData::Read`` and ``WaveData::Write`` in Kaldi's ``src/feat/wave-reader.cc``.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn, cast

import numpy as np
import numpy.typing as npt

from io_ark.blocks import MAX_ENTRIES, WaveBlock
from io_ark.blocks import Wave as Wave
from io_ark.blocks import WaveInfo as WaveInfo
from io_ark.blocks.base import Integers, join_keys
from io_ark.codecs.audio import (
    MAX_AUDIO_BYTES,
    decode_audio_file,
    detect_audio_format,
    is_audio_file,
    measure_audio,
    require_decoder,
)
from io_ark.codecs.base import Codec, Sink, T, as_array, quote, quote_or_end, register_kind, view_raw_bytes
from io_ark.codecs.scan import Scan, Scanned, Window
from io_ark.errors import FormatError, TruncatedError
from io_ark.extras import ANY_ENCODING
from io_ark.logs import logger
from io_ark.native import NATIVE
from io_ark.specifier import Range
from io_ark.streams.foreign import refuse_foreign_file
from io_ark.streams.source import BytesSource, FileSource, Source

_PCM = 1
_EXTENSIBLE = 0xFFFE
# Codes of formats whose samples have a constant number of bytes. 3 stands for floats, 6 for A-law, and 7 for mu-law.
_UNCOMPRESSED = (_PCM, 3, 6, 7, _EXTENSIBLE)
# GUID of linear PCM, 00000001-0000-0010-8000-00aa00389b71, as four 32-bit integers of a little-endian file.
_PCM_SUBTYPE = (0x00000001, 0x00100000, 0xAA000080, 0x719B3800)
# Sizes of the RIFF chunk that programs write while the length of the audio is unknown.
UNKNOWN_RIFF_SIZES = (0, 0xFFFFFFFF)
# Sizes of the data chunk that programs write while the length of the audio is unknown. sox writes 0x7FFFF000.
UNKNOWN_DATA_SIZES = (0, 0xFFFFFFFF, 0x7FFFF000)
# Maximum bytes of samples that are read at once from a stream. Memory grows only as samples arrive, because a damaged
# header may announce any number of bytes.
_MAX_CHUNK_BYTES = 1 << 20
TRUNCATED = "%s: Expected %d bytes of wave data, but read only %d bytes. Truncated file?"  # Kaldi's warning.
_WAVE = "wave file's"
_WAYS_OUT = (
    "set KALDI_COMPAT_WAV=any to read it with soundfile, or convert the audio in the script file: "
    "sox FILE -t wav -b 16 - |"
)
_PLAIN = struct.Struct("<4sI8sIHHIIHH4sI")
_MAX_START_BYTES = 12  # Number of first bytes that distinguish audio from an archive.
_MAX_FORMAT_BYTES = 64  # Maximum bytes of a format chunk that are read. The fields that are used end at byte 40.


register_kind("wave")(Wave)


class Chunks:
    """Reads the chunks of a RIFF (little-endian) or RIFX (big-endian) file at the current position of ``source``.

    Raise FormatError if the source does not contain such a file.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._start = source.tell()
        tag = source.peek(4)
        if tag not in (b"RIFF", b"RIFX"):
            source.fail(f"expected RIFF or RIFX at the start of a wave file, found {quote_or_end(tag)}")
        self.big_endian = tag == b"RIFX"
        self._order = ">" if self.big_endian else "<"
        _, self.riff_size, form_type = self.read_fields("4sI4s")
        if form_type != b"WAVE":
            source.fail(f"expected WAVE in the header of a wave file, found {quote(form_type)}", self._start + 8)

    def read_fields(self, layout: str) -> tuple[Any, ...]:
        """Read the next numbers and strings. ``layout`` is their format in ``struct`` without the byte order."""
        layout = self._order + layout
        return struct.unpack(layout, self._source.read(struct.calcsize(layout)))

    def enter_chunk(self, tag: bytes) -> int:
        """Skip to the next chunk ``tag``, and return its size in bytes. Raise TruncatedError if it does not follow."""
        while True:
            current_tag, size = self.read_fields("4sI")
            if current_tag == tag:
                return int(size)
            if current_tag == b"fact" and size != 4:
                logger.warning("%s: Expected fact chunk to be 4 bytes long.", self._source.name)
            self._source.skip(size)
            self.skip_padding(size)

    def skip_padding(self, size: int) -> None:
        """Skip the zero byte after a chunk of odd size, if present. This byte cannot start a tag.

        The standard requires this byte, but some writers omit it, and Kaldi does not read it.
        """
        if size % 2 and self._source.peek(1) == b"\0":
            self._source.skip(1)

    @property
    def byte_count(self) -> int:
        """Number of bytes read so far, not counting the tag and size of the RIFF chunk."""
        return self._source.tell() - self._start - 8


class _Header(NamedTuple):
    """Header of a wave file."""

    info: WaveInfo  # Sampling rate, number of channels and size of the samples.
    block_bytes: int  # Number of bytes of one sample of all channels.
    is_counted: bool  # True if the number of samples follows from the number of bytes.
    foreign_chunk: bytes  # Content of the format chunk if the samples are not 16-bit linear, otherwise empty.

    def encode_file(self, data: bytes | bytearray | memoryview) -> bytes:
        """Return the bytes of a WAV file with the format chunk ``foreign_chunk`` and the encoded samples ``data``."""
        order = ">" if self.info.big_endian else "<"
        chunks = ((b"fmt ", self.foreign_chunk + b"\0" * (len(self.foreign_chunk) % 2)), (b"data", bytes(data)))
        body = b"".join(tag + struct.pack(order + "I", len(content)) + content for tag, content in chunks)
        return (b"RIFX" if order == ">" else b"RIFF") + struct.pack(order + "I", 4 + len(body)) + b"WAVE" + body


def read_header(source: Source, any_encoding: bool = True) -> _Header:
    """Read the header of a wave file, and leave the source at the first sample.

    Raise FormatError if the source is not a wave file or its header is invalid, or if the samples are not 16-bit linear
    and either ``any_encoding`` is False or soundfile is not installed.
    """
    chunks = Chunks(source)
    size = chunks.enter_chunk(b"fmt ")
    at = source.tell()
    format_chunk = bytes(source.read(min(size, _MAX_FORMAT_BYTES)))

    def refuse(message: str) -> NoReturn:
        source.fail(f"a wave file {message}", at)

    if size < 16:
        refuse(f"has a format chunk of {size} bytes, less than 16: create the file again")
    order = ">" if chunks.big_endian else "<"
    format_tag, channels, rate, byte_rate, block_bytes, bits = struct.unpack_from(order + "HHIIHH", format_chunk)
    problem = _find_unsupported_encoding(format_chunk, order, refuse)
    source.skip(size - len(format_chunk))
    chunks.skip_padding(size)
    if channels == 0:
        refuse("has no channels: create the file again")
    if rate == 0:
        refuse("has a sampling rate of 0: create the file again")
    if problem:
        if not any_encoding:
            refuse(f"{problem}, which Kaldi refuses: {_WAYS_OUT}")
        require_decoder(source, f"a wave file that {problem}", at)
        if len(format_chunk) != size or block_bytes == 0:
            refuse(f"{problem}, and a format chunk of {size} bytes and blocks of {block_bytes} bytes, which cannot be "
                   "read: convert the audio, for example with sox")  # fmt: skip
    elif byte_rate != rate * 2 * channels % 2**32 or block_bytes != 2 * channels:
        refuse(f"has an inconsistent header: {byte_rate} bytes per second in blocks of {block_bytes} for {channels} "
               f"channels of 2 bytes at {rate} Hz; write the file again, for example with sox")  # fmt: skip
    foreign_chunk = format_chunk if problem else b""
    is_counted = 8 * block_bytes == channels * bits and format_tag in _UNCOMPRESSED
    data_size = chunks.enter_chunk(b"data")
    frequency = float(np.float32(rate))  # Kaldi stores sampling rates as float32.
    if chunks.riff_size in UNKNOWN_RIFF_SIZES or data_size in UNKNOWN_DATA_SIZES:
        info = WaveInfo(frequency, channels, sample_count=None, big_endian=chunks.big_endian, data_bytes=None)
        return _Header(info, block_bytes, is_counted, foreign_chunk)
    # A difference of one byte is accepted, because a chunk of odd size is followed by a byte of padding.
    if abs(chunks.byte_count + data_size - chunks.riff_size) > 1 and not problem:
        logger.warning(
            "%s: Expected %d bytes in RIFF chunk, but after first data block there will be %d + %d bytes "
            "(we do not support reading multiple data chunks).",
            source.name, chunks.riff_size, chunks.byte_count, data_size,
        )  # fmt: skip
    info = WaveInfo(frequency, channels, data_size // block_bytes, chunks.big_endian, data_size)
    return _Header(info, block_bytes, is_counted, foreign_chunk)


def _find_unsupported_encoding(format_chunk: bytes, order: str, refuse: Callable[[str], NoReturn]) -> str:
    """Describe how samples differ from 16-bit linear PCM, such as "has 8 bits per sample". Return "" for such PCM.

    ``order`` is the byte order for ``struct``. Call ``refuse`` with a message if the chunk is too short for its format.
    """
    format_tag, bits = struct.unpack_from(order + "H12xH", format_chunk)
    if format_tag == _EXTENSIBLE:
        # The extension has its size (22 bytes), the valid bits per sample, a channel mask, and a GUID as four integers.
        if len(format_chunk) < 40 or (extension := struct.unpack_from(order + "HHI4I", format_chunk, 16))[0] < 22:
            refuse("has a format chunk that is too short for the extensible format: create the file again")
        if extension[3:] != _PCM_SUBTYPE:
            return "has samples that are not linear PCM, in the extensible format"
    elif format_tag != _PCM:
        return f"has samples that are not linear PCM (format {format_tag})"
    return "" if bits == 16 else f"has {bits} bits per sample"


def _read_limited_samples(source: Source, header: _Header, max_duration: float) -> bytes | bytearray | memoryview:
    """Read the samples of a wave file. Raise FormatError if they last longer than ``max_duration`` seconds."""
    max_bytes = max_duration * header.info.sample_frequency * header.block_bytes
    return read_samples(source, header.info.data_bytes, max_bytes, max_duration)


def read_samples(
    source: Source, announced_size: int | None, max_bytes: float = math.inf, max_duration: float = math.inf
) -> bytes | bytearray | memoryview:
    """Read the samples of a wave file: the bytes that the header announces, or fewer if the file is truncated.

    Args:
        source: the wave file, after its header.
        announced_size: number of bytes of samples in the header. If None, all bytes of the source are read.
        max_bytes: maximum number of bytes of samples.
        max_duration: ``max_bytes`` as a duration in seconds, for the message.

    Raises:
        FormatError: the file has more than ``max_bytes`` bytes of samples, or the source has more than 4 GiB and the
            header does not contain the number of bytes.
    """
    if announced_size is not None and announced_size <= max_bytes and source.has_bytes(announced_size):
        return source.read(announced_size)
    remaining = source.count_remaining()
    available = min((size for size in (announced_size, remaining) if size is not None), default=0)
    if remaining is not None and available > max_bytes:
        _refuse_long(source, max_duration)
    if announced_size is None and (remaining is not None or max_bytes == math.inf):
        return source.read_rest(MAX_AUDIO_BYTES)
    goal = sys.maxsize if announced_size is None else announced_size
    data = bytearray()
    while len(data) < goal:
        chunk = source.peek(min(_MAX_CHUNK_BYTES, goal - len(data)))
        if not chunk:
            if announced_size is not None:
                logger.warning(TRUNCATED, source.name, announced_size, len(data))
            break
        source.skip(len(chunk))
        data += chunk
        if len(data) > max_bytes:
            _refuse_long(source, max_duration)
    return data


def _count_bytes(source: Source, announced_size: int | None) -> int:
    """Skip the samples of a wave file, and return how many bytes of samples were present.

    ``announced_size`` is the size of the samples in bytes according to the header. Log a warning if fewer bytes are
    present. If the header has no size (None), raise FormatError for 4 GiB of samples or more.
    """
    limit = MAX_AUDIO_BYTES if announced_size is None else announced_size
    count = 0
    while count < limit and (chunk := source.read_some(min(_MAX_CHUNK_BYTES, limit - count))):
        count += len(chunk)
    if announced_size is None and count == limit:
        source.fail(f"more than {MAX_AUDIO_BYTES >> 20} MiB of samples follow: check that the input is not an endless "
                    "device or pipe")  # fmt: skip
    if announced_size is not None and count < announced_size:
        logger.warning(TRUNCATED, source.name, announced_size, count)
    return count


def _refuse_long(source: Source, max_duration: float) -> NoReturn:
    source.fail(f"the audio is longer than max_duration={max_duration:g} s: split the audio, or increase the limit")


def _count_samples(source: Source, size: int, block_bytes: int) -> int:
    """Return the number of samples per channel in ``size`` bytes. Raise FormatError if there are no samples.

    ``block_bytes`` is the number of bytes of one sample of all channels.
    """
    sample_count = size // block_bytes
    if sample_count == 0:
        source.fail("a wave file has no samples: remove the recording")
    return sample_count


def _detect_format_of_file(source: Source) -> str:
    """Return the format of audio that is not a wave file, or "" for wave files and for bytes that are not audio.

    Raise FormatError if the file has the format of another program, or if the audio is within an archive. Only wave
    files can be in an archive, because the end of other audio is not marked.
    """
    if source.peek(4) in (b"RIFF", b"RIFX"):
        return ""
    refuse_foreign_file(source, "object")
    name = detect_audio_format(source)
    if name and source.tell():
        source.fail(f"{name} audio within an archive is not supported: put it into a file of its own")
    return name


def _read_foreign_file(source: Source, header: _Header, max_duration: float = math.inf) -> bytes:
    """Read samples that are not 16-bit linear, and return the bytes of a WAV file for a decoder.

    Raise FormatError if the samples last longer than ``max_duration`` seconds.
    """
    file = header.encode_file(_read_limited_samples(source, header, max_duration))
    _skip_padding(source, header.info.data_bytes or 0)
    return file


def _read_header_or_info(source: Source, any_encoding: bool, max_duration: float = math.inf) -> _Header | WaveInfo:
    """Return the header of a WAV file, or the :class:`WaveInfo` of audio in another format.

    Return the :class:`WaveInfo` of a WAV file as well if its samples must be decoded to count them. Raise FormatError
    if such a file is longer than ``max_duration`` seconds. ``any_encoding`` allows encodings other than 16-bit PCM.
    """
    if name := _detect_format_of_file(source):
        return _make_info(measure_audio(source, name))
    header = read_header(source, any_encoding)
    if header.foreign_chunk and not header.is_counted:
        file = _read_foreign_file(source, header, max_duration)
        return _make_info(measure_audio(BytesSource(file, name=source.name), _WAVE))
    return header


def _skip_padding(source: Source, size: int) -> None:
    """Skip the zero byte after samples of an odd number of bytes, if present. This byte cannot start a key."""
    if size % 2 and source.peek(1) == b"\0":
        source.skip(1)


def _make_info(numbers: tuple[float, int, int]) -> WaveInfo:
    """Create the :class:`WaveInfo` of audio that is decoded to 16 bits from the result of :func:`measure_audio`."""
    rate, channels, count = numbers
    return WaveInfo(rate, channels, count, big_endian=False, data_bytes=2 * channels * count)


class WaveScan:
    """Reads blocks of wave files with one channel. If ``only_headers``, the values are :class:`WaveInfo`."""

    can_scan_at, reads_any_size = True, False

    def __init__(self, *, only_headers: bool = False) -> None:
        self._only_headers = only_headers
        self.file_bytes = _PLAIN.size if only_headers else sys.maxsize

    def scan_entries(self, window: Window) -> Scanned | None:
        return self._scan_window(keys=None, window=window, bounds=None)

    def scan_at(self, window: Window, keys: list[bytes], bounds: Integers) -> Scanned | None:
        bounds = np.minimum(bounds[:MAX_ENTRIES], [sys.maxsize, window.end - window.begin], order="C")
        return self._scan_window(keys, window, bounds)

    def _scan_window(
        self, keys: list[bytes] | None, window: Window, bounds: npt.NDArray[np.int64] | None
    ) -> Scanned | None:
        """Scan a window in C. Return None if no wave file was read.

        Args:
            keys: keys of the files. None if the window starts with an entry of an archive.
            bounds: start and end of each file in the window, shape (files, 2). None for an archive.
        """
        data = window.view_bytes()
        limit = MAX_ENTRIES if bounds is None else len(bounds)
        scanned_keys, key_bytes = np.empty(len(data) if bounds is None else 0, np.uint8), np.zeros(1, np.int64)
        ends, starts, lengths = (np.empty(limit, np.int64) for _ in range(3))
        rates = np.empty(limit, np.uint32)
        count = NATIVE.get_function("ark_scan_waves")(
            data, len(data), bounds, limit, bounds is not None and self._only_headers,
            scanned_keys, key_bytes, ends, starts, lengths, rates,
        )  # fmt: skip
        if count == 0:
            return None
        all_keys = scanned_keys[: key_bytes[0]].tobytes() if keys is None else join_keys(keys[:count])
        starts, lengths, rates, size = starts[:count], lengths[:count], rates[:count], int(ends[count - 1])
        if self._only_headers:
            empty = np.empty(0, np.int16)
            return Scanned(WaveBlock(all_keys, empty, np.zeros_like(lengths), lengths, rates, only_headers=True), size)
        # Samples at even addresses of an array are viewed without a copy. The view needs an even number of bytes.
        if isinstance(window.data, np.ndarray) and window.begin % 2 == 0 and not (starts % 2).any():
            samples, starts = data[: size // 2 * 2].view("<i2"), starts // 2
        else:
            view = data.data
            spans = zip(starts.tolist(), lengths.tolist(), strict=True)
            buffers = [view[start : start + 2 * length] for start, length in spans]
            samples, starts = np.frombuffer(bytearray().join(buffers), "<i2"), np.cumsum(lengths) - lengths
        return Scanned(WaveBlock(all_keys, samples, starts, lengths, rates), size)


class _AudioCodec(Codec[T]):
    """Base class of codecs of audio. Archives contain whole wave files without a marker. There is no text format."""

    marker = b""

    def __init__(self, any_encoding: bool | None) -> None:
        self.any_encoding = ANY_ENCODING.get() if any_encoding is None else any_encoding

    def starts_object(self, source: Source) -> bool:
        return is_audio_file(source.peek_buffered(_MAX_START_BYTES))


class WaveInfoCodec(_AudioCodec[WaveInfo]):
    """Codec that reads the header of audio and skips the samples. It cannot write.

    Args:
        any_encoding: see :class:`WaveCodec`.
        counts_samples: True to count the samples in the file, in constant memory, instead of trusting the header.
    """

    def __init__(self, any_encoding: bool | None = None, counts_samples: bool = False) -> None:
        super().__init__(any_encoding)
        self.counts_samples = counts_samples

    def create_scan(self) -> Scan | None:
        return WaveScan(only_headers=True) if NATIVE.in_use and not self.counts_samples else None

    def read_single(self, source: Source) -> WaveInfo:
        header = _read_header_or_info(source, self.any_encoding)
        if isinstance(header, WaveInfo):
            return header  # The audio has another format or encoding.
        if not self.counts_samples:
            return header.info
        size = _count_bytes(source, header.info.data_bytes)
        return header.info._replace(sample_count=_count_samples(source, size, header.block_bytes))

    def read(self, source: Source) -> WaveInfo:
        if self.counts_samples:
            return self.read_single(source)
        header = _read_header_or_info(source, self.any_encoding)
        if isinstance(header, WaveInfo):
            return header  # The audio has another format or encoding.
        # In an archive, the next key follows the samples. The header of a truncated file is still valid.
        try:
            data_bytes = header.info.data_bytes or 0  # None if the header does not contain the number of bytes.
            source.skip(data_bytes)
            _skip_padding(source, data_bytes)
        except TruncatedError:
            source.read_rest()  # Otherwise, the remaining samples would be read as a key.
        return header.info

    def write_body(self, sink: Sink, value: WaveInfo, binary: bool) -> None:
        raise FormatError("the header of a wave file cannot be written without samples: write an io_ark.Wave")


class _SamplesOfFile:
    """Samples (channels, samples) of type ``dtype`` at the current position of a file. A slice is read on request."""

    def __init__(self, source: FileSource, shape: tuple[int, int], dtype: str) -> None:
        self.shape = shape
        self._source, self._offset, self._dtype = source, source.tell(), dtype

    def __getitem__(self, slices: tuple[slice, slice]) -> npt.NDArray[np.int16]:
        """Read the channels and samples that two slices select. The second slice must have the step 1."""
        begin, end, _ = slices[1].indices(self.shape[1])
        block_bytes = 2 * self.shape[0]  # Bytes of one sample of all channels.
        data = self._source.read_at((end - begin) * block_bytes, self._offset + begin * block_bytes)
        samples = np.frombuffer(data, self._dtype).reshape(-1, self.shape[0]).T
        return np.array(samples[slices[0]], np.int16)


class WaveCodec(_AudioCodec[Wave]):
    """Codec of audio as a :class:`Wave`.

    With the extra ``audio``, the codec also reads wave files of other encodings, and files in FLAC, OGG, MP3, SPHERE
    and other formats.

    Args:
        max_duration: maximum duration in seconds. Longer audio is refused.
        any_encoding: False refuses wave files that are not 16-bit linear even with the extra, as Kaldi does. None
            selects :data:`io_ark.extras.ANY_ENCODING`.
        in_parts: True to return the 16-bit samples of a file as an object that reads a slice when it is requested.
    """

    def __init__(
        self, max_duration: float = math.inf, any_encoding: bool | None = None, in_parts: bool = False
    ) -> None:
        super().__init__(any_encoding)
        self.max_duration = max_duration
        self.in_parts = in_parts

    def read(self, source: Source) -> Wave:
        if name := _detect_format_of_file(source):
            return Wave(*decode_audio_file(source.read_rest(MAX_AUDIO_BYTES), source, name, self.max_duration))
        header = read_header(source, self.any_encoding)
        if header.foreign_chunk:
            file = _read_foreign_file(source, header, self.max_duration)
            return Wave(*decode_audio_file(file, source, _WAVE, self.max_duration))
        info = header.info
        dtype = ">i2" if info.big_endian else "<i2"
        # If the file is truncated, or the header lacks the number of bytes, all samples are read to count them.
        if self.in_parts and isinstance(source, FileSource) and info.data_bytes and source.has_bytes(info.data_bytes):
            count = _count_samples(source, info.data_bytes, header.block_bytes)
            return Wave(info.sample_frequency, cast(Any, _SamplesOfFile(source, (info.channels, count), dtype)))
        data = _read_limited_samples(source, header, self.max_duration)
        count = _count_samples(source, len(data), header.block_bytes)
        samples = np.frombuffer(data, dtype, count * info.channels)
        if info.channels > 1 or info.big_endian or isinstance(data, bytes):  # Bytes are read-only, so they are copied.
            return Wave(info.sample_frequency, np.array(samples.reshape(count, info.channels).T, np.int16, order="C"))
        return Wave(info.sample_frequency, samples.reshape(1, count))

    def create_scan(self) -> Scan | None:
        return WaveScan(only_headers=False) if NATIVE.in_use and self.max_duration == math.inf else None

    def read_part(self, source: Source, selection: Range | None) -> Any:
        if selection is not None:
            return super().read_part(source, selection)
        header = _read_header_or_info(source, self.any_encoding, self.max_duration)
        if isinstance(header, WaveInfo):
            return header  # The audio has another format or encoding.
        info = header.info
        remaining = source.count_remaining()
        if info.data_bytes is None or remaining is None or remaining < info.data_bytes:
            size = len(_read_limited_samples(source, header, self.max_duration))
        else:
            size = info.data_bytes
            source.skip(size)
            _skip_padding(source, size)
        return info._replace(sample_count=_count_samples(source, size, header.block_bytes))

    def write_body(self, sink: Sink, value: Wave, binary: bool) -> None:
        if not binary:
            raise FormatError("audio has no text format: write audio in binary, to a table without the option 't'")
        frequency, samples = value
        if _is_unscaled(samples):
            raise FormatError(
                "the samples are fractions between -1 and 1, but Kaldi's are 16-bit integers: multiply them by 32768"
            )
        data = pcm16(samples)
        channels = data.shape[0]
        rate = int(frequency)
        # The size of the RIFF chunk counts 36 bytes of the header, and has 32 bits like the number of bytes per second.
        if rate <= 0 or 2 * channels * rate >= 2**32 or data.nbytes >= 2**32 - 36:
            raise FormatError(f"samples of shape {data.shape} at {frequency} Hz do not fit into a wave file: write "
                              "less than 4 GiB of samples at a positive rate")  # fmt: skip
        # The format chunk has 16 bytes, and a sample has 16 bits.
        sink.write(_PLAIN.pack(b"RIFF", 36 + data.nbytes, b"WAVEfmt ", 16, _PCM, channels, rate, 2 * channels * rate,
                               2 * channels, 16, b"data", data.nbytes))  # fmt: skip
        sink.write(view_raw_bytes(data.T))


def _is_unscaled(samples: npt.ArrayLike) -> bool:
    """Return True if all samples are from -1 to 1 and some are fractions. Whole numbers may be quiet 16-bit audio."""
    array = as_array(samples)
    return array.dtype.kind == "f" and bool((np.abs(array) <= 1).all()) and bool((array != np.trunc(array)).any())


def pcm16(samples: npt.ArrayLike) -> npt.NDArray[Any]:
    """Convert samples to 16-bit integers by truncation. Log a warning if samples are clipped.

    Args:
        samples: numbers on the scale of 16-bit integers, shape (channels, samples), or (samples,) for one channel.

    Returns:
        Little-endian int16 of shape (channels, samples).

    Raises:
        FormatError: the samples are empty, are not numbers of one of these shapes, or are infinite or NaN.

    >>> from io_ark.codecs.wave import pcm16
    >>> pcm16([[0.0, 1.9, -2000.5]])
    array([[    0,     1, -2000]], dtype=int16)
    """
    array = as_array(samples)
    if array.ndim not in (1, 2) or array.size == 0 or array.dtype.kind not in "fiu":
        expected = "a nonempty array of numbers of shape (samples,) or (channels, samples)"
        raise FormatError(f"audio must be {expected}, not {array.dtype} of shape {array.shape}")
    array = array[None] if array.ndim == 1 else array
    if array.dtype == np.int16:
        return array.astype("<i2", copy=False)
    minimum, maximum = array.min(), array.max()
    if not (np.isfinite(minimum) and np.isfinite(maximum)):
        raise FormatError("the audio has infinite or NaN samples: replace them before you write it")
    if minimum > -32769 and maximum < 32768:  # The conversion truncates, so -32768.9 is still in range.
        return array.astype("<i2")
    truncated: npt.NDArray[Any] = np.trunc(array) if array.dtype.kind == "f" else array
    clipped: npt.NDArray[Any] = np.clip(truncated, -32768, 32767)
    count = int((clipped != truncated).sum())
    if count:
        logger.warning("WARNING: clipped %d samples out of total %d. Reduce volume?", count, array.size)
    return clipped.astype("<i2")
