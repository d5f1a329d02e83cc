"""torchaudio's ``load``, ``info`` and ``save``, by soundfile."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from io_ark.extras import import_extra
from kaldi_compat.errors import AudioError

__all__ = [
    "AudioMetaData", "get_audio_backend", "info", "list_audio_backends", "load", "load_wav", "save",
    "set_audio_backend",
]  # fmt: skip

SUBTYPES = {("PCM_S", 16): "PCM_16", ("PCM_S", 24): "PCM_24", ("PCM_S", 32): "PCM_32", ("PCM_U", 8): "PCM_U8",
            ("PCM_F", 32): "FLOAT", ("PCM_F", 64): "DOUBLE", ("ULAW", 8): "ULAW", ("ALAW", 8): "ALAW"}  # fmt: skip
WHOLE = {"PCM_16": "int16", "PCM_32": "int32", "PCM_24": "int32"}


@dataclass
class AudioMetaData:
    """Result of :func:`info`.

    Attributes:
        sample_rate: in Hz.
        num_frames: number of samples of a channel.
        num_channels: number of channels.
        bits_per_sample: 0 for compressed formats.
        encoding: such as PCM_S.
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
        uri: path or open file.
        frame_offset, num_frames: first sample, and number of samples; -1 for all.
        normalize: float32 in -1 to 1; False keeps the integers of a WAV file.
        channels_first: (channels, T), not (T, channels).
        format, buffer_size, backend: ignored.

    Returns:
        Samples, and the sampling rate.

    Raises:
        AudioError: the file cannot be read.
        MissingExtraError: soundfile is not installed.
    """
    soundfile = import_extra("soundfile", "torchaudio.load")
    try:
        with soundfile.SoundFile(uri) as file:
            keeps_integers = not normalize and file.format in ("WAV", "WAVEX")
            file.seek(frame_offset)
            dtype = WHOLE.get(file.subtype, "float32") if keeps_integers else "float32"
            samples = torch.from_numpy(file.read(num_frames, dtype=dtype, always_2d=True))
            return samples.T.contiguous() if channels_first else samples, int(file.samplerate)
    except (soundfile.LibsndfileError, OSError, TypeError) as error:
        raise AudioError(f"failed to load audio from {uri}: {error}") from error


def load_wav(filepath: Any, frame_offset: int = 0, num_frames: int = -1) -> tuple[Tensor, int]:
    """Read an audio file on the scale of 16-bit integers, as the function that torchaudio removed in version 0.9.

    Args:
        filepath: path or open file.
        frame_offset, num_frames: first sample, and number of samples; -1 for all.

    Returns:
        float32 samples (channels, T) in -32768 to 32767, and the sampling rate.

    Raises:
        AudioError: the file cannot be read.
        MissingExtraError: soundfile is not installed.
    """
    samples, rate = load(filepath, frame_offset, num_frames)
    return samples * 32768, rate


def info(uri: Any, format: str | None = None, buffer_size: int = 4096, backend: str | None = None) -> AudioMetaData:
    """Return what the header of an audio file says; ``format``, ``buffer_size`` and ``backend`` are ignored.

    Raises:
        AudioError: the file cannot be read.
        MissingExtraError: soundfile is not installed.
    """
    soundfile = import_extra("soundfile", "torchaudio.info")
    try:
        found = soundfile.info(uri)
    except (soundfile.LibsndfileError, OSError, TypeError) as error:
        raise AudioError(f"failed to open {uri}: {error}") from error
    named = {subtype: names for names, subtype in SUBTYPES.items()}
    if found.format == "FLAC":
        encoding, bits = "FLAC", int(found.subtype[-2:]) if found.subtype[-2:].isdigit() else 8
    else:
        encoding, bits = named.get(found.subtype, (found.subtype, 0))
    return AudioMetaData(int(found.samplerate), int(found.frames), int(found.channels), bits, encoding)


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
        src: samples (channels, T): float32 in -1 to 1, int16, int32 or uint8.
        sample_rate: in Hz.
        channels_first: False for samples (T, channels).
        format: such as wav or flac; by default from the name.
        encoding, bits_per_sample: such as PCM_S and 16; by default those of the samples' type.
        buffer_size, backend, compression: ignored.

    Raises:
        AudioError: samples of another shape, or a file that cannot be written.
        MissingExtraError: soundfile is not installed.
    """
    soundfile = import_extra("soundfile", "torchaudio.save")
    if src.ndim != 2:
        raise AudioError(f"expected samples of shape (channels, T), not {tuple(src.shape)}")
    samples = (src.T if channels_first else src).detach().cpu().numpy()
    container = (format or os.path.splitext(os.fspath(uri))[1][1:] or "wav").upper()
    own = {torch.float32: ("PCM_F", 32), torch.float64: ("PCM_F", 64), torch.int16: ("PCM_S", 16),
           torch.int32: ("PCM_S", 32), torch.uint8: ("PCM_U", 8)}.get(src.dtype, ("PCM_S", 16))  # fmt: skip
    chosen = (encoding or ("PCM_S" if bits_per_sample else own[0]), bits_per_sample or (16 if encoding else own[1]))
    subtype = SUBTYPES.get(chosen) if container in ("WAV", "WAVEX") else None
    try:
        soundfile.write(uri, samples, sample_rate, subtype=subtype, format=container)
    except (soundfile.LibsndfileError, OSError, TypeError, ValueError) as error:
        raise AudioError(f"failed to write audio to {uri}: {error}") from error


def set_audio_backend(backend: str | None) -> None:
    """Do nothing: soundfile reads and writes all files. torchaudio 2.2 has removed this function.

    Args:
        backend: ignored, such as "soundfile" and "sox_io".
    """


def list_audio_backends() -> list[str]:
    """Return the names of the readers of files: ``["soundfile"]``. torchaudio 2.9 has removed this function."""
    return ["soundfile"]


def get_audio_backend() -> str:
    """Return the name of the reader of files, "soundfile". torchaudio 2.2 has removed this function."""
    return "soundfile"
