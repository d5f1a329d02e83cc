"""Pickles of plain values: numbers, strings, bytes, lists, tuples, dictionaries, sets and arrays.

A pickle is a program that may call any function, so unpickling a stranger's file runs the stranger's code. This module
does not unpickle. It interprets the few instructions that plain values need, and never imports a name. The names in
pickles of arrays select functions of this module, which build arrays from checked parts. All other names and
instructions are errors.

Source of the instructions: CPython's Lib/pickletools.py.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.codecs.base import Sink
from io_ark.errors import ArkError, FormatError
from io_ark.streams.source import Source

ADVICE = "save only numbers, strings, lists, tuples, sets, dictionaries and NumPy arrays"
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_CONTAINERS = (list, tuple, set, frozenset)


def write_pickle(sink: Sink, value: Any, options: Mapping[str, Any]) -> None:
    """Write the tag ``PKL`` and the pickle of a plain value. ``options`` are keyword arguments of ``pickle.dumps``.

    Raise FormatError if the value is not plain (see the start of this module), or the protocol is below 2.
    """
    _check_plain(value)
    data = pickle.dumps(value, **dict(options))
    if not data.startswith(pickle.PROTO):  # Only pickles of protocol 2 or later name their protocol.
        raise FormatError("a pickle of protocol 0 or 1 could not be read: pass protocol=2 or larger")
    sink.write(b"PKL" + data)


def _check_plain(value: Any) -> None:
    """Raise FormatError if a value, or an element of it, is not plain: see the start of this module.

    Subclasses, such as OrderedDict or np.memmap, are refused, because their pickles name the subclass.
    """
    if type(value) in _CONTAINERS:
        for element in value:
            _check_plain(element)
    elif type(value) is dict:
        for key, element in value.items():
            _check_plain(key)
            _check_plain(element)
    elif type(value) is np.ndarray or isinstance(value, np.generic):
        if value.dtype.hasobject or value.dtype.names:
            raise FormatError(f"cannot pickle an array of Python objects or a structured array (dtype "
                              f"{str(value.dtype)!r}): pass an array of numbers or strings")  # fmt: skip
    elif type(value) not in _PLAIN:
        raise FormatError(f"cannot pickle an object of type {type(value).__name__}: pass numbers, strings, bytes, "
                          "None, NumPy arrays, or lists, tuples, sets and dictionaries of these values")  # fmt: skip


def read_pickle(source: Source) -> Any:
    """Read the plain value of the pickle at the current position. No code that the pickle names is run.

    Raise FormatError if the pickle is invalid, or a value is not plain. The start of this module lists plain values.
    """
    start = source.tell()
    try:
        return _Reader(source).read()
    except ArkError as error:
        if error.file:
            raise
        source.fail(error.message, start)
    except Exception as error:  # Instructions in a senseless order may raise any error.
        source.fail(f"a pickle cannot be read: {error}", start)


class _Unfinished:
    """An array without values, or a dtype. A later instruction sets the values or the byte order for all references."""

    def __init__(self, value: Any = None) -> None:
        self.value = value


def _make_array_from_bytes(data: bytes, dtype: Any, shape: Any, order: str) -> npt.NDArray[Any]:
    """Return a copy of ``data`` as an array. ``order`` is "F" if the elements are in Fortran's (column-major) order."""
    flat: npt.NDArray[Any] = np.frombuffer(data, dtype).copy()
    return flat.reshape(tuple(shape), order="F" if order == "F" else "C")


def _make_dtype(name: str, *_: Any) -> _Unfinished:
    """Return the dtype ``name``, whose byte order may be set later. Raise FormatError if it has objects or fields."""
    dtype = np.dtype(name)
    if dtype.hasobject or dtype.names:
        raise FormatError(f"a pickle has an array of Python objects or a structured array (dtype {name!r}): save "
                          "arrays of numbers or strings")  # fmt: skip
    return _Unfinished(dtype)


def _make_scalar(dtype: Any, data: bytes) -> Any:
    return np.frombuffer(data, dtype, 1)[0]


def _encode_latin1(text: str, encoding: str) -> bytes:
    """Return the bytes that protocol 2 stores as ``text``. Raise FormatError unless ``encoding`` is "latin1"."""
    if encoding != "latin1":
        raise FormatError(f"a pickle has bytes in the unsupported encoding {encoding!r}: {ADVICE}")
    return text.encode("latin1")


def _make_array(*_: Any) -> _Unfinished:
    return _Unfinished()


_NUMPY = ("numpy", "numpy.core.multiarray", "numpy._core.multiarray", "numpy.core.numeric", "numpy._core.numeric")
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "_reconstruct": _make_array, "ndarray": _make_array, "dtype": _make_dtype, "scalar": _make_scalar,
    "_frombuffer": _make_array_from_bytes,
}  # fmt: skip

_CONSTANTS: Mapping[bytes, Callable[[], Any]] = {
    pickle.NONE: lambda: None, pickle.NEWTRUE: lambda: True, pickle.NEWFALSE: lambda: False,
    pickle.EMPTY_LIST: list, pickle.EMPTY_DICT: dict, pickle.EMPTY_TUPLE: tuple, pickle.EMPTY_SET: set,
}  # fmt: skip
# Formats (of struct) of the numbers that follow instructions. A number is a value, a size in bytes, or the index of a
# memorized value.
_FORMATS = {
    pickle.BININT: "<i", pickle.BININT1: "<B", pickle.BININT2: "<H", pickle.BINFLOAT: ">d",
    pickle.BINUNICODE: "<I", pickle.SHORT_BINUNICODE: "<B", pickle.BINUNICODE8: "<Q",
    pickle.BINBYTES: "<I", pickle.SHORT_BINBYTES: "<B", pickle.BINBYTES8: "<Q", pickle.BYTEARRAY8: "<Q",
    pickle.LONG1: "<B", pickle.LONG4: "<i",
    pickle.BINPUT: "<B", pickle.LONG_BINPUT: "<I", pickle.BINGET: "<B", pickle.LONG_BINGET: "<I",
    pickle.PROTO: "<B", pickle.FRAME: "<Q",
}  # fmt: skip
_TUPLE_LENGTHS = {pickle.TUPLE1: 1, pickle.TUPLE2: 2, pickle.TUPLE3: 3}


class _Reader:
    """Interprets the instructions of a pickle, which push values on a stack and pop them.

    A short pickle could refer to one value many times and build a huge object. The number of bytes of the pickle
    therefore limits the total size of all copies.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._start = source.tell()
        self._charged_size = 0  # Total size of the values copied so far, which the size of the pickle limits.
        self._stack: list[Any] = []
        self._marks: list[int] = []  # Stack positions that MARK instructions recorded.
        self._memo: dict[int, Any] = {}  # Memorized values by index, because a pickle may skip indices.

    def read(self) -> Any:
        """Run all instructions, and return the value that remains on the stack."""
        while (code := bytes(self._source.read(1))) != pickle.STOP:
            if code in _CONSTANTS:
                self._stack.append(_CONSTANTS[code]())
            elif code in _FORMATS:
                number_format = struct.Struct(_FORMATS[code])
                self._run_with_number(code, number_format.unpack(self._source.read(number_format.size))[0])
            else:
                self._run_without_number(code)
        (value,) = self._pop_from(0)
        return value

    def _charge_sizes(self, values: Any) -> Any:
        """Add the sizes of ``values``, which will be copied or hashed, to the total size, and return ``values``.

        Raise FormatError if the total is too large for the bytes read, as in a pickle that would fill the memory.
        """
        for value in values:
            if hasattr(value, "__len__"):
                self._charged_size += len(value)
            elif isinstance(value, int):  # Python's integers have any size.
                self._charged_size += value.bit_length() // 8
        # Arrays charge their data once, or in protocol 2 twice, as text and as bytes. The limit leaves a margin.
        if self._charged_size > 4 * (self._source.tell() - self._start) + 1000:
            raise FormatError(
                "a pickle repeats its values so often that it could fill the memory: check where the file comes from"
            )
        return values

    def _check_members(self, values: list[Any]) -> list[Any]:
        """Return ``values``, the keys of a dictionary or members of a set, after adding their sizes to the total size.

        Strings and bytes are left out, because Python stores their hashes. Raise FormatError for nested tuples or
        frozensets, because hashing a deeply nested value would overflow the stack of the interpreter.
        """
        for value in values:
            if isinstance(value, tuple | frozenset) and any(
                isinstance(element, tuple | frozenset) for element in value
            ):
                raise FormatError(
                    "a pickle has nested tuples as keys of a dictionary or members of a set: save the tuples in a list"
                )
        self._charge_sizes(value for value in values if not isinstance(value, str | bytes))
        return values

    def _pop_from(self, position: int | None) -> list[Any]:
        """Pop the values from ``position`` to the top of the stack. None stands for the position of the last mark.

        Raise FormatError if there are too few values, or a value is a function or an array without its elements.
        """
        position = self._marks.pop() if position is None else position
        if position < 0:
            raise FormatError("a pickle is damaged, because it takes more values than there are: save the value again")
        values = self._stack[position:]
        del self._stack[position:]
        for index, value in enumerate(values):
            if isinstance(value, _Unfinished):
                if value.value is None:
                    raise FormatError("a pickle is damaged, because an array has no values: save the value again")
                values[index] = value.value
            elif value is _make_array:
                values[index] = None  # The argument numpy.ndarray of _reconstruct is not needed.
            elif callable(value):
                raise FormatError(f"a pickle has a function as a value: {ADVICE}")
        return values

    def _get_top(self, expected_type: type[Any]) -> Any:
        """Return the value at the top of the stack. Raise FormatError if its type is not ``expected_type``."""
        if type(self._stack[-1]) is not expected_type:
            raise FormatError(f"a pickle has an object of an unsupported type: {ADVICE}")
        return self._stack[-1]

    def _run_with_number(self, code: bytes, number: Any) -> None:
        """Run an instruction whose ``number`` is a value, a size in bytes, or the index of a memorized value."""
        push = self._stack.append
        if code in (pickle.BINPUT, pickle.LONG_BINPUT):
            self._memo[number] = self._stack[-1]
        elif code in (pickle.BINGET, pickle.LONG_BINGET):
            push(self._memo[number])
        elif code in (pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.BINFLOAT):
            push(number)
        elif code not in (pickle.PROTO, pickle.FRAME):  # Protocol versions and frame sizes are not needed.
            data = bytes(self._source.read(number))
            if code in (pickle.LONG1, pickle.LONG4):
                push(int.from_bytes(data, "little", signed=True))
            elif code in (pickle.BINUNICODE, pickle.SHORT_BINUNICODE, pickle.BINUNICODE8):
                push(data.decode("utf-8", "surrogatepass"))
            else:
                push(data)

    def _run_without_number(self, code: bytes) -> None:
        """Run an instruction that no number follows.

        Raise FormatError if the pickle is damaged, or the instruction, or a function that it names, is not supported.
        """
        stack, push = self._stack, self._stack.append
        if code == pickle.MARK:
            self._marks.append(len(stack))
        elif code == pickle.MEMOIZE:
            self._memo[len(self._memo)] = stack[-1]
        elif code in _TUPLE_LENGTHS:
            push(tuple(self._pop_from(len(stack) - _TUPLE_LENGTHS[code])))
        elif code == pickle.TUPLE:
            push(tuple(self._pop_from(None)))
        elif code == pickle.FROZENSET:
            push(frozenset(self._check_members(self._pop_from(None))))
        elif code == pickle.APPEND:
            self._add_items(self._pop_from(len(stack) - 1), list)
        elif code == pickle.APPENDS:
            self._add_items(self._pop_from(None), list)
        elif code == pickle.ADDITEMS:
            self._add_items(self._pop_from(None), set)
        elif code == pickle.SETITEM:
            self._add_items(self._pop_from(len(stack) - 2), dict)
        elif code == pickle.SETITEMS:
            self._add_items(self._pop_from(None), dict)
        elif code == pickle.GLOBAL:
            module, name = (bytes(self._source.read_line()).decode("ascii") for _ in range(2))
            push(_find_function(module, name))
        elif code == pickle.STACK_GLOBAL:
            module, name = self._pop_from(len(stack) - 2)
            push(_find_function(module, name))
        elif code == pickle.REDUCE:
            (arguments,) = self._pop_from(len(stack) - 1)
            push(stack.pop()(*self._charge_sizes(arguments)))
        elif code == pickle.BUILD:
            (state,) = self._pop_from(len(stack) - 1)
            self._complete_top(state)
        else:
            raise FormatError(
                f"a pickle has values of unsupported types, or has protocol 0 or 1: {ADVICE}, with protocol 2 or later"
            )

    def _add_items(self, values: list[Any], container_type: type[Any]) -> None:
        """Add ``values`` to the list, set or dict at the top of the stack. For a dict, keys and values alternate."""
        container = self._get_top(container_type)
        if container_type is list:
            container.extend(values)
        elif container_type is set:
            container.update(self._check_members(values))
        else:
            container.update(zip(self._check_members(values[0::2]), values[1::2], strict=True))

    def _complete_top(self, state: Any) -> None:
        """Set the values of the array, or the byte order of the dtype, at the top of the stack.

        ``state`` is the third element of the result of NumPy's ``ndarray.__reduce__`` or ``dtype.__reduce__``.
        """
        target = self._get_top(_Unfinished)
        if target.value is None:
            _, shape, dtype, is_fortran, data = self._charge_sizes(state)
            target.value = _make_array_from_bytes(data, dtype, shape, "F" if is_fortran else "C")
        # The second element of the state of a dtype is its byte order.
        elif isinstance(target.value, np.dtype) and state[1] in ("<", ">"):
            target.value = target.value.newbyteorder(state[1])


def _find_function(module: Any, name: Any) -> Callable[..., Any]:
    """Return the function that replaces ``module.name`` of a pickle, or raise FormatError if there is none."""
    if module in _NUMPY and name in _FUNCTIONS:
        return _FUNCTIONS[name]
    if (module, name) == ("_codecs", "encode"):
        return _encode_latin1
    if name == "complex" and module in ("builtins", "__builtin__"):
        return complex
    raise FormatError(f"a pickle names {module}.{name}: only plain values and arrays are read from pickles")
