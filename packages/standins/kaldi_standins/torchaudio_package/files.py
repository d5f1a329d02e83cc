"""torchaudio's ``load``, ``info`` and ``save``, as in version 2.8 with the soundfile backend.

Version 2.9 and later need torchcodec and FFmpeg for ``load`` and ``save``, and have no ``info``.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from os.path import exists
from typing import Any

import torch
from torch import Tensor

from io_ark.extras import import_extra
from kaldi_compat.errors import AudioError

__all__ = [
    "AudioFileError", "AudioMetaData", "get_audio_backend", "info", "list_audio_backends", "load", "load_wav", "save",
    "set_audio_backend",
]  # fmt: skip

# Maps libsndfile's subtypes to torchaudio's encoding and bits, and the type of a WAV file's unscaled samples.
SUBTYPES = {
    "PCM_S8": ("PCM_S", 8, ""), "PCM_16": ("PCM_S", 16, "int16"), "PCM_24": ("PCM_S", 24, ""),
    "PCM_32": ("PCM_S", 32, "int32"), "PCM_U8": ("PCM_U", 8, ""), "FLOAT": ("PCM_F", 32, "float32"),
    "DOUBLE": ("PCM_F", 64, "float64"), "ULAW": ("ULAW", 8, ""), "ALAW": ("ALAW", 8, ""), "VORBIS": ("VORBIS", 0, ""),
    "DWVW_12": ("UNKNOWN", 12, ""), "DWVW_16": ("UNKNOWN", 16, ""), "DWVW_24": ("UNKNOWN", 24, ""),
    "ALAC_16": ("UNKNOWN", 16, ""), "ALAC_20": ("UNKNOWN", 20, ""), "ALAC_24": ("UNKNOWN", 24, ""),
    "ALAC_32": ("UNKNOWN", 32, ""),
}  # fmt: skip
Choices = dict[tuple[str | None, int | None], str]
# Subtypes that `save` writes for each format, by encoding and bits. None for an argument that is not passed.
WAV = {("PCM_S", None): "PCM_32", ("PCM_S", 16): "PCM_16", ("PCM_S", 24): "PCM_24", ("PCM_S", 32): "PCM_32",
       ("PCM_U", None): "PCM_U8", ("PCM_U", 8): "PCM_U8", ("PCM_F", None): "FLOAT", ("PCM_F", 32): "FLOAT",
       ("PCM_F", 64): "DOUBLE", ("ULAW", None): "ULAW", ("ULAW", 8): "ULAW", ("ALAW", None): "ALAW",
       ("ALAW", 8): "ALAW", (None, 8): "PCM_U8", (None, 16): "PCM_16", (None, 24): "PCM_24",
       (None, 32): "PCM_32"}  # fmt: skip
SPHERE = {(name, bits): f"PCM_{bits or 32}" for name in (None, "PCM_S") for bits in (None, 16, 24, 32)} | {
    **{("ULAW", bits): "ULAW" for bits in (None, 8)},
    **{("ALAW", bits): "ALAW" for bits in (None, 8, 16, 24, 32, 64)},
}
OGG: Choices = {(None, None): "VORBIS", ("vorbis", None): "VORBIS", ("opus", None): "OPUS"}
FORMATS: dict[str, Choices] = {
    "wav": WAV,
    "flac": {(None, None): "PCM_16", (None, 8): "PCM_S8", (None, 16): "PCM_16", (None, 24): "PCM_24"},
    "ogg": OGG, "vorbis": OGG, "sph": SPHERE,
}  # fmt: skip
ONE_SUBTYPE = {"mp3": "MPEG_LAYER_III", "nis": "PCM_16", "nist": "PCM_16"}  # Maps formats to their only subtype.
# Subtypes of WAV files by the type of the samples, for calls without an encoding and bits.
TENSOR_SUBTYPES = {torch.uint8: "PCM_U8", torch.int16: "PCM_16", torch.int32: "PCM_32", torch.float32: "FLOAT",
                   torch.float64: "DOUBLE"}  # fmt: skip


WRITABLE = (torch.float32, torch.float64, torch.int16, torch.int32)  # Types of samples that soundfile writes.
MAX_CHANNELS = 1024  # libsndfile's SF_MAX_CHANNELS.


class AudioFileError(AudioError, RuntimeError):
    """Error for an audio file that cannot be read or written. torchaudio raises a RuntimeError or a ValueError."""


class AudioFileTypeError(AudioFileError, TypeError):
    """Error for an argument of a wrong type. torchaudio raises a TypeError."""


@functools.cache
def _make_libsndfile_error_class() -> type[AudioFileError]:
    """Return the class for errors of libsndfile, a subclass of both AudioFileError and soundfile.LibsndfileError."""
    soundfile = import_extra("soundfile", "torchaudio")
    names = {"__init__": Exception.__init__, "__str__": Exception.__str__, "__module__": __name__}
    return type("LibsndfileFileError", (AudioFileError, soundfile.LibsndfileError), names)


def __getattr__(name: str) -> Any:
    if name == "LibsndfileFileError":  # pickle needs the class as an attribute of the module.
        return _make_libsndfile_error_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _convert_error(error: Exception, message: str) -> AudioFileError:
    """Return an AudioFileError with a new message. It is also a LibsndfileError or a TypeError if ``error`` is one."""
    error_class: type[AudioFileError] = AudioFileTypeError if isinstance(error, TypeError) else AudioFileError
    if hasattr(error, "error_string"):  # The error is soundfile's LibsndfileError.
        error_class = _make_libsndfile_error_class()
    converted = error_class(message)
    vars(converted).update(vars(error))  # Handlers may read the original's code and prefix.
    return converted


@dataclass
class AudioMetaData:
    """Result of :func:`info`.

    Attributes:
        sample_rate: sampling rate in Hz.
        num_frames: number of samples per channel.
        num_channels: number of channels.
        bits_per_sample: number of bits per sample. 0 for compressed formats.
        encoding: name of the encoding, such as PCM_S.
    """

    sample_rate: int
    num_frames: int
    num_channels: int
    bits_per_sample: int
    encoding: str


def load(
    uri: Any,
    frame_offset: int = 0,
    num_frames: int = -1,
    normalize: bool = True,
    channels_first: bool = True,
    format: str | None = None,
    buffer_size: int = 4096,
    backend: str | None = None,
) -> tuple[Tensor, int]:
    """Read an audio file.

    Args:
        uri: path, open file, or the bytes of a file.
        frame_offset: index of the first sample. A negative number counts from the end.
        num_frames: maximum number of samples. A negative number reads all samples.
        normalize: True for float32 samples in -1 to 1. False to return the samples of a WAV file in their stored type.
        channels_first: True to return (channels, T). False to return (T, channels).
        format, buffer_size: ignored.
        backend: "soundfile", "sox", "ffmpeg" or None. soundfile always reads the file.

    Returns:
        Samples (channels, T), or (T, channels) with ``channels_first=False``, and the sampling rate in Hz.

    Raises:
        AudioFileError: the file cannot be read, ``backend`` has another value, or ``normalize=False`` does not support
            the type of the samples.
        MissingExtraError: soundfile is not installed.

    >>> import tempfile, torch
    >>> from kaldi_standins.torchaudio_package import load, save
    >>> save(path := tempfile.mkdtemp() + "/audio.wav", torch.zeros(1, 8000), 16000)
    >>> samples, rate = load(path)
    >>> samples.shape, rate
    (torch.Size([1, 8000]), 16000)
    """
    with _open_file(uri, "load", backend) as file:
        dtype = "float32"
        if file.format == "WAV" and not normalize:
            dtype = SUBTYPES.get(file.subtype, ("", 0, ""))[2]
            if not dtype:
                raise AudioFileError(
                    f"normalize=False cannot read samples of {file.subtype} in {_name(uri)}: pass normalize=True"
                )
        start = frame_offset if frame_offset >= 0 else file.frames + frame_offset
        start = min(max(start, 0), file.frames)
        if start:  # Some compressed formats cannot seek, not even to the start.
            file.seek(start)
        count = num_frames if num_frames >= 0 else file.frames - start
        samples = torch.from_numpy(file.read(count, dtype=dtype, always_2d=True))
        return samples.T.contiguous() if channels_first else samples, int(file.samplerate)


def load_wav(filepath: Any, frame_offset: int = 0, num_frames: int = -1) -> tuple[Tensor, int]:
    """Read an audio file on the scale of 16-bit integers, like the function that torchaudio removed in version 0.9.

    Args:
        filepath: path or open file.
        frame_offset: index of the first sample. A negative number counts from the end.
        num_frames: maximum number of samples. A negative number reads all samples.

    Returns:
        float32 samples (channels, T) in -32768 to 32767, and the sampling rate in Hz.

    Raises:
        AudioFileError: the file cannot be read.
        MissingExtraError: soundfile is not installed.

    >>> import tempfile, torch
    >>> from kaldi_standins.torchaudio_package import load_wav, save
    >>> save(path := tempfile.mkdtemp() + "/audio.wav", torch.full((1, 8000), 0.5), 16000)
    >>> load_wav(path)[0].max()
    tensor(16384.)
    """
    samples, rate = load(filepath, frame_offset, num_frames)
    return samples * 32768, rate


def info(uri: Any, format: str | None = None, buffer_size: int = 4096, backend: str | None = None) -> AudioMetaData:
    """Return the metadata of an audio file, such as its sampling rate and length, from its header.

    Args:
        uri: path, open file, or the bytes of a file.
        format, buffer_size: ignored.
        backend: see :func:`load`.

    Raises:
        AudioFileError: the file cannot be read, or ``backend`` is unknown.
        MissingExtraError: soundfile is not installed.

    >>> import tempfile, torch
    >>> from kaldi_standins.torchaudio_package import info, save
    >>> save(path := tempfile.mkdtemp() + "/audio.wav", torch.zeros(1, 8000), 16000)
    >>> info(path).num_frames
    8000
    """
    with _open_file(uri, "info", backend) as file:
        encoding, bits, _ = SUBTYPES.get(file.subtype, ("UNKNOWN", 0, ""))
        encoding = "FLAC" if file.format == "FLAC" else encoding
        return AudioMetaData(int(file.samplerate), int(file.frames), int(file.channels), bits, encoding)


def save(
    uri: Any,
    src: Tensor,
    sample_rate: int,
    channels_first: bool = True,
    format: str | None = None,
    encoding: str | None = None,
    bits_per_sample: int | None = None,
    buffer_size: int = 4096,
    backend: str | None = None,
    compression: Any = None,
) -> None:
    """Write an audio file.

    Args:
        uri: path or open file.
        src: samples (channels, T): float32 or float64 in -1 to 1, int16 or int32.
        sample_rate: sampling rate in Hz.
        channels_first: False for samples (T, channels).
        format: file format of an open file, such as wav, flac, ogg or mp3. The suffix of a path names the format.
        encoding: PCM_S, PCM_U, PCM_F, ULAW or ALAW for WAV and SPHERE files. vorbis or opus for OGG files.
        bits_per_sample: 8, 16, 24, 32 or 64. None for the type of ``src`` in WAV files, and for 16 bits in FLAC files.
        buffer_size: ignored.
        backend: see :func:`load`.
        compression: must be None, because soundfile does not support it.

    Raises:
        AudioFileError: the samples have a wrong shape, an open file lacks a ``format``, an argument is not supported by
            the format or soundfile, or the file cannot be written.
        MissingExtraError: soundfile is not installed.

    >>> import tempfile, torch
    >>> from kaldi_standins.torchaudio_package import save
    >>> save(tempfile.mkdtemp() + "/audio.wav", torch.zeros(1, 8000), 16000)
    """
    soundfile = _import_soundfile("save", backend)
    if not isinstance(src, Tensor):
        raise AudioFileTypeError(
            f"samples must be a tensor, not a value of type {type(src).__name__}: pass the file first, then the "
            "samples; torch.as_tensor converts an array"
        )
    if src.ndim != 2:
        layout = "(channels, T)" if channels_first else "(T, channels)"
        raise AudioFileError(f"expected samples of shape {layout}, not {tuple(src.shape)}: reshape the samples")
    if compression:
        raise AudioFileError(f"compression={compression} is not supported by soundfile: leave compression out")
    if hasattr(uri, "write") and format is None:
        raise AudioFileError("an open file needs a format: pass a format, such as format='wav'")
    file_format = str(format if hasattr(uri, "write") else str(uri).rpartition(".")[2]).lower()
    if file_format not in FORMATS and file_format not in ONE_SUBTYPE:
        raise AudioFileError(f"cannot write {_name(uri)}: choose a format from {', '.join([*FORMATS, *ONE_SUBTYPE])}")
    # In torchaudio, an empty encoding means the default, but only for wav and flac.
    encoding = encoding or None if file_format in ("wav", "flac") else encoding
    subtype = _choose_subtype(file_format, src.dtype, encoding, bits_per_sample or None)
    if subtype is None or bits_per_sample not in (None, 8, 16, 24, 32, 64):
        request = f"samples of {src.dtype}, encoding={encoding}, bits_per_sample={bits_per_sample}"
        raise AudioFileError(
            f"cannot write {_name(uri)}: {file_format} does not have {request}: convert the samples, or choose another "
            "encoding or size"
        )
    # soundfile would empty an existing file before it refuses these arguments, or write a file of another name.
    if "\0" in str(uri):
        raise AudioFileError(f"cannot write {_name(uri)}: the name has a zero byte")
    channels = src.shape[0 if channels_first else 1]
    if not 1 <= channels <= MAX_CHANNELS:
        raise AudioFileError(f"cannot write {_name(uri)}: audio cannot have {channels} channels: check channels_first")
    if isinstance(sample_rate, int) and not 1 <= sample_rate < 2**31:
        raise AudioFileError(f"cannot write {_name(uri)}: a sampling rate of {sample_rate} Hz is not possible")
    if src.dtype not in WRITABLE:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in WRITABLE)
        raise AudioFileError(f"cannot write {_name(uri)}: the type of the samples must be one of {names}: convert them")
    container = format or ("NIST" if file_format in ("sph", "nis", "nist") else None)
    try:
        samples = (src.T if channels_first else src).detach().cpu().numpy()
        soundfile.write(uri, samples, sample_rate, subtype=subtype, format=container)
    except (RuntimeError, OSError, TypeError, ValueError) as error:  # Errors of soundfile and torch are RuntimeErrors.
        raise _convert_error(error, f"cannot write {_name(uri)}: {error}") from error


def _choose_subtype(file_format: str, dtype: torch.dtype, encoding: str | None, bits: int | None) -> str | None:
    """Return the libsndfile subtype for samples of type ``dtype`` in a file format, or None if there is none.

    ``encoding`` and ``bits`` per sample are None for the format's default, which for WAV files depends on ``dtype``.
    """
    if file_format == "wav" and not encoding and not bits and dtype in TENSOR_SUBTYPES:
        return TENSOR_SUBTYPES[dtype]
    return ONE_SUBTYPE.get(file_format) or FORMATS[file_format].get((encoding, bits))


def set_audio_backend(backend: str | None) -> None:
    """Do nothing: soundfile reads and writes all files. torchaudio 2.9 removed this function.

    Args:
        backend: name of a backend, such as "soundfile" or "sox_io". It is ignored.
    """


def list_audio_backends() -> list[str]:
    """Return the names of the backends. torchaudio 2.9 removed this function.

    >>> from kaldi_standins.torchaudio_package import list_audio_backends
    >>> list_audio_backends()
    ['soundfile']
    """
    return ["soundfile"]


def get_audio_backend() -> str:
    """Return the name of the backend. torchaudio 2.9 removed this function.

    >>> from kaldi_standins.torchaudio_package import get_audio_backend
    >>> get_audio_backend()
    'soundfile'
    """
    return "soundfile"


def _import_soundfile(function: str, backend: str | None) -> Any:
    """Import and return soundfile. Errors show ``function``, the name of the calling function of torchaudio.

    Raises:
        AudioFileError: ``backend`` is not a backend of torchaudio, or the C library of soundfile is missing.
        MissingExtraError: soundfile is not installed.
    """
    if backend not in (None, "soundfile", "sox", "ffmpeg"):
        raise AudioFileError(f"torchaudio has no backend {backend!r}: leave backend out")
    try:
        return import_extra("soundfile", f"torchaudio.{function}")
    except OSError as error:  # The C library libsndfile is missing.
        problem = f"torchaudio.{function} needs soundfile, which cannot load its C library ({error})"
        raise AudioFileError(f"{problem}: install libsndfile") from error


@contextmanager
def _open_file(uri: Any, function: str, backend: str | None) -> Iterator[Any]:
    """Open an audio file, and yield the ``soundfile.SoundFile``. Convert errors to AudioFileErrors.

    For ``function`` and ``backend``, see :func:`_import_soundfile`.
    """
    soundfile = _import_soundfile(function, backend)
    # Bytes with a zero byte are the file itself: no path contains a zero byte, and every audio header does.
    source = io.BytesIO(uri) if isinstance(uri, bytes | bytearray | memoryview) and 0 in uri else uri
    try:
        with soundfile.SoundFile(source) as file:
            yield file
    except (soundfile.SoundFileError, OSError, TypeError, ValueError) as error:
        if isinstance(error, AudioFileError):
            raise
        reason = str(getattr(error, "error_string", error))
        if isinstance(uri, str | PathLike) and not exists(uri):
            reason = "no such file"
        elif "not recognised" in reason or "unknown format" in reason:
            version = soundfile.__libsndfile_version__
            reason += (
                f" libsndfile {version} reads WAV, FLAC, OGG and (from 1.1 on) MP3: convert the file to such a format"
            )
        raise _convert_error(error, f"cannot read {_name(uri)}: {reason}") from error


def _name(uri: Any) -> str:
    return f"{len(uri)} bytes" if isinstance(uri, bytes | bytearray | memoryview) else str(uri)
