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
    """Return an array unchanged, or the features in a named file. Raise FeatureError for the suffix of a recording."""
    if isinstance(features, str | PathLike) and os.fspath(features).lower().endswith(RECORDING_SUFFIXES):
        raise FeatureError(f"{os.fspath(features)} is a recording: pass the features first, and the recording second")
    return read_features(features) if isinstance(features, str | PathLike) else cast("npt.ArrayLike", features)


def load_audio(
    audio: npt.ArrayLike | PathLike[str] | io_ark.Wave, rate: float | None
) -> tuple[npt.ArrayLike, float | None]:
    """Return samples (T,) or (channels, T) and their rate in Hz, or features (frames, dim) and ``rate``.

    A string or path names a file of features or a recording. If ``rate`` is not None, it replaces the rate of a file or
    of an :class:`io_ark.Wave`. An array is returned unchanged. Raise FeatureError or ArkError for an unreadable file.
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
    """Return True if a name has one of the ``SUFFIXES``, in lowercase, or contains a colon as in ``feats.ark:KEY``."""
    name = os.fspath(path)
    return name.endswith(SUFFIXES) or ":" in name


def read_features(path: str | PathLike[str]) -> Any:
    """Return the features (frames, dim) of a NumPy file, a text file, a file of one matrix, or an entry of a table.

    ``feats.ark:KEY`` or ``feats.scp:KEY`` is the first entry with this key. If all characters after the colon are
    digits, they are an offset in bytes, as in a script file.

    Raises:
        FeatureError: a text file cannot be read, a ``.npz`` file has no array ``features``, and several or no other
            arrays, or a table is named without a key or does not contain the key.
        ArkError: any other file cannot be read.
    """
    name = os.fspath(path)
    if name.endswith(".npy"):
        return load_npy(name)
    if name.endswith(".npz"):
        return _load_features_array(name)
    if name.endswith(SUFFIXES):
        return _read_text_file(name)
    file, _, key = name.rpartition(":")
    if not file or key.isdigit():
        return _read_object("matrix", name, f"append a key, {name}:KEY; 'ark ls {name}' lists the keys")
    table_type = "scp" if file.endswith(".scp") else "ark"
    for entry_key, matrix in io_ark.SequentialReader(f"{table_type}:{file}", kind="matrix", pipes=False):
        if entry_key == key:
            return matrix
    raise FeatureError(f"{file} has no entry {key}: 'ark ls {file}' lists the entries")


def read_recording(path: str | PathLike[str]) -> tuple[Any, float]:
    """Return the samples (T,) or (channels, T) of an audio file and the rate in Hz. Raise FeatureError for a table."""
    wave = _read_object("wave", os.fspath(path), "pass one of the wave files in the table")
    return (wave.samples[0] if len(wave.samples) == 1 else wave.samples), wave.sample_frequency


def _load_features_array(name: str) -> Any:
    """Return the array ``features`` of a ``.npz`` file or, if no array has this name, the only array.

    Raise :class:`FeatureError` if the file has several arrays, or none, and no array is named ``features``.
    """
    arrays = load_npz(name)
    if "features" in arrays:
        return arrays["features"]
    if len(arrays) != 1:
        listed = f", and has {len(arrays)} other arrays ({', '.join([*arrays][:5])})" if arrays else ""
        raise FeatureError(f"{name} has no array 'features'{listed}: save the features as a .npy file")
    return next(iter(arrays.values()))


def _read_text_file(name: str) -> Any:
    """Return the array (rows, columns) of a comma-separated file (``.csv``), or of a file separated by white space.

    Raise :class:`FeatureError` if the file cannot be read, contains anything but numbers, or has unequal rows.
    """
    try:
        return np.loadtxt(name, delimiter="," if name.endswith(".csv") else None, ndmin=2)
    except OSError as error:
        raise FeatureError(f"cannot read {name}: {error.strerror or error}") from None
    except (ValueError, MemoryError) as error:
        advice = f"if the file is a Kaldi table, append a key, {name}:KEY"
        raise FeatureError(f"cannot read {name}: {str(error).rstrip('.')}; {advice}") from None


def _read_object(kind: Literal["matrix", "wave"], name: str, advice: str) -> Any:
    """Read the object ``name``. If its format is wrong and its suffix .ark or .scp, raise FeatureError with advice."""
    try:
        return io_ark.load(name, kind=kind, pipes=False)
    except FormatError as error:
        if not name.endswith((".scp", ".ark")):
            raise
        raise FeatureError(f"{name} is not a single {kind}: if the file is a table, {advice}") from error
