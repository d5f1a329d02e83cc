"""Pickles of plain values: numbers, strings, bytes, lists, tuples, dictionaries, sets and arrays.

A pickle may name any function to call when it is loaded, so loading one from a stranger runs the stranger's code. Here
no name is looked up: the few names that occur in pickles of arrays stand for functions of this module, which build
arrays from checked parts. Everything else is an error.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.codecs.base import Sink
from io_ark.errors import ArkError, FormatError
from io_ark.streams.source import Source

_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def write_pickle(sink: Sink, value: Any, options: Mapping[str, Any]) -> None:
    """Write the tag ``PKL`` and the pickle of a plain value.

    Raises:
        FormatError: the value is not plain, so :func:`read_pickle` would refuse it.
    """
    _check_plain(value)
    sink.write(b"PKL" + pickle.dumps(value, **dict(options)))


def _check_plain(value: Any) -> None:
    if isinstance(value, list | tuple | set | frozenset):
        for part in value:
            _check_plain(part)
    elif isinstance(value, dict):
        for key, part in value.items():
            _check_plain(key)
            _check_plain(part)
    elif isinstance(value, np.ndarray | np.generic):
        if value.dtype.hasobject or value.dtype.names:
            raise FormatError(f"an array of {value.dtype} is not written as a pickle: only numbers and strings are")
    elif not isinstance(value, _PLAIN):
        raise FormatError(f"a {type(value).__name__} is not written as a pickle: only plain values and arrays are")


def read_pickle(source: Source) -> Any:
    """Read the pickle at the next byte. No code that the pickle names is run.

    Raises:
        FormatError: the pickle is invalid, or has other values than numbers, strings, lists, dictionaries and arrays.
    """
    start = source.tell()
    try:
        value = _PlainUnpickler(_File(source)).load()
        return _finished(value)
    except ArkError:
        raise
    except Exception as error:  # an invalid pickle may raise anything
        source.fail(f"a pickle cannot be read: {error}", start)


class _File:
    """Reads a source as the unpickler asks: exactly as many bytes as it needs."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def read(self, count: int) -> bytes:
        return bytes(self._source.read(count))

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        view[:] = self._source.read(len(view))
        return len(view)

    def readline(self) -> bytes:
        return self._source.read_line() + b"\n"

    def peek(self, count: int) -> bytes:
        return self._source.peek(count)


class _Array:
    """An array while its parts arrive."""

    def __init__(self) -> None:
        self.value: npt.NDArray[Any] | None = None

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, data = state
        self.value = _from_bytes(data, dtype, shape, "F" if fortran else "C")


class _Dtype:
    """A dtype while its parts arrive."""

    def __init__(self, name: str, *_: Any) -> None:
        self.value = np.dtype(name)
        if self.value.hasobject or self.value.names:
            raise FormatError(f"a pickled array of {name!r} is not supported")

    def __setstate__(self, state: Any) -> None:
        if state[1] in ("<", ">"):
            self.value = self.value.newbyteorder(state[1])


def _from_bytes(data: Any, dtype: Any, shape: Any, order: str) -> npt.NDArray[Any]:
    flat: npt.NDArray[Any] = np.frombuffer(bytes(data), dtype.value).copy()
    return flat.reshape(tuple(shape), order="F" if order == "F" else "C")


def _reconstruct(*_: Any) -> _Array:
    return _Array()


def _scalar(dtype: Any, data: bytes) -> Any:
    return np.frombuffer(data, dtype.value, 1)[0]


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise FormatError(f"a pickle with bytes of encoding {encoding!r} is not supported")
    return text.encode("latin1")


class _Known:
    """A function that a pickle may call. Its attributes cannot be set by a pickle."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def __setstate__(self, _: object) -> None:
        raise FormatError("a pickle changes a function")


_NUMPY = ("numpy", "numpy.core.multiarray", "numpy._core.multiarray", "numpy.core.numeric", "numpy._core.numeric")
_FUNCTIONS: Mapping[str, _Known] = {
    "_reconstruct": _Known(_reconstruct),
    "ndarray": _Known(_reconstruct),
    "dtype": _Known(_Dtype),
    "scalar": _Known(_scalar),
    "_frombuffer": _Known(_from_bytes),
}
_ENCODE = _Known(_encode)


class _PlainUnpickler(pickle.Unpickler):
    """Unpickler that knows only the functions above."""

    def __init__(self, file: Any) -> None:
        super().__init__(file)

    def find_class(self, module: str, name: str) -> Any:
        if module in _NUMPY and name in _FUNCTIONS:
            return _FUNCTIONS[name]
        if (module, name) == ("_codecs", "encode"):
            return _ENCODE
        raise FormatError(f"a pickle names {module}.{name}: only plain values and arrays are read from pickles")

    def persistent_load(self, _: Any) -> Any:
        raise FormatError("a pickle refers to objects outside of it")


def _finished(value: Any) -> Any:
    """Replace the arrays under construction by arrays."""
    if isinstance(value, _Array | _Dtype):
        if value.value is None:
            raise FormatError("a pickled array has no values")
        return value.value
    if isinstance(value, list):
        value[:] = [_finished(part) for part in value]
        return value
    if isinstance(value, dict):
        return {_finished(key): _finished(part) for key, part in value.items()}
    if type(value) in (tuple, set, frozenset):
        return type(value)(_finished(part) for part in value)
    return value
