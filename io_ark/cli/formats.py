"""Files of other programs that ``ark convert`` reads and writes: NumPy, HDF5, Parquet, CSV, safetensors, tar, lhotse.

A format has a function that iterates over keys and arrays, and a context manager that yields a function
``write_array(key, array)``. Only one array is in memory at a time (Parquet: a row group).
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import math
import shlex
import shutil
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
import numpy.typing as npt

from io_ark.cli.csv_files import open_csv_writer, read_csv
from io_ark.cli.lhotse_arrays import (
    check_storage,
    lock_folder,
    move_arrays,
    name_array,
    remove_arrays,
    write_obsolete_keys,
)
from io_ark.errors import ArkError, FormatError, MissingFileError, OpenError, SpecifierError
from io_ark.extras import import_extra
from io_ark.numpy_files import check_unpacked_size, load_npy, read_npy
from io_ark.signals import delay_signals
from io_ark.specifier import is_table_rspecifier, is_table_wspecifier
from io_ark.streams.files import describe_error
from io_ark.streams.unfinished import (
    OtherFileError,
    choose_temporary_name,
    is_replaceable,
    list_unfinished,
    put_in_place,
    remove_path,
    remove_unfinished,
    replace_folder,
    synchronize,
)

Array = npt.NDArray[Any]
# Maps names of types in safetensors files to types of NumPy.
SAFETENSORS = {"F32": "<f4", "F64": "<f8", "F16": "<f2", "I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8"}
SAFETENSORS |= {"BOOL": "?", "U8": "u1", "U16": "<u2", "U32": "<u4", "U64": "<u8"}
_ENTRY_NAMES = ("dtype", "shape", "data_offsets")  # Fields of an array in the header of a safetensors file.
_COMPRESSORS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}
# Endings of formats that `ark convert` cannot write. A target with such a name is refused, since the user would not
# expect a Kaldi archive.
_UNSUPPORTED_ENDINGS = (
    *(".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib", ".mat", ".onnx", ".tfrecord"),
    *(".arrow", ".feather", ".orc", ".avro", ".msgpack", ".zarr", ".lmdb", ".mdb", ".db", ".sqlite", ".nc", ".tsv"),
    *(".xls", ".xlsx", ".json", ".yaml", ".yml", ".xml", ".html", ".pdf", ".png", ".jpg"),
    *(".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a", ".zip", ".tgz", *_COMPRESSORS),
)
WriteArray = Callable[[str, Array], None]
Entries = Iterator[tuple[str, Array | ArkError]]  # Yields keys with arrays, or with the errors of unreadable arrays.
PARQUET_ROWS = 64  # Largest number of arrays in a row group of a Parquet file, which is in memory as a whole.
PARQUET_BYTES = 16 * 2**20  # Size at which a row group ends, even if it has fewer arrays.


@dataclass(frozen=True)
class Settings:
    """Settings of the formats that store more than arrays.

    Attributes:
        frame_shift: time between frames in seconds, for lhotse.
        sample_frequency: sampling rate of the audio in Hz, for lhotse.
    """

    frame_shift: float = 0.01
    sample_frequency: int = 16000


OpenWriter = Callable[[Path, Settings], AbstractContextManager[WriteArray]]


@dataclass(frozen=True)
class Format:
    """File format that ``ark convert`` reads and writes.

    Attributes:
        about: description in one line.
        endings: endings of the names of files in the format, such as ".npz".
        read: function that iterates over the keys and arrays of a file. It yields the error of an unreadable array if
            the file has further arrays, and raises other errors.
        open_writer: context manager that creates a file and yields a function ``write_array(key, array)``.
    """

    about: str
    endings: tuple[str, ...]
    read: Callable[[Path], Entries]
    open_writer: OpenWriter

    def iterate_entries(self, path: Path) -> Entries:
        """Iterate over the keys and arrays (or errors) of a file. Raise FormatError for an error of a library."""
        arrays = self.read(path)
        while (entry := _call_library(lambda: next(arrays, None), path)) is not None:
            yield entry


def find_format(name: str, format_name: str) -> Format | None:
    """Return the format ``format_name``, or if it is "", the format for the ending of the file name ``name``.

    Return None for a Kaldi table: the format "ark", a specifier, a command, or a name with another ending. Raise
    SpecifierError if the name of the format is unknown, or ``name`` is a single .npy file.
    """
    if format_name == "ark" or (not format_name and _names_table(name)):
        return None
    if format_name:
        if format_name not in FORMATS:
            advice = f"choose from ark, {', '.join(FORMATS)}, or nemo for --to"
            raise SpecifierError(f"the format {format_name!r} is unknown: {advice}", file=name)
        return FORMATS[format_name]
    lower = name.lower()
    if lower.endswith(".npy"):
        raise SpecifierError("is one array without a key: name a folder of .npy files (x/), or a .npz file", file=name)
    return next((candidate for candidate in FORMATS.values() if lower.endswith(candidate.endings)), None)


def refuse_unsupported_ending(name: str) -> None:
    """Raise SpecifierError if a table to write has the file name ending of an unsupported format, such as ``.pt``."""
    ending = next((ending for ending in _UNSUPPORTED_ENDINGS if name.lower().endswith(ending)), "")
    if ending and not _names_table(name):
        known = ", ".join(candidate.endings[0] for candidate in FORMATS.values())
        advice = f"choose a name that ends in {known} or .ark, or pass --to ark for a Kaldi archive with this name"
        if ending in _COMPRESSORS:
            command = f"ark:| {_COMPRESSORS[ending]} -c > {shlex.quote(name)}"
            advice = f"write {shlex.quote(command)} for a compressed archive, or {advice}"
        raise SpecifierError(f"ends in {ending}, which is not a supported format: {advice}", file=name)


def is_manifest(name: str, format_name: str) -> bool:
    """Return True for a target in NeMo's format: the format is "nemo", or is "" for a file name that ends in .json."""
    return format_name == "nemo" or (not format_name and name.lower().endswith(".json") and not _names_table(name))


def _names_table(name: str) -> bool:
    """Return True for an rspecifier, a wspecifier, or a command that reads data (``| COMMAND``)."""
    return name.startswith("|") or is_table_rspecifier(name) or is_table_wspecifier(name)


def encode_file_name(key: str) -> str:
    """Encode a key as a file name without dots and slashes. ``urllib.parse.unquote`` restores the key."""
    return quote(key, safe=" ").replace(".", "%2E")


def _read_or_return_error(read: Callable[[], Array], path: Path, key: str = "") -> Array | ArkError:
    """Return the array that ``read`` reads from ``path``, or if it cannot be read, an ArkError that names ``key``."""
    try:
        return np.asarray(_call_library(read, path))
    except ArkError as error:
        error.key = error.key or key
        return error
    except FileNotFoundError as error:
        return MissingFileError(f"cannot be read: {describe_error(error)}", file=error.filename or str(path), key=key)


def _read_npy(folder: Path) -> Entries:
    """Yield the key and the array (or error) of each .npy file of a folder, in the order of the file names."""
    # Unlike iterdir, Path.glob would find no files in an unreadable folder instead of raising an error.
    for path in sorted(path for path in folder.iterdir() if path.name.endswith(".npy")):
        yield unquote(path.stem), _read_or_return_error(functools.partial(load_npy, path), path)


@contextlib.contextmanager
def _open_npy_writer(folder: Path, _: Settings) -> Iterator[WriteArray]:
    """Open a folder for writing a .npy file for each array. Raise FormatError if an old folder has other files."""
    _remove_unfinished(folder)
    try:
        with replace_folder(folder) as temporary:
            yield lambda key, array: np.save(temporary / f"{encode_file_name(key)}.npy", array)
    except OtherFileError as error:
        raise FormatError(f"contains {error.path.name}, which is not an entry of the source: remove the file, or "
                          "choose another folder. Nothing was changed", file=str(folder)) from None  # fmt: skip


def _read_npz(path: Path) -> Entries:
    """Yield the key and the array (or error) of each member of a .npz file, in the order of the file."""
    with _open_foreign(lambda: zipfile.ZipFile(path), path) as archive:

        def read_member(member: zipfile.ZipInfo) -> Array:
            name = member.filename
            check_unpacked_size(member.file_size, path, name)
            with archive.open(member) as file:
                return read_npy(file, member.file_size, f"{path}: {name}")

        for member in archive.infolist():
            array = _read_or_return_error(functools.partial(read_member, member), path)
            yield member.filename.removesuffix(".npy"), array


def use_temporary_name(open_writer: OpenWriter) -> OpenWriter:
    """Decorate ``open_writer`` to use a temporary name until the file is complete, except for devices."""

    @contextlib.contextmanager
    def open_temporary_writer(path: Path, settings: Settings) -> Iterator[WriteArray]:
        if not is_replaceable(path):  # A device such as /dev/stdout must be written directly.
            with open_writer(path, settings) as write_array:
                yield write_array
            return
        _refuse_folder(path)
        _remove_unfinished(path)
        unfinished = choose_temporary_name(path)
        try:
            with open_writer(unfinished, settings) as write_array:
                yield write_array
            synchronize(unfinished)
            put_in_place(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)

    return open_temporary_writer


def _refuse_folder(path: Path) -> None:
    if path.is_dir():
        raise OpenError("is a folder, but the target must be a file: choose another target", file=str(path))


def _remove_unfinished(path: Path) -> None:
    """Remove the files and folders that killed conversions left beside a target. Print their number unless it is 0."""
    if count := remove_unfinished(path):
        names = "name" if count == 1 else "names"
        print(f"ark: {path}: removed {count} unfinished {names} that killed conversions left", file=sys.stderr)


@use_temporary_name
@contextlib.contextmanager
def _open_npz_writer(path: Path, _: Settings) -> Iterator[WriteArray]:
    """Open a .npz file for writing without compression."""
    # Open the file here: ZipFile would open a FIFO twice, but the reader of a FIFO ends when it is first closed.
    with contextlib.ExitStack() as stack:
        target: Any = stack.enter_context(path.open("wb"))
        if path.is_char_device():  # Hide tell(), which is always 0 for /dev/null, from ZipFile.
            target = SimpleNamespace(write=target.write, flush=target.flush)
        archive = stack.enter_context(zipfile.ZipFile(target, "w"))

        def write_array(key: str, array: Array) -> None:
            if len(f"{key}.npy".encode()) > 65535:  # ZIP stores the number of bytes of a name in 16 bits.
                raise FormatError("the key is too long for a .npz file: shorten the key", key=key)
            with archive.open(f"{key}.npy", "w", force_zip64=True) as file:  # An array may be larger than 2 GiB.
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)

        yield write_array


def _read_tar(path: Path) -> Entries:
    """Yield the key and the array (or error) of each .npy file in a tar file, which may be compressed."""
    with _open_foreign(lambda: tarfile.open(path, "r|*"), path) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() and member.name.endswith(".npy") else None
            if file is not None:
                check_unpacked_size(member.size, path, member.name)
                data, label = io.BytesIO(file.read()), f"{path}: {member.name}"
                key = unquote(member.name.rpartition("/")[2].removesuffix(".npy"))
                yield key, _read_or_return_error(functools.partial(read_npy, data, member.size, label), path)


@use_temporary_name
@contextlib.contextmanager
def _open_tar_writer(path: Path, _: Settings) -> Iterator[WriteArray]:
    """Open a tar file in the layout of WebDataset for writing a .npy file for each array."""
    with path.open("wb") as target, tarfile.open(fileobj=target, mode="w|") as archive:  # "w|" can write to a pipe.

        def write_array(key: str, array: Array) -> None:
            data = io.BytesIO()
            np.save(data, array, allow_pickle=False)
            member = tarfile.TarInfo(f"{encode_file_name(key)}.npy")
            member.size = data.tell()  # `mtime` stays 0, so that equal arrays result in equal bytes.
            data.seek(0)
            archive.addfile(member, data)

        yield write_array


def _read_safetensors(path: Path) -> Entries:
    """Yield each key and array (or error) of a safetensors file. Raise FormatError if the header is invalid."""
    with path.open("rb") as file:
        # The file has the size of the header in 8 bytes, the header, and the arrays.
        available_bytes = path.stat().st_size - 8
        header_size = int.from_bytes(file.read(8), "little")

        def read_header() -> dict[str, Any]:
            """Read the header, which maps keys to the types, shapes and positions of the arrays."""
            if not 2 <= header_size <= available_bytes:
                size = available_bytes + 8
                raise ValueError(f"the file has {size} bytes, but its header should have {header_size} bytes")
            header: dict[str, Any] = json.loads(file.read(header_size))
            header.pop("__metadata__", None)
            return header

        def read_array(entry: dict[str, Any]) -> Array:
            """Read the array that an entry of the header describes."""
            dtype, shape = np.dtype(SAFETENSORS[entry["dtype"]]), entry["shape"]
            start, end = entry["data_offsets"]
            data_bytes = available_bytes - header_size
            if not 0 <= start <= end <= data_bytes or end - start != math.prod(shape) * dtype.itemsize:
                raise ValueError("the position or size of the data in the header is wrong")
            file.seek(8 + header_size + start)
            array: Array = np.frombuffer(file.read(end - start), dtype).reshape(shape).copy()
            return array

        for key, entry in _call_safetensors(read_header, path).items():
            read_entry = functools.partial(_call_safetensors, functools.partial(read_array, entry), path)
            yield key, _read_or_return_error(read_entry, path, key)


def _call_safetensors(read: Callable[[], Any], path: Path) -> Any:
    """Call ``read``, which reads the header or an array of a safetensors file. Raise FormatError for invalid data."""
    try:
        return read()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason: object = error
        if isinstance(error, KeyError):
            reason = f"{error} is missing" if error.args[0] in _ENTRY_NAMES else f"the type {error} is not supported"
        text = f"cannot be read as a safetensors file: {reason}; save the arrays again, for example as F32"
        raise FormatError(text, file=str(path)) from None


@use_temporary_name
@contextlib.contextmanager
def _open_safetensors_writer(path: Path, _: Settings) -> Iterator[WriteArray]:
    """Open a safetensors file for writing. A temporary file collects the arrays, because the header precedes them."""
    header: dict[str, Any] = {}
    names = {np.dtype(numpy_type): name for name, numpy_type in SAFETENSORS.items()}
    # Use the folder of the target, which has room for the arrays, unless the target is a device in /dev.
    with tempfile.TemporaryFile(dir=path.parent if is_replaceable(path) else None) as data:

        def write_array(key: str, array: Array) -> None:
            dtype = array.dtype.newbyteorder("<")
            if dtype not in names or key == "__metadata__":
                reason = f"have no type {dtype}" if dtype not in names else "reserve this key"
                raise FormatError(f"safetensors files {reason}: choose another format", key=key)
            start = data.tell()
            data.write(np.ascontiguousarray(array, dtype).data)
            entry = {"dtype": names[dtype], "shape": array.shape, "data_offsets": (start, data.tell())}
            header[key] = entry

        yield write_array
        text = json.dumps(header, ensure_ascii=False).encode()
        text += b" " * (-len(text) % 8)  # Spaces align the data to 8 bytes, as in files of safetensors.
        data.seek(0)
        with path.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            shutil.copyfileobj(data, file)


def _read_hdf5(path: Path) -> Entries:
    """Yield the key and array (or error) of each dataset of an HDF5 file. Raise FormatError for data in other files."""
    h5py = import_extra("h5py", "HDF5 files")
    # Without "r", h5py before 3.0 would open the file for writing.
    with _open_foreign(lambda: h5py.File(path, "r"), path) as file:
        names, groups = list(file), set()
        while names:
            name = names.pop(0)
            if isinstance(file.get(name, getlink=True), h5py.ExternalLink):
                raise FormatError(f"{name}: is a link to another file: copy the data into this file", file=str(path))
            if isinstance(file.get(name, getlink=True), h5py.SoftLink):
                link_access = h5py.h5p.create(h5py.h5p.LINK_ACCESS)
                # This limit refuses a chain of links, which may lead to another file.
                link_access.set_nlinks(1)
                h5py.h5o.open(file.id, name.encode(), link_access)
            item = file[name]
            # A group is read once, because a link to an outer group would lead to an endless loop.
            if isinstance(item, h5py.Group) and item.id not in groups:
                groups.add(item.id)
                names[:0] = [f"{name}/{inner}" for inner in item]
            if not isinstance(item, h5py.Dataset):
                continue
            if item.external or item.is_virtual:
                raise FormatError(f"{name}: has data in other files: copy the data into this file", file=str(path))
            check_unpacked_size(item.nbytes, path, name)
            yield unquote(name), _read_or_return_error(functools.partial(item.__getitem__, ()), path, name)


@use_temporary_name
@contextlib.contextmanager
def _open_hdf5_writer(path: Path, _: Settings) -> Iterator[WriteArray]:
    """Open an HDF5 file for writing a dataset for each array. Write errors are raised after HDF5 has returned."""
    h5py = import_extra("h5py", "HDF5 files")

    def write_array(key: str, array: Array) -> None:
        with delay_signals():  # After an exception such as ^C in the functions of `raw`, HDF5 cannot close the file.
            # In HDF5, a slash in a name would create a group, and a dot is the name of the group itself.
            name = key.replace("%", "%25").replace("/", "%2F")
            file.create_dataset("%2E" if name == "." else name, data=array)
        raw.raise_error()

    with _FileForHdf5(path, "w+") as raw:
        file = h5py.File(raw, "w", track_order=True)
        try:
            yield write_array
        finally:
            with delay_signals():
                file.close()
        raw.raise_error()


class _FileForHdf5(io.FileIO):
    """File that ignores writes after the first error, because HDF5 may crash if it cannot close a file."""

    error: OSError | None = None

    def write(self, data: Any) -> int:
        view = memoryview(data)
        while len(view) and self.error is None:
            view = view[self._call_until_error(super().write, view) :]
        return len(data)

    def truncate(self, size: int | None = None) -> int:
        return self._call_until_error(super().truncate, size)

    def _call_until_error(self, function: Callable[[Any], int], argument: Any) -> int:
        """Call a file operation and return its result. Store an OSError, and return 0 for this and all later calls."""
        try:
            return function(argument) if self.error is None else 0
        except OSError as error:
            self.error = error
            return 0

    def raise_error(self) -> None:
        """Raise the first error of a write, if there was an error."""
        if self.error is not None:
            raise self.error


def _read_parquet(path: Path) -> Entries:
    """Yield the keys and arrays of a Parquet file. A row with null values yields an error instead of an array.

    Raise FormatError if a column that ``ark convert`` writes is missing or has another type, or if a key is null.
    """
    parquet = import_extra("pyarrow.parquet", "Parquet files")
    with _open_foreign(lambda: parquet.ParquetFile(path, pre_buffer=False), path) as file:
        if not {"key", "shape", "values"} <= set(file.schema_arrow.names):
            raise FormatError("lacks the columns key, shape and values: name a file of `ark convert`", file=str(path))
        _check_columns(file.schema_arrow, path)
        batch_rows = PARQUET_ROWS
        for group in range(file.metadata.num_row_groups):
            metadata = file.metadata.row_group(group)
            # Parquet stores equal values once, so its bytes do not limit the memory. A number may need 8 bytes.
            value_count = sum(metadata.column(i).num_values for i in range(metadata.num_columns))
            size = max(metadata.total_byte_size, 8 * value_count)
            check_unpacked_size(size, path, f"row group {group}")
            batch_rows = max(1, min(batch_rows, metadata.num_rows * PARQUET_BYTES // max(size, 1)))
        for batch in file.iter_batches(batch_size=batch_rows, columns=["key", "shape", "values"]):
            keys, shapes, values = (batch.column(name) for name in ("key", "shape", "values"))
            if keys.null_count:
                raise FormatError("has a row without a key: give each row a key", file=str(path))
            for key, shape, numbers in zip(keys, shapes, values, strict=True):
                read = functools.partial(_make_array, numbers, shape.as_py(), path)
                yield key.as_py(), _read_or_return_error(read, path, key.as_py())


def _make_array(numbers: Any, shape: list[int | None] | None, path: Path) -> Array:
    """Convert ``numbers``, a ListScalar of pyarrow, to an array of ``shape``. Raise FormatError for null values."""
    if shape is None or None in shape:
        raise FormatError("has a null value in the column shape: write the shape of the array", file=str(path))
    if not numbers.is_valid or numbers.values.null_count:
        raise FormatError("has a null value, which no array can hold: write NaN instead", file=str(path))
    return np.array(numbers.values.to_numpy(zero_copy_only=False)).reshape(shape)


def _check_columns(schema: Any, path: Path) -> None:
    """Raise FormatError unless the keys are strings, the shapes lists of integers, and the values lists of numbers."""
    types = import_extra("pyarrow", "Parquet files").types
    key, *lists = (schema.field(name).type for name in ("key", "shape", "values"))
    are_lists = all(types.is_list(list_type) or types.is_large_list(list_type) for list_type in lists)
    if not (types.is_string(key) or types.is_large_string(key)) or not are_lists:
        raise FormatError(f"has columns of the types {key}, {lists[0]} and {lists[1]}: expected a string, a list of "
                          "integers and a list of numbers", file=str(path))  # fmt: skip
    shape, values = (list_type.value_type for list_type in lists)
    are_numbers = types.is_integer(values) or types.is_floating(values) or types.is_boolean(values)
    if not types.is_integer(shape) or not are_numbers:
        raise FormatError(f"has lists of {shape} as shapes and of {values} as values: expected integers and numbers",
                          file=str(path))  # fmt: skip


@use_temporary_name
@contextlib.contextmanager
def _open_parquet_writer(path: Path, _: Settings) -> Iterator[WriteArray]:
    """Open a Parquet file for writing a row for each array. All arrays share a column, so they must have one type."""
    arrow = import_extra("pyarrow", "Parquet files")
    parquet = import_extra("pyarrow.parquet", "Parquet files")
    pending: list[tuple[str, Array]] = []  # Arrays of the next row group.
    writers: list[Any] = []  # The writer of the file, when the file has been created.
    dtypes: list[np.dtype[Any]] = []  # The type of the first array, which is the type of the column.

    def write_pending() -> None:
        """Write the pending arrays as a row group. Create the file with the first row group, which may be empty."""
        number_type = arrow.from_numpy_dtype(dtypes[0]) if dtypes else arrow.float32()
        schema = arrow.schema(
            [("key", arrow.string()), ("shape", arrow.list_(arrow.int64())), ("values", arrow.list_(number_type))]
        )
        if not writers:
            # A dictionary saves space for integers, which repeat, but would be larger than the floats of features.
            dictionary = ["key"] if arrow.types.is_floating(number_type) else True
            writers.append(parquet.ParquetWriter(file, schema, use_dictionary=dictionary))
        if pending:
            offsets = np.cumsum([0, *(array.size for _, array in pending)])
            flat = np.concatenate([array.ravel() for _, array in pending])
            values = arrow.ListArray.from_arrays(arrow.array(offsets, arrow.int32()), arrow.array(flat))
            columns = [[key for key, _ in pending], [list(array.shape) for _, array in pending], values]
            writers[0].write_table(arrow.table(columns, schema=schema))
            pending.clear()

    def write_array(key: str, array: Array) -> None:
        """Add an array to the pending arrays, and write them when the row group is full."""
        if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
            raise FormatError(f"has the type {array.dtype}, which Parquet files cannot store: choose .npz", key=key)
        dtypes[:] = dtypes or [array.dtype]
        if array.dtype != dtypes[0]:
            raise FormatError(f"is {array.dtype}, not {dtypes[0]} as earlier: convert arrays of one type", key=key)
        pending.append((key, array))
        if len(pending) == PARQUET_ROWS or sum(array.nbytes for _, array in pending) >= PARQUET_BYTES:
            write_pending()

    with path.open("wb") as file:
        try:
            yield write_array
            if pending or not writers:
                write_pending()
        finally:
            for writer in writers:
                writer.close()


@use_temporary_name
@contextlib.contextmanager
def _open_csv_writer(path: Path, _: Settings) -> Iterator[WriteArray]:
    """Open a CSV file for writing (see :func:`open_csv_writer`)."""
    with open_csv_writer(path) as write_array:
        yield write_array


def _import_lhotse(path: Path) -> Any:
    """Import and return lhotse. Raise SpecifierError if lhotse does not support the file name ending of ``path``."""
    if not path.name.endswith(FORMATS["lhotse"].endings):
        raise SpecifierError("the name of a lhotse manifest must end in .jsonl or .jsonl.gz", file=str(path))
    return import_extra("lhotse", "lhotse manifests")


def _read_lhotse(path: Path) -> Entries:
    """Yield the key and features (or error) of each item in a lhotse manifest.

    Raise FormatError if the manifest is empty, or an item has no features or has features that are not in a file.
    """
    lhotse = _import_lhotse(path)
    manifest = _open_manifest(lhotse, path)
    if manifest is None:
        raise FormatError("the manifest is empty: check the name of SOURCE", file=str(path))
    items = _call_library(lambda: iter(manifest), path)
    while (item := _call_library(lambda: next(items, None), path)) is not None:
        item_type = type(item).__name__
        if item_type != "Features" and not getattr(item, "has_features", False):
            raise FormatError(f"is a manifest of {item_type} without features: pass a manifest of features, or of cuts "
                              "with features", file=str(path))  # fmt: skip
        key = item.recording_id if item_type == "Features" else item.id
        if not key:
            raise FormatError("has features without a recording_id, which is the key: pass the manifest of cuts",
                              file=str(path))  # fmt: skip
        for part in [track.cut for track in getattr(item, "tracks", ())] or [item]:
            _check_storage_path(part if item_type == "Features" else getattr(part, "features", None), path)
        load = item.load if item_type == "Features" else item.load_features
        yield key, _read_or_return_error(load, path, key)


def _open_manifest(lhotse: Any, path: Path) -> Any:
    """Open a lhotse manifest lazily. Return None if it is empty. Raise FormatError if lhotse cannot open the file."""
    try:
        return _call_library(lambda: lhotse.load_manifest_lazy(path), path)
    except FormatError as error:
        # lhotse passes the fields of an unknown object to SupervisionSegment. Python's error then names NeMo's field.
        if "audio_filepath" not in str(error):
            raise
        raise FormatError("is a manifest of NeMo, which `ark convert` writes but does not read: name a table or a "
                          "lhotse manifest", file=str(path)) from None  # fmt: skip


def _check_storage_path(features: Any, path: Path) -> None:
    """Raise FormatError for features that are not in a file, because lhotse could run a command or open a URL."""
    # In lhotse's storage type "kaldiio", a location is an rxfilename, such as a.ark:123, or a script file.
    storage_type, location = (str(getattr(features, name, "")) for name in ("storage_type", "storage_path"))
    is_kaldi = storage_type == "kaldiio"
    file = location.rpartition(":")[0] if is_kaldi and not Path(location).exists() else location
    is_file = Path(file).exists() and not (is_kaldi and ("|" in location or location.endswith(".scp")))
    if location and (not is_file or "url" in storage_type):
        raise FormatError(f"has features in {location!r}, which is not a file: copy the features to a file, because "
                          "commands, URLs and script files in a manifest are not opened", file=str(path))  # fmt: skip


@contextlib.contextmanager
def _open_lhotse_writer(path: Path, settings: Settings) -> Iterator[WriteArray]:
    """Open a lhotse manifest and the folder of its arrays for writing (see :mod:`io_ark.cli.lhotse_arrays`).

    When the ``with`` block ends, the new manifest replaces the old manifest. Raise SpecifierError or OpenError if the
    manifest or the folder cannot have this name. Arrays that are not matrices raise FormatError.
    """
    lhotse = _import_lhotse(path)
    array_writer = import_extra("lhotse.features.io", "lhotse manifests").NumpyFilesWriter
    storage = path.with_name(f"{path.name}_storage")
    _refuse_folder(path)
    if not is_replaceable(path):
        raise OpenError("is not a regular file: choose another target for the manifest", file=str(path))
    check_storage(storage)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Killed conversions may have left arrays that no manifest in use names. The manifests in the temporary folders of
    # these conversions list the arrays.
    with lock_folder(path.parent):
        remove_arrays(storage, list_unfinished(storage), path)
        for target in (storage, path):
            _remove_unfinished(target)
    temporary = choose_temporary_name(storage)
    unfinished = temporary / path.name
    temporary.mkdir()
    try:
        with lhotse.FeatureSet.open_writer(unfinished) as manifest, array_writer(temporary / storage.name) as arrays:

            def write_array(key: str, array: Array) -> None:
                if array.ndim != 2:
                    raise FormatError("is not a matrix: lhotse stores only matrices", file=str(path), key=key)
                manifest.write(
                    lhotse.Features(
                        type="kaldi",
                        num_frames=len(array),
                        num_features=array.shape[1],
                        frame_shift=settings.frame_shift,
                        sampling_rate=settings.sample_frequency,
                        start=0,
                        duration=round(len(array) * settings.frame_shift, 6),
                        storage_type=arrays.name,
                        storage_path=str(storage),
                        storage_key=arrays.write(name_array(encode_file_name(key), array), array),
                        recording_id=key,
                        channels=0,
                    )
                )

            yield write_array
        with lock_folder(path.parent):
            write_obsolete_keys(path, unfinished, storage)
            move_arrays(temporary / storage.name, storage)
            synchronize(unfinished)
            put_in_place(unfinished, path)
    finally:
        with lock_folder(path.parent):
            remove_arrays(storage, [temporary], path)
        remove_path(temporary)


@contextlib.contextmanager
def _open_foreign(open_file: Callable[[], Any], path: Path) -> Iterator[Any]:
    """Yield the file that another library opens with ``open_file``. For errors, see :func:`_call_library`."""
    with _call_library(open_file, path) as file:
        yield file


def _call_library(function: Callable[[], Any], path: Path) -> Any:
    """Call a function of another library. Convert exceptions to FormatError, except ArkError and FileNotFoundError."""
    try:
        return function()
    except (ArkError, FileNotFoundError):
        raise
    except Exception as error:
        text = describe_error(error) if isinstance(error, OSError) else str(error)
        reason = (text or type(error).__name__).splitlines()[0]
        raise FormatError(f"cannot be read: {reason}", file=str(path)) from None


FORMATS = {
    "npz": Format("NumPy: one file", (".npz",), _read_npz, _open_npz_writer),
    "npy": Format("NumPy: a folder with a file for each key", ("/",), _read_npy, _open_npy_writer),
    "hdf5": Format("HDF5 (h5py): a dataset for each key", (".h5", ".hdf5"), _read_hdf5, _open_hdf5_writer),
    "parquet": Format(
        "Parquet (pyarrow): columns key, shape, values", (".parquet",), _read_parquet, _open_parquet_writer
    ),
    "csv": Format("CSV: a row for each frame or vector", (".csv",), read_csv, _open_csv_writer),
    "safetensors": Format("safetensors", (".safetensors",), _read_safetensors, _open_safetensors_writer),
    "tar": Format("WebDataset: a tar file of key.npy", (".tar",), _read_tar, _open_tar_writer),
    "lhotse": Format("lhotse: a manifest of features", (".jsonl", ".jsonl.gz"), _read_lhotse, _open_lhotse_writer),
}
