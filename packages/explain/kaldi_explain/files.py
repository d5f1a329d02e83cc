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

FEATURES_SUFFIXES = (".npy", ".npz", ".csv", ".txt")
RECORDING_SUFFIXES = (".wav", ".flac", ".mp3", ".ogg")
MAX_LISTED_ARRAYS = 5  # Number of names of arrays that a message lists, to stay readable.


def load_features(features: npt.ArrayLike | PathLike[str]) -> npt.ArrayLike:
    """Return an array of features unchanged, or read features from a file with :func:`read_features`.

    Raise FeatureError if the file name ends with a suffix of recordings, such as ``.wav``. :func:`read_features`
    describes the other errors.
    """
    if isinstance(features, str | PathLike) and os.fspath(features).lower().endswith(RECORDING_SUFFIXES):
        raise FeatureError(f"{os.fspath(features)} is a recording: pass the features first, and the recording second")
    return read_features(features) if isinstance(features, str | PathLike) else cast("npt.ArrayLike", features)


def load_audio(
    audio: npt.ArrayLike | PathLike[str] | io_ark.Wave, rate: float | None
) -> tuple[npt.ArrayLike, float | None]:
    """Return samples (T,) or (channels, T) and their sampling rate in Hz, or features (frames, dim) and ``rate``.

    An array is returned unchanged with ``rate``. The name of a file of features is recognized by
    :func:`is_features_name`. The rate of a recording or a :class:`io_ark.Wave` is returned only if ``rate`` is None.
    Raise FeatureError or ArkError if a file cannot be read.
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
    """Return True if a file name has a suffix of features, in lower case, or a colon, as in ``feats.ark:KEY``."""
    name = os.fspath(path)
    return name.endswith(FEATURES_SUFFIXES) or ":" in name


def read_features(path: str | PathLike[str]) -> Any:
    """Read features (frames, dim) from a NumPy file, a text file, a file of one Kaldi matrix, or a table.

    ``feats.ark:KEY`` or ``feats.scp:KEY`` names the first entry with this key. If all characters after the last colon
    are digits, they are the position of the matrix in the file, in bytes.

    Raises:
        FeatureError: a text file cannot be read; the features in a ``.npz`` file are ambiguous; or a table is named
            without a key, or has no entry with this key.
        ArkError: any other file cannot be read.
    """
    name = os.fspath(path)
    if name.endswith(".npy"):
        return load_npy(name)
    if name.endswith(".npz"):
        return _load_features_array(name)
    if name.endswith((".csv", ".txt")):
        return _read_text_file(name)
    file, _, key = name.rpartition(":")
    if not file or key.isdigit():  # The name has no colon, or ends with a position in the file.
        return _read_object("matrix", name, f"append a key, {name}:KEY; 'ark ls {name}' lists the keys")
    table_type = "scp" if file.endswith(".scp") else "ark"
    for entry_key, matrix in io_ark.SequentialReader(f"{table_type}:{file}", kind="matrix", pipes=False):
        if entry_key == key:
            return matrix
    raise FeatureError(f"{file} has no entry {key}: 'ark ls {file}' lists the entries")


def read_recording(path: str | PathLike[str]) -> tuple[Any, float]:
    """Return the samples of an audio file, (T,) for one channel or else (channels, T), and its sampling rate in Hz.

    Raise FeatureError if the path seems to name a table, and ArkError for any other file that cannot be read.
    """
    wave = _read_object("wave", os.fspath(path), "pass one of the wave files in the table")
    return (wave.samples[0] if len(wave.samples) == 1 else wave.samples), wave.sample_frequency


def _load_features_array(name: str) -> Any:
    """Return the array "features" of a ``.npz`` file, or its only array. Raise FeatureError if it has neither."""
    arrays = load_npz(name)
    if "features" in arrays:
        return arrays["features"]
    if len(arrays) != 1:
        listed = f", and has {len(arrays)} other arrays ({', '.join([*arrays][:MAX_LISTED_ARRAYS])})" if arrays else ""
        raise FeatureError(f"{name} has no array 'features'{listed}: save the features as a .npy file")
    return next(iter(arrays.values()))


def _read_text_file(name: str) -> Any:
    """Read an array (rows, columns) of numbers, separated by commas in a ``.csv`` file and otherwise by white space.

    Raise :class:`FeatureError` if the file cannot be read, contains other text, or has rows of unequal lengths.
    """
    try:
        return np.loadtxt(name, delimiter="," if name.endswith(".csv") else None, ndmin=2)
    except OSError as error:
        raise FeatureError(f"cannot read {name}: {error.strerror or error}") from None
    except (ValueError, MemoryError) as error:
        advice = f"if the file is a Kaldi table, append a key, {name}:KEY"
        raise FeatureError(f"cannot read {name}: {str(error).rstrip('.')}; {advice}") from None


def _read_object(kind: Literal["matrix", "wave"], name: str, advice: str) -> Any:
    """Read a file that contains one matrix or one recording (``kind``). Raise ArkError if it cannot be read.

    A file ``.ark`` or ``.scp`` with an invalid format is probably a table. In this case, raise FeatureError, whose
    message ends with ``advice``.
    """
    try:
        return io_ark.load(name, kind=kind, pipes=False)
    except FormatError as error:
        if not name.endswith((".scp", ".ark")):
            raise
        raise FeatureError(f"{name} is not a single {kind}: if the file is a table, {advice}") from error
