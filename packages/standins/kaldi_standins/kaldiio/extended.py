"""Objects of kaldiio that Kaldi does not have: audio files, NumPy files and pickles within archives.

The tags ``AUDIO`` and ``NPY`` are followed by the number of bytes of the size, the size (little-endian), and the bytes
of an audio or NumPy file. The tag ``PKL`` is followed by a pickle. A FLAC file has no tag and extends to the end.

Source: ``read_kaldi`` and ``save_ark`` in kaldiio's ``matio.py``.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from io_ark.codecs.base import Sink
from io_ark.errors import FormatError, SpecifierError
from io_ark.extras import format_missing_package
from io_ark.streams.source import Source
from kaldi_standins.kaldiio.plain_pickle import read_pickle, write_pickle
from kaldi_standins.kaldiio.wavio import decode_audio, describe_soundfile_error

Reader = Callable[..., Any]  # A reader takes a source, and the arguments of soundfile.read as keywords.
Writer = Callable[[Sink, Any], None]

_MAX_SIZE_BYTES = 8  # Largest length, in bytes, of the size that follows a tag.


def find_extended_reader(head: bytes) -> Reader | None:
    """Return the reader of an object whose first six bytes are ``head``, or None for any object without a reader."""
    if head[:4] == b"fLaC":
        return _read_flac
    for tag, reader in _READERS.items():
        if head.startswith(tag) and len(head) > len(tag):
            next_byte = head[len(tag)]
            # A pickle starts with the byte 0x80, and other data with the width of its size. Neither is a letter, so a
            # word such as "AUDIO" in a text archive is not mistaken for a tag.
            is_tag = next_byte == 0x80 if tag == b"PKL" else 0 < next_byte <= _MAX_SIZE_BYTES
            if is_tag:
                return reader
    return None


def _read_flac(source: Source, **_: Any) -> Any:
    return decode_audio(source.read_rest(), source)


def _read_audio(source: Source, **options: Any) -> Any:
    return decode_audio(_read_sized_bytes(source, b"AUDIO"), source, **options)


def _read_numpy(source: Source, **_: Any) -> Any:
    """Skip the tag NPY, read the size and the NumPy file that follow it, and return the array of the file."""
    from io_ark.numpy_files import read_npy

    data = _read_sized_bytes(source, b"NPY")
    return read_npy(io.BytesIO(data), len(data), source.name)


def _read_pickle(source: Source, **_: Any) -> Any:
    """Skip the tag PKL, and read a plain value that ``pickle.dump`` wrote."""
    source.skip(len(b"PKL"))
    return read_pickle(source)


def _read_sized_bytes(source: Source, tag: bytes) -> bytes | memoryview:
    """Skip a tag, read the size of the data (see :func:`encode_length`), and return the data."""
    source.skip(len(tag))
    width = source.read(1)[0]
    return source.read(int.from_bytes(source.read(width), "little"))


_READERS: Mapping[bytes, Reader] = {b"AUDIO": _read_audio, b"NPY": _read_numpy, b"PKL": _read_pickle}


def make_extended_writer(name: str, options: Mapping[str, Any]) -> Writer:
    """Return the function that writes objects in the format that kaldiio's argument ``write_function`` selects.

    ``name`` is "soundfile", "numpy" or "pickle" in lower or upper case. ``options`` are arguments of
    ``soundfile.write``, ``numpy.save`` or ``pickle.dumps``. By default, soundfile writes WAV files. Raise
    SpecifierError if the name is not supported.
    """
    lower_name = name.lower() if isinstance(name, str) else None
    if lower_name == "soundfile":
        return lambda sink, value: _write_audio(sink, value, {"format": "wav"} | dict(options))
    if lower_name == "numpy":
        return lambda sink, value: _write_numpy(sink, value, options)
    if lower_name == "pickle":
        return lambda sink, value: write_pickle(sink, value, options)
    raise SpecifierError(f"write_function={name!r} is not supported: choose 'numpy', 'pickle' or 'soundfile', whose "
                         "argument write_kwargs={'format': 'flac'} chooses an audio format")  # fmt: skip


def _write_audio(sink: Sink, value: Any, options: Mapping[str, Any]) -> None:
    """Write the tag AUDIO, the size, and an audio file. ``value`` is a pair of a rate and samples in any order.

    Raise FormatError if soundfile is not installed, or the value is not such a pair, or cannot be encoded.
    """
    try:
        import soundfile
    except ImportError:
        raise FormatError(format_missing_package("soundfile", "write_function='soundfile'")) from None
    if not (isinstance(value, list | tuple) and len(value) == 2):
        raise FormatError(f"write_function='soundfile' needs values (rate, samples), not {type(value).__name__}")
    rate, samples = value if isinstance(value[1], np.ndarray) else (value[1], value[0])
    if not isinstance(samples, np.ndarray) or not isinstance(rate, int | np.integer):
        raise FormatError(f"write_function='soundfile' needs an integer rate and an array of samples, not "
                          f"({type(value[0]).__name__}, {type(value[1]).__name__})")  # fmt: skip
    data = io.BytesIO()
    try:
        soundfile.write(data, samples, int(rate), **options)
    except (soundfile.LibsndfileError, RuntimeError, TypeError, ValueError) as error:
        raise FormatError(f"audio cannot be encoded by soundfile: {describe_soundfile_error(error)}") from error
    _write_sized_bytes(sink, b"AUDIO", data.getvalue())


def _write_numpy(sink: Sink, value: Any, options: Mapping[str, Any]) -> None:
    """Write the tag NPY, the size, and a NumPy file with a value. Raise FormatError if NumPy refuses the value."""
    data = io.BytesIO()
    try:
        np.save(data, value, **({"allow_pickle": False} | dict(options)))
    except ValueError as error:
        raise FormatError(f"a {type(value).__name__} cannot be written as a NumPy array: {error}") from error
    _write_sized_bytes(sink, b"NPY", data.getvalue())


def _write_sized_bytes(sink: Sink, tag: bytes, data: bytes) -> None:
    """Write a tag, the size of the data (see :func:`encode_length`), and the data."""
    sink.write(tag + encode_length(len(data)))
    sink.write(data)


def encode_length(size: int) -> bytes:
    """Encode a size as one byte with the number of bytes that follow, and then the size in little-endian byte order."""
    width = (size.bit_length() + 7) // 8
    return bytes([width]) + size.to_bytes(width, "little")
