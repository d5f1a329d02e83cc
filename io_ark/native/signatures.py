"""Call the functions of a C library with the types in ``signatures.txt``, which ``make generate`` extracts from C.

An array is passed where C declares a pointer. Every call checks that it is contiguous and of the declared type, because
C would otherwise read past its end. Pointers to bytes, void and structures accept any contiguous array.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from io_ark.logs import logger
from io_ark.native.library import Library as Library
from io_ark.native.library import digest_interface, load_library

_NUMBERS: dict[str, Any] = {
    "int": ctypes.c_int,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "void": None,
}
_DTYPES = {"float": "f4", "double": "f8", "int": "i4"} | {
    f"{sign}int{bits}_t": f"{sign or 'i'}{bits // 8}" for sign in ("", "u") for bits in (16, 32, 64)
}
_from_buffer: Any = ctypes.c_char.from_buffer
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def get_address(array: npt.NDArray[Any]) -> int:
    """Return the address of the first element of a contiguous array."""
    if array.flags.writeable and array.size:
        return ctypes.addressof(_from_buffer(array))  # `ctypes.data` would take four times as long.
    return array.ctypes.data


class _Pointer:
    """Type of an argument that is a pointer to numbers."""

    dtype: np.dtype[Any] | None = None

    @classmethod
    def from_param(cls, value: Any) -> Any:
        """Convert an array, a :class:`Structure`, an address, bytes (for a byte or void pointer) or None to a pointer.

        Raises:
            TypeError: an array is not contiguous, or its dtype is wrong.
        """
        if isinstance(value, Structure):
            return value.pointer
        if value is None or (isinstance(value, bytes) and (cls.dtype is None or cls.dtype.itemsize == 1)):
            return value
        if not isinstance(value, np.ndarray):
            return ctypes.c_void_p(value)
        if cls.dtype is None or value.dtype == cls.dtype:
            try:
                return ctypes.byref(_from_buffer(value))  # This fails unless the array is contiguous and writable.
            except (TypeError, ValueError):  # The array is not contiguous, or is read-only or empty.
                if value.flags.c_contiguous:
                    return ctypes.c_void_p(value.ctypes.data)
        type_note = f" of {cls.dtype}" if cls.dtype else ""
        raise TypeError(f"C needs a contiguous array{type_note}, not {value.dtype} with the strides {value.strides}")


@functools.cache
def _create_pointer_type(base: str) -> type[_Pointer]:
    """Return the argument type for pointers to ``base``, such as "float". It accepts arrays of this type."""
    return type(f"PointerTo_{base}", (_Pointer,), {"dtype": np.dtype(_DTYPES[base]) if base in _DTYPES else None})


def _make_interruptible(function: Any) -> Any:
    """Wrap a C function so that ^C during the conversion of arguments raises KeyboardInterrupt, not ArgumentError."""

    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except ctypes.ArgumentError as error:
            if "KeyboardInterrupt" in str(error):  # ctypes keeps only the text of the original exception.
                raise KeyboardInterrupt from None
            raise

    return call


def _get_argument_type(declared: str) -> Any:
    return _create_pointer_type(declared[:-1]) if declared.endswith("*") else _NUMBERS[declared]


class Structure:
    """A structure for C together with the arrays that it points to. See :meth:`Signatures.get_structure`.

    Args:
        sources: objects whose attributes are the values of fields that ``values`` lacks. The first source with an
            attribute of the field's name is used.
        values: values of the fields: numbers, arrays, which are converted to the type that the pointer has, lists or
            tuples of arrays for a list of pointers, or None. Fields without a value are zero.

    Attributes:
        fields: the ctypes structure.
        address, pointer: the address of ``fields``, as a number and for ctypes.
    """

    _kind: ClassVar[Any]  # Class of ``fields``, a subclass of ctypes.Structure.
    _dtypes: ClassVar[Mapping[str, Any]]  # Maps the name of a pointer field to the type of its array.

    def __init__(self, *sources: Any, **values: Any) -> None:
        self.fields = self._kind()
        self.address = ctypes.addressof(self.fields)
        self.pointer = ctypes.c_void_p(self.address)
        self._arrays: dict[str, Any] = {}
        if sources:
            names = [field[0] for field in self._kind._fields_]
            pairs = [(source, name) for source in reversed(sources) for name in names if hasattr(source, name)]
            values = {name: getattr(source, name) for source, name in pairs} | values  # The first source is last.
        self.set_fields(**values)

    def set_fields(self, **values: Any) -> None:
        """Set fields by name to values, which are converted like the values of the constructor."""
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                array = self._arrays[name] = np.ascontiguousarray(value, self._dtypes[name])
                value = get_address(array)
            elif isinstance(value, list | tuple):
                arrays = self._arrays[name] = [np.ascontiguousarray(array, np.float32) for array in value]
                value = (ctypes.c_void_p * len(getattr(self.fields, name)))(*map(get_address, arrays))
            setattr(self.fields, name, value)


class Signatures:
    """Functions and structures of the C library of a package.

    Args:
        directory: folder of the package, which contains ``signatures.txt`` and the library.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._functions: dict[str, list[str]] = {}
        self._structures: dict[str, list[str]] = {}
        with open(os.path.join(directory, "signatures.txt"), encoding="utf-8") as file:
            text = file.read()
        self._interface = digest_interface(text)
        for line in text.splitlines():
            name, *words = line.split()
            if name == "struct":
                structure, *fields = words
                self._structures[structure] = fields
            else:
                self._functions[name] = words  # Types of the result and the arguments.

    def library(self) -> Library:
        """Return the library. Its truth value is False if it cannot be used (see :func:`load_library`)."""
        return load_library(self._directory, self._interface)

    @functools.cached_property
    def in_use(self) -> bool:
        """True if the library can be used. Tests set it to False to compute without C."""
        return bool(self.library())

    @functools.cache  # noqa: B019
    def warn_if_missing(self) -> None:
        """Warn once if the library was not built."""
        library = self.library()
        if library.advice:
            logger.warning(
                "%s. NumPy computes the same numbers, up to 100 times more slowly: %s.", library.reason, library.advice
            )

    def twin(
        self, c_function: Callable[Parameters, Result], *, much_faster: bool = False
    ) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
        """Decorate a function with an equivalent function in C, which is called instead if the library can be used.

        Args:
            c_function: equivalent function. If it returns NotImplemented, the decorated function is called.
            much_faster: True to warn if the library is missing, because ``c_function`` is at least 20 times as fast.
        """

        def add_twin(plain: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
            """Return a function that calls ``c_function``, or ``plain`` without the library or after NotImplemented."""

            @functools.wraps(plain)
            def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
                if self.in_use:
                    if (result := c_function(*args, **kwargs)) is not NotImplemented:
                        return result
                elif much_faster:
                    self.warn_if_missing()
                return plain(*args, **kwargs)

            return call

        return add_twin

    # A function is created once, because setting its argument types while another thread calls it crashes.
    @functools.cache  # noqa: B019 (one object per package lives as long as the process)
    def get_function(self, name: str, level: str | None = None, *, takes_addresses: bool = False) -> Any:
        """Return a function of the library, which checks the types of its arguments.

        Args:
            name: name of the function, without a suffix.
            level: the instruction set. None means the instruction set in use, usually the fastest.
            takes_addresses: True to pass pointers as addresses without checks, which saves half a microsecond.
        """
        result, *arguments = self._functions[name]
        types = [
            ctypes.c_void_p if takes_addresses and "*" in declared else _get_argument_type(declared)
            for declared in arguments
        ]
        function = self.library().get_function(name, *types, result=_NUMBERS[result], level=level)
        return function if takes_addresses else _make_interruptible(function)

    @functools.cache  # noqa: B019
    def get_structure(self, name: str) -> type[Structure]:
        """Return the subclass of :class:`Structure` for the C structure ``name`` of the library."""
        field_types = dict(field.split(":") for field in self._structures[name])
        bases = {field: declared.partition("*")[0] for field, declared in field_types.items() if "*" in declared}
        fields = []
        for field, declared in field_types.items():
            size = declared.partition("[")[2].rstrip("]")  # "twiddle*[32]" is an array of 32 pointers.
            pointer: Any = ctypes.c_void_p * int(size) if size else ctypes.c_void_p
            fields.append((field, pointer if "*" in declared else _NUMBERS[declared]))
        dtypes = {field: _DTYPES.get(base) for field, base in bases.items()}
        attributes = {"_kind": type(name, (ctypes.Structure,), {"_fields_": fields}), "_dtypes": dtypes}
        return type(name, (Structure,), attributes)
