"""kaldiio's ``wavio``: audio as ``(rate, samples)``, with samples of uint8 or int16."""

from __future__ import annotations

import io
import re
import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.codecs.base import Sink, as_array, view_raw_bytes
from io_ark.codecs.wave import UNKNOWN_DATA_SIZES, UNKNOWN_RIFF_SIZES, Chunks, read_samples
from io_ark.errors import ArkError, FormatError
from io_ark.extras import format_missing_package
from io_ark.streams.source import BytesSource, Source
from kaldi_standins.file_objects import FileOrName, open_sink, open_source

__all__ = ["Audio", "decode_audio", "read_audio", "read_wav", "write_audio", "write_wav"]

Audio = tuple[int, npt.NDArray[Any]]

_PCM = 1  # Format tag of linear samples in a WAV header.
_EXTENSIBLE = 0xFFFE  # Format tag of files whose sub-format has the actual tag.
# Format tag and bits per sample of a file whose first chunk is the format, as in nearly all files.
_FORMAT_FIRST = struct.Struct("<20xH12xH")
# Number of bytes at the start of any other file that are searched for the format.
_HEADER_BYTES = 1 << 12
# Smallest size in bytes of the RIFF chunk that may stand for an unknown size. If sox does not know the size, it
# announces as many whole blocks as fit into 0x7FFFF000 bytes, and a block has less than 64 KiB.
_MIN_UNKNOWN_BYTES = 0x7FFFF000 - 0xFFFF


def read_wav(fd: FileOrName, return_size: bool = False) -> Any:
    """Read a wave file.

    Args:
        fd: name of the file, a command, or an open binary file.
        return_size: True to return also the size of a wave file of these samples with a header of 44 bytes.

    Returns:
        ``(rate, samples)``, with samples of shape ``(samples,)`` or ``(samples, channels)`` in the type that
        :func:`read_audio` describes. With ``return_size``, a pair of this tuple and the size in bytes.

    Raises:
        ArkError: the file cannot be opened or read.

    >>> import io
    >>> import numpy as np
    >>> from kaldi_standins.kaldiio import wavio
    >>> file = io.BytesIO()
    >>> wavio.write_wav(file, 16000, np.zeros(100, np.int16))
    244
    >>> position = file.seek(0)
    >>> rate, samples = wavio.read_wav(file)
    >>> rate, samples.shape
    (16000, (100,))
    """
    with open_source(fd) as source:
        audio = read_audio(source)
    return (audio, 44 + audio[1].nbytes) if return_size else audio


def write_wav(fd: FileOrName, rate: int, array: npt.NDArray[Any]) -> int:
    """Write a wave file of 8 bits (uint8) or 16 bits (int16) per sample, and return its number of bytes.

    Args:
        fd: name of a file, a command, or an open file.
        rate: sampling rate in Hz.
        array: samples (T,) or (T, channels).

    Raises:
        ArkError: the file cannot be opened or written, or the samples have another type or shape, or do not fit into a
            WAV file with this rate.

    >>> import io, numpy as np
    >>> from kaldi_standins.kaldiio import wavio
    >>> wavio.write_wav(io.BytesIO(), 16000, np.zeros(100, np.int16))
    244
    """
    buffer = io.BytesIO()
    write_audio(buffer, rate, array)
    with open_sink(fd) as output:
        output.write(buffer.getbuffer())
    return len(buffer.getbuffer())


def write_audio(sink: Sink, rate: float, samples: npt.NDArray[Any]) -> None:
    """Write int16 or uint8 samples (T,) or (T, channels) as a WAV file. ``rate`` in Hz is rounded down.

    Raise FormatError if the samples have another type or shape, or do not fit into a WAV file with this rate.
    """
    samples = as_array(samples)
    if samples.dtype not in (np.int16, np.uint8):
        raise FormatError(f"audio needs samples of int16 or uint8, not of {samples.dtype}: scale, round and convert "
                          "them, or pass write_function='soundfile'")  # fmt: skip
    if samples.ndim not in (1, 2):
        raise FormatError(
            f"audio must have the shape (samples,) or (samples, channels), not {samples.shape}: reshape the samples"
        )
    channels = samples.shape[1] if samples.ndim == 2 else 1
    frame_bytes = channels * samples.itemsize
    # The header has 16 bits for the bytes per frame, and 32 bits for the bytes per second and for the size, which
    # includes 36 bytes of the header.
    if not 0 < frame_bytes < 2**16 or not 0 < rate * frame_bytes < 2**32 or samples.nbytes >= 2**32 - 36:
        size = f"{len(samples)} samples of {channels} channel{'s' * (channels != 1)} at {rate} Hz"
        raise FormatError(f"{size} do not fit into a wave file: correct the channels or the rate, or split the audio")
    sink.write(struct.pack("<4sI8sIHHIIHH4sI", b"RIFF", 36 + samples.nbytes, b"WAVEfmt ", 16, 1, channels, int(rate),
                           int(rate) * frame_bytes, frame_bytes, 8 * samples.itemsize, b"data",
                           samples.nbytes))  # fmt: skip
    sink.write(view_raw_bytes(samples))


def read_audio(source: Source) -> Audio:
    """Read the rate in Hz and the samples (T,) or (T, channels) of the wave file at the current position.

    Linear samples of up to 8 bits become uint8, and of up to 16 bits int16. soundfile decodes all others to float64.

    Raises:
        ArkError: the source is not a wave file, or the format needs soundfile, which is not installed or fails.
    """
    format_tag, bits = _detect_format(source)
    if format_tag == _PCM and 0 < bits <= 16:
        return _read_linear(source, np.uint8 if bits <= 8 else np.int16)
    # Without a valid size in the RIFF header, the audio extends to the end of the source.
    size = int.from_bytes(source.peek(8)[4:], "little")
    remaining = source.count_remaining()
    is_valid = 0 < size < _MIN_UNKNOWN_BYTES if remaining is None else 0 < size < 2**31 and size + 8 <= remaining
    return decode_audio(source.read(size + 8) if is_valid else source.read_rest(), source)


def _detect_format(source: Source) -> tuple[int, int]:
    """Return the format tag and bits per sample of the next wave file, or of 16-bit PCM if its header is invalid."""
    first_bytes = source.peek(_FORMAT_FIRST.size)
    is_complete = len(first_bytes) == _FORMAT_FIRST.size
    if is_complete and first_bytes[:4] == b"RIFF" and first_bytes[8:16] == b"WAVEfmt ":
        format_tag, bits = _FORMAT_FIRST.unpack(first_bytes)
        if format_tag != _EXTENSIBLE:
            return format_tag, bits
    head = BytesSource(source.peek(_HEADER_BYTES))
    try:
        chunks = Chunks(head)
        chunks.enter_chunk(b"fmt ")
        format_tag, *_, bits = chunks.read_fields("HHIIHH")
        if format_tag == _EXTENSIBLE:
            format_tag = chunks.read_fields("HHIH")[-1]  # The sub-format starts with the format tag.
    except ArkError:
        return _PCM, 16
    return format_tag, bits


def _read_linear(source: Source, dtype: type[np.uint8 | np.int16]) -> Audio:
    """Read the rate in Hz and the linear samples (T,) or (T, channels) of type ``dtype``, as kaldiio does.

    The byte rate of the header is not checked. Only the samples that a truncated file contains are returned. If the
    size of the data chunk is unknown, samples extend to the end of the file. A size of 0 counts as unknown only if the
    size in the RIFF header is also unknown.
    """
    chunks = Chunks(source)
    size = chunks.enter_chunk(b"fmt ")
    _, channels, rate, *_ = chunks.read_fields("HHIIHH")
    if channels == 0 or rate == 0 or size < 16:
        source.fail(f"a wave file is damaged: {channels} channels, {rate} Hz, and {size} bytes in the fmt chunk")
    source.skip(size - 16)
    chunks.skip_padding(size)
    data_bytes = chunks.enter_chunk(b"data")
    unknown_sizes = UNKNOWN_DATA_SIZES if chunks.riff_size in UNKNOWN_RIFF_SIZES else UNKNOWN_DATA_SIZES[1:]
    data = read_samples(source, None if data_bytes in unknown_sizes else data_bytes)
    if data_bytes not in unknown_sizes:
        chunks.skip_padding(data_bytes)
    stored_dtype = np.dtype(dtype).newbyteorder(">" if chunks.big_endian else "<")
    count = len(data) // (channels * stored_dtype.itemsize)
    samples = np.array(np.frombuffer(data, stored_dtype, count * channels) if count else [], dtype)
    return rate, samples if channels == 1 else samples.reshape(-1, channels)


def decode_audio(data: bytes | bytearray | memoryview, source: Source, **options: Any) -> Audio:
    """Decode an audio file with soundfile to its rate in Hz and samples, by default float64 from -1 to 1.

    Args:
        data: bytes of the file.
        source: source of the bytes, for errors.
        options: arguments of ``soundfile.read``.

    Raises:
        FormatError: soundfile is not installed, or cannot decode the bytes.
    """
    try:
        import soundfile
    except ImportError:
        source.fail(
            f"{format_missing_package('soundfile', 'this audio format')}, or use a pipe such as 'flac -c -d -s FILE |'"
        )
    try:
        samples, rate = soundfile.read(io.BytesIO(data), **options)
    except (soundfile.LibsndfileError, RuntimeError, TypeError, ValueError) as error:
        source.fail(f"audio cannot be decoded by soundfile: {describe_soundfile_error(error)}")
    return int(rate), samples


def describe_soundfile_error(error: Exception) -> str:
    """Return soundfile's error message without the Python object of the file, which it names first."""
    return re.sub(r"^Error opening <.*?>: ", "", str(error))
