"""Decode audio that is not a 16-bit linear wave file, by libsndfile (extra ``audio``)."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.extras import format_missing_package
from io_ark.logs import logger
from io_ark.streams.source import FileSource, Source

# For each format: a pattern of the first bytes, the name, and a command that converts a file to a wave file.
_FORMATS = (
    (rb"fLaC[\0\x80]", "FLAC", "flac -c -d -s FILE |"),
    (rb"OggS\0", "OGG", "ffmpeg -v 16 -i FILE -f wav - |"),
    (rb"ID3[\0-\x0f]", "MP3", "ffmpeg -v 16 -i FILE -f wav - |"),
    (rb"NIST_1A\n", "SPHERE", "sph2pipe -f wav -p FILE |"),
    (rb"RF64.{4}WAVE", "RF64", "sox FILE -t wav -b 16 - |"),
    (rb"riff\.\x91\xcf\x11\xa5\xd6\(\xdb", "W64", "sox FILE -t wav -b 16 - |"),
    (rb"\.snd\0", "AU", "sox FILE -t wav -b 16 - |"),
    (rb"caff\0", "CAF", "sox FILE -t wav -b 16 - |"),
    (rb"FORM.{4}AIF[FC]", "AIFF", "sox FILE -t wav -b 16 - |"),
)
_MAX_TAG_BYTES = 12  # Number of bytes that the patterns of _FORMATS examine.
# No wave file is larger, because its sizes have 32 bits. The limit stops reading from a command that never ends.
MAX_AUDIO_BYTES = 1 << 32
# The first block (STREAMINFO) has the sampling rate and the numbers of channels and samples before this byte offset.
_FLAC_BYTES = 26
_SPHERE_BYTES = 1024  # Usual size of a SPHERE header.
_SPHERE_FIELDS = (b"sample_rate", b"channel_count", b"sample_count")
_CHUNK_SAMPLES = 1 << 20  # Number of samples of each channel that are decoded at once. The limit bounds the memory.


def detect_audio_format(source: Source) -> str:
    """Return the format of the audio at the current position, such as "FLAC", or "" for wave files and other data."""
    return _detect_format_of_head(source.peek(_MAX_TAG_BYTES))


def is_audio_file(head: bytes) -> bool:
    """Return True if a file is audio. ``head`` holds its first 12 or more bytes, or all bytes of a shorter file."""
    return (head[:4] in (b"RIFF", b"RIFX") and head[8:12] == b"WAVE") or bool(_detect_format_of_head(head))


def _detect_format_of_head(head: bytes) -> str:
    """Return the format of the audio that starts with ``head``, or "" for wave files and other data."""
    for pattern, name, _ in _FORMATS:
        if re.match(pattern, head, re.DOTALL):
            return name
    # A frame of MPEG audio starts with 11 set bits, and a valid version, layer, bit rate and sampling rate.
    if len(head) < 4 or head[0] != 0xFF or head[1] >> 5 != 0b111:
        return ""
    version, layer, bit_rate, sampling_rate = head[1] >> 3 & 3, head[1] >> 1 & 3, head[2] >> 4, head[2] >> 2 & 3
    return "MP3" if version != 1 and layer != 0 and bit_rate not in (0, 15) and sampling_rate != 3 else ""


def require_decoder(source: Source, name: str, offset: int = 0) -> Any:
    """Import and return soundfile. If it is missing, raise FormatError with advice for the audio format ``name``.

    ``offset`` is the byte offset of the audio in the source, for the error.
    """
    try:
        import soundfile
    except ImportError:
        commands = {format_name: command for _, format_name, command in _FORMATS}
        command = commands.get(name, "sox FILE -t wav -b 16 - |")
        message = f"{format_missing_package('soundfile', name)}; or convert the audio in the script file: {command}"
        source.fail(message, offset)
    return soundfile


def decode_audio_file(
    data: Any, source: Source, name: str, max_duration: float = math.inf
) -> tuple[float, npt.NDArray[np.int16]]:
    """Decode the bytes of a whole audio file to 16-bit samples.

    Floats are multiplied by 32768, rounded and clipped. Longer integers are truncated to their upper 16 bits. Messages
    contain the name of ``source`` and the format ``name``, such as "FLAC". A warning is logged if samples are clipped,
    or if there are fewer samples than the header announces.

    Returns:
        The sampling rate in Hz, and the samples, int16 of shape (channels, samples).

    Raises:
        FormatError: soundfile is missing or cannot decode the bytes, or the audio is longer than ``max_duration``
            seconds, or has no samples or NaN samples.
    """
    with _open_audio(io.BytesIO(data), source, name) as file:
        chunks = _read_chunks(file, source, max_duration)
        rate, announced_count, channels = float(file.samplerate), file.frames, file.channels
    samples = np.ascontiguousarray(np.concatenate(chunks).T) if chunks else np.empty((channels, 0), np.int16)
    if samples.shape[1] == 0:
        source.fail(f"{name} audio has no samples: remove the recording", 0)
    count = samples.shape[1]
    if count < announced_count:
        logger.warning("%s: %d samples announced, but only %d are present", source.name, announced_count, count)
    return rate, samples


def measure_audio(source: Source, name: str) -> tuple[float, int, int]:
    """Return the sampling rate in Hz, the number of channels and the number of samples per channel of audio.

    ``name`` is the name of the format, such as "FLAC". FLAC and SPHERE headers usually contain the three numbers.
    Otherwise, libsndfile decides how much of a file to read, and the output of a command is read completely.

    Raise FormatError if soundfile is not installed, or if it cannot read the audio.
    """
    require_decoder(source, name)
    if numbers := _read_size_in_header(source, name):
        return numbers
    data = _FileBytes(source) if isinstance(source, FileSource) else io.BytesIO(source.read_rest(MAX_AUDIO_BYTES))
    with _open_audio(data, source, name) as file:
        return float(file.samplerate), file.channels, file.frames


def _read_size_in_header(source: Source, name: str) -> tuple[float, int, int] | None:
    """Return the sampling rate, number of channels and number of samples in the header of a FLAC or SPHERE file.

    Return None for other formats, and if the header lacks one of the three numbers.
    """
    if name == "FLAC":
        # Fields: sampling rate (20 bits), channels - 1 (3 bits), bits per sample - 1 (5 bits), and samples (36 bits).
        packed = int.from_bytes(source.peek(_FLAC_BYTES)[_FLAC_BYTES - 8 :], "big")
        rate, channels, count = packed >> 44, (packed >> 41 & 7) + 1, packed & (1 << 36) - 1
    elif name == "SPHERE":
        head = source.peek(_SPHERE_BYTES)
        fields = (re.search(rb"\n%b -i ([0-9]{1,18})\s" % key, head) for key in _SPHERE_FIELDS)
        rate, channels, count = (int(field[1]) if field else 0 for field in fields)
    else:
        return None
    return (float(rate), channels, count) if rate and channels and count else None


class _FileBytes(io.RawIOBase):
    """A file for decoders that starts at the current position of a source. Only requested bytes are read."""

    def __init__(self, source: FileSource) -> None:
        self._source, self._start, self._size, self._at = source, source.tell(), source.count_remaining(), 0

    def readinto(self, buffer: Any) -> int:
        count = max(0, min(len(buffer), self._size - self._at))
        buffer[:count] = self._source.read_at(count, self._start + self._at)
        self._at += count
        return count

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        # The values 0, 1 and 2 of ``whence`` stand for the start, the current position and the end.
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


@contextmanager
def _open_audio(data: Any, source: Source, name: str) -> Iterator[Any]:
    """Yield a ``SoundFile`` that reads the file ``data``. Its errors become FormatErrors that name the format."""
    soundfile = require_decoder(source, name)
    try:
        with soundfile.SoundFile(data) as file:
            yield file
    except (RuntimeError, TypeError) as error:  # soundfile's own errors are subclasses of RuntimeError.
        # The reason is the text after the last colon, because soundfile first names the Python object of the file.
        source.fail(f"{name} audio cannot be decoded: {str(error).rpartition(': ')[2]}", 0)


def _read_chunks(file: Any, source: Source, max_duration: float) -> list[npt.NDArray[np.int16]]:
    """Read all samples, in int16 chunks of shape (samples, channels). Scale, round and clip floats.

    The length in the header is not used, because a damaged header may announce any length. Raise FormatError for NaN,
    and for audio that is longer than ``max_duration`` seconds. Clipping causes a warning.
    """
    chunks: list[npt.NDArray[np.int16]] = []
    count = clipped_count = 0
    is_float = file.subtype in ("FLOAT", "DOUBLE")
    while True:
        chunk = file.read(_CHUNK_SAMPLES, dtype="float64" if is_float else "int16", always_2d=True)
        if not len(chunk):
            break
        count += len(chunk)
        if count > max_duration * file.samplerate:
            problem = f"the audio is longer than max_duration={max_duration:g} s"
            source.fail(f"{problem}: split the audio, or increase the limit", 0)
        if is_float:
            if np.isnan(chunk).any():
                source.fail("the audio has NaN samples: create the file again, or remove the recording")
            rounded = np.rint(chunk * 32768.0)
            chunk = np.clip(rounded, -32768, 32767)
            clipped_count += int((chunk != rounded).sum())
        chunks.append(chunk.astype(np.int16))
    if clipped_count:
        logger.warning("%s: %d samples exceed -1 to 1 and were clipped", source.name, clipped_count)
    return chunks
