"""Read features and recordings for :func:`kaldi_explain.explain` from NumPy files, text, archives and audio files."""

from __future__ import annotations

import os
from os import PathLike
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

import io_ark
from io_ark.errors import FormatError
from io_ark.numpy_files import load_npy, load_npz
from kaldi_compat.errors import FeatureError

SUFFIXES = (".npy", ".npz", ".csv", ".txt")
RECORDING_SUFFIXES = (".wav", ".flac", ".mp3", ".ogg")


def load_features(features: npt.ArrayLike | PathLike[str]) -> npt.ArrayLike:
    """Return an array of features unchanged, or read the file that a string or path names.

    Raises:
        FeatureError, ArkError: the file cannot be read, or is a recording.
    """
    if isinstance(features, str | PathLike) and os.fspath(features).lower().endswith(RECORDING_SUFFIXES):
        raise FeatureError(f"{os.fspath(features)} is a recording: pass the features first, and the recording second")
    return read_features(features) if isinstance(features, str | PathLike) else cast("npt.ArrayLike", features)


def load_audio(
    audio: npt.ArrayLike | PathLike[str] | io_ark.Wave, rate: float | None
) -> tuple[npt.ArrayLike, float | None]:
    """Return samples and their rate in Hz, or other features and ``rate``. A string or path is read as a file.

    ``rate`` replaces the rate of a file or of an :class:`io_ark.Wave`, unless it is None.

    Raises:
        FeatureError, ArkError: the file cannot be read.
    """
    if isinstance(audio, str | PathLike):
        if is_features_name(audio):
            return read_features(audio), rate
        samples, own_rate = read_recording(audio)
    elif isinstance(audio, io_ark.Wave):
        samples, own_rate = audio.samples, audio.sample_frequency
    else:
        return cast("npt.ArrayLike", audio), rate
    return samples, own_rate if rate is None else rate


def is_features_name(path: str | PathLike[str]) -> bool:
    """Return True if a name belongs to features, and False if it belongs to a recording."""
    name = os.fspath(path)
    return name.endswith(SUFFIXES) or ":" in name


def read_features(path: str | PathLike[str]) -> Any:
    """Return the features of a NumPy file, a text file of numbers, or an entry of an archive or script file.

    Raises:
        FeatureError: a text file cannot be read, a ``.npz`` file holds several arrays and none has the name features,
            a table is named without an entry, or has no such entry.
        ArkError: any other file cannot be read.
    """
    name = os.fspath(path)
    if name.endswith(".npy"):
        return load_npy(name)
    if name.endswith(".npz"):
        return _load_features_array(name)
    if name.endswith(SUFFIXES):
        return _read_text(name)
    file, _, key = name.rpartition(":")
    if not file or key.isdigit():
        return _read_object("matrix", name, f"append a key, {name}:KEY; 'ark ls {name}' lists the keys")
    how = "scp" if file.endswith(".scp") else "ark"
    for entry, matrix in io_ark.SequentialReader(f"{how}:{file}", kind="matrix", pipes=False):
        if entry == key:
            return matrix
    raise FeatureError(f"{file} has no entry {key}: 'ark ls {file}' lists the entries")


def read_recording(path: str | PathLike[str]) -> tuple[Any, float]:
    """Return the samples (T,) or (channels, T) of an audio file, and their rate in Hz.

    Raises:
        FeatureError: the file is a table.
        ArkError: the file cannot be read.
    """
    wave = _read_object("wave", os.fspath(path), "pass one of the wave files in the table")
    return (wave.samples[0] if len(wave.samples) == 1 else wave.samples), wave.sample_frequency


def _load_features_array(name: str) -> Any:
    """Return the array ``features`` of a ``.npz`` file, or the only array if the file has just one.

    ``kaldi-compat frontend check`` reads files with an array ``features`` as well.

    Raises:
        FeatureError: the file has several arrays, or none, and no array is named ``features``.
    """
    arrays = load_npz(name)
    if "features" in arrays:
        return arrays["features"]
    if len(arrays) != 1:
        listed = f", and has {len(arrays)} other arrays ({', '.join([*arrays][:5])})" if arrays else ""
        raise FeatureError(f"{name} has no array 'features'{listed}: save the features as a .npy file")
    return next(iter(arrays.values()))


def _read_text(name: str) -> Any:
    """Return the array (rows, columns) of a text file. A ``.csv`` file has commas, other files have white space.

    Raises:
        FeatureError: the file cannot be read, or holds anything but numbers.
    """
    try:
        return np.loadtxt(name, delimiter="," if name.endswith(".csv") else None, ndmin=2)
    except OSError as error:
        raise FeatureError(f"cannot read {name}: {error.strerror or error}") from None
    except (ValueError, MemoryError) as error:
        advice = f"if the file is a Kaldi table, append a key, {name}:KEY"
        raise FeatureError(f"cannot read {name}: {str(error).rstrip('.')}; {advice}") from None


def _read_object(kind: Literal["matrix", "wave"], name: str, advice: str) -> Any:
    """Read the object ``name``. If ``name`` is a whole table, the message of the error ends with ``advice``."""
    try:
        return io_ark.load(name, kind=kind, pipes=False)
    except FormatError as error:
        if not name.endswith((".scp", ".ark")):
            raise
        raise FeatureError(f"{name} is not a single {kind}: if the file is a table, {advice}") from error
