"""Base class of codecs for models that are stored as a sequence of tokens and arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from io_ark.codecs.base import Codec, Sink, encode_int32, expect_token, read_size, skip_line_end
from io_ark.errors import FormatError
from io_ark.streams.source import Source

Array = npt.NDArray[Any]
T = TypeVar("T")


def set_arrays(model: object, dtype: npt.DTypeLike, **shapes: tuple[int, ...]) -> None:
    """Convert attributes of a model, a frozen dataclass, in place to arrays of type ``dtype``.

    ``shapes`` maps the names of the attributes to the expected shapes. Values that are too large become infinite. Raise
    FormatError if the shape of an array is not as expected.
    """
    for name, shape in shapes.items():
        with np.errstate(over="ignore", invalid="ignore"):
            array = np.asarray(getattr(model, name), dtype)
        if array.shape != shape:
            attribute = f"{type(model).__name__}.{name}"
            raise FormatError(f"{attribute} has the shape {array.shape}: pass an array of shape {shape}")
        object.__setattr__(model, name, array)


def locate_errors(source: Source, offset: int, create: Callable[[], T]) -> T:
    """Return the result of ``create``, which creates or checks the object at ``offset``, in bytes, of a source.

    If ``create`` raises FormatError, the file and the offset are added to the error.
    """
    try:
        return create()
    except FormatError as error:
        source.fail(error.message, offset)


class Field(NamedTuple):
    """Field of a model file, which stores one attribute of the model.

    Attributes:
        name: name of the attribute.
        codec: codec of the array, or of ``array[i]`` if ``stacked``.
        token: token before the array, or ``b""``.
        stacked: True if the file stores one array for each Gaussian.
        counted: True if the number of Gaussians precedes the array. By default, it is the size of the first array.
        optional: True if the token and the array may be missing.
    """

    name: str
    codec: Codec[Any]
    token: bytes = b""
    stacked: bool = False
    counted: bool = False
    optional: bool = False


class ModelCodec(Codec[Any]):
    """Base class of codecs of models. A file has an opening token, the fields, and a closing token.

    Attributes:
        model: class of the model. The arguments of the constructor have the names of the fields.
        token: opening token without brackets.
        fields: the fields in the order of the file.
        newlines: True if a line ends after the opening and after the closing token in text files.
    """

    model: type
    token: bytes
    fields: tuple[Field, ...]
    newlines = False

    def read_body(self, source: Source, binary: bool) -> Any:
        start, values = source.tell(), dict[str, Any]()
        # Kaldi before 2012 wrote <DiagGMMBegin> instead of <DiagGMM>.
        expect_token(source, binary, b"<%s>" % self.token, b"<%sBegin>" % self.token)
        token, count = b"", 0
        for field, next_field in zip(self.fields, (*self.fields[1:], None), strict=True):
            if field.token and token != field.token:
                expected = (field.token, next_field.token) if field.optional and next_field else (field.token,)
                token = expect_token(source, binary, *expected)
                if token != field.token:  # The optional field is missing, and `token` belongs to the next field.
                    continue
            if field.counted:
                count = read_size(source, binary, "the number of Gaussians")
            if field.stacked:
                values[field.name] = _read_stacked_arrays(source, binary, field.codec, count)
            else:
                values[field.name] = array = field.codec.read_body(source, binary)
                count = count or np.size(array)
        expect_token(source, binary, b"</%s>" % self.token, b"<%sEnd>" % self.token)
        if self.newlines and not binary:
            skip_line_end(source)
        return locate_errors(source, start, lambda: self.model(**values))

    def write_body(self, sink: Sink, value: Any, binary: bool) -> None:
        if not isinstance(value, self.model):
            raise FormatError(f"expected an object of type {self.model.__name__}, not {type(value).__name__}")
        end = b"\n" if self.newlines and not binary else b""
        sink.write(b"<%s> %s" % (self.token, end))
        for field in self.fields:
            array = getattr(value, field.name)
            sink.write(field.token + b" " * bool(field.token))
            if field.counted:
                sink.write(encode_int32(len(array)) if binary else b"%d " % len(array))
            for part in array if field.stacked else (array,):
                field.codec.write_body(sink, part, binary)
        sink.write(b"</%s> %s" % (self.token, end))


def _read_stacked_arrays(source: Source, binary: bool, codec: Codec[Any], count: int) -> Array:
    """Read ``count`` arrays of the same shape, and return them as one array with ``count`` as its first dimension.

    A wrong count does not allocate memory, because the arrays are read one by one until the file ends.
    """
    arrays: list[Array] = []
    for _ in range(count):
        start = source.tell()
        arrays.append(codec.read_body(source, binary))
        if arrays[-1].shape != arrays[0].shape:
            source.fail(f"a matrix has the shape {arrays[-1].shape}, but the first matrix has {arrays[0].shape}", start)
    return np.array(arrays)
