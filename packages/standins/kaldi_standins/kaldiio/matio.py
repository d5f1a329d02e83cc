"""kaldiio's ``matio``: load and save archives, script files and single objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from os import PathLike
from typing import IO, Any, Literal

import numpy as np

from io_ark.data_dir import TO_THE_END, load_segments
from io_ark.errors import ArkError, FormatError, RangeError, SpecifierError
from io_ark.specifier import decode_file_name
from io_ark.streams.access import Access
from io_ark.streams.files import MAX_OPEN_FILES, MAX_OPEN_FILES_SEQUENTIAL
from io_ark.tables import repeat_errors
from io_ark.tables.blocks import read_entries
from io_ark.tables.keys import check_key, encode_key
from io_ark.tables.loader import name_key, read_rxfilename
from io_ark.tables.script import Script
from io_ark.tables.writers import CollectedChunks
from io_ark.text import WHITE_SPACE
from kaldi_standins.file_objects import FileOrName, get_stream_name, is_name, open_sink, open_source
from kaldi_standins.file_objects import read_key as read_token
from kaldi_standins.kaldiio.compression_header import GlobalHeader, PerColHeader
from kaldi_standins.kaldiio.extended import encode_length
from kaldi_standins.kaldiio.utils import (
    LazyLoader,
    default_encoding,
    map_locations,
    open_like_kaldi,
    open_or_fd,
    seekable,
    string_types,
)
from kaldi_standins.kaldiio.values import (
    KaldiioCodec,
    KaldiioLoader,
    cut_slices,
    format_array,
    get_codec,
    is_audio,
    load_numpy_range,
    parse_slices,
)
from kaldi_standins.kaldiio.wavio import read_wav, write_wav

__all__ = [
    "GlobalHeader", "LazyLoader", "PerColHeader", "SegmentsExtractor", "binary_type", "default_encoding",
    "from_bytes", "load_ark", "load_mat", "load_scp", "load_scp_sequential", "load_wav_scp", "open_like_kaldi",
    "open_or_fd", "read_ascii_mat", "read_int32vector", "read_kaldi", "read_matrix_or_vector", "read_token",
    "read_wav", "save_ark", "save_mat", "seekable", "string_types", "to_bytes", "write_array", "write_array_ascii",
    "write_wav",
]  # fmt: skip

binary_type = bytes


def load_mat(
    ark_name: str | PathLike[str],
    endian: str = "<",
    fd_dict: dict[str, Any] | None = None,
    *,
    pipes: bool = True,
    network: bool = True,
) -> Any:
    """Load the object at a location such as ``feats.ark:123[0:9]``: an array, or audio ``(rate, samples)``.

    A range selects rows and columns, or samples. It includes both ends, and may have a step as in kaldiio: ``[0:9:2]``.

    Args:
        ark_name: an rxfilename.
        endian: byte order of binary objects, "<" or ">".
        fd_dict: ignored. kaldiio uses this argument as a cache of open files.
        pipes, network: False to refuse commands and URLs, respectively.

    Raises:
        ArkError: the object cannot be opened or read, or ``endian`` is invalid.

    >>> from kaldi_standins import kaldiio
    >>> kaldiio.load_mat("echo 1 2 3 |").tolist()
    [1, 2, 3]
    """
    load = partial(read_rxfilename, get_codec(endian), access=Access(pipes, network))
    name = decode_file_name(ark_name)
    try:
        return load(name)
    except (RangeError, SpecifierError) as error:
        return load_numpy_range(load, name, error)


@repeat_errors
def load_ark(
    fname: FileOrName, endian: str = "<", *, pipes: bool = True, network: bool = True
) -> Iterator[tuple[str, Any]]:
    """Iterate over the keys and values of an archive. A value is an array, or audio ``(rate, samples)``.

    Args:
        fname: name of the archive, a command, or an open binary file.
        endian: byte order of binary objects, "<" or ">".
        pipes, network: False to refuse commands and URLs, respectively.

    Raises:
        ArkError: during iteration, if the archive cannot be opened, an entry cannot be read, or ``endian`` is invalid.

    >>> import io
    >>> from kaldi_standins import kaldiio
    >>> [(key, array.tolist()) for key, array in kaldiio.load_ark(io.BytesIO(b"utt1 1 2 3\\n"))]
    [('utt1', [1, 2, 3])]
    """
    with open_source(fname, Access(pipes, network), whole=True) as source:
        yield from read_entries(source, get_codec(endian))


def load_scp(
    fname: FileOrName,
    endian: str = "<",
    separator: str | None = None,
    segments: str | None = None,
    max_cache_fd: int = 0,
    *,
    pipes: bool = True,
    network: bool = True,
) -> Mapping[str, Any]:
    """Load a script file as a mapping. Objects are read on access. A duplicate key maps to its last line.

    Args:
        fname: name of the script file, or an open file.
        endian: byte order of binary objects, "<" or ">".
        separator: separator after the key. With a separator, keys may contain white space. None for any white space.
        segments: name of a segments file, to map segments to ``(rate, samples)``. ``endian`` and ``max_cache_fd`` are
            then ignored. None maps keys to objects.
        max_cache_fd: maximum number of open archives. 0 for the default.
        pipes, network: False to refuse commands and URLs, respectively.

    Raises:
        ArkError: a file cannot be opened or is invalid, or ``endian`` is invalid. On lookup, the key or segment is
            unknown, or its object cannot be read.

    >>> import io
    >>> from kaldi_standins import kaldiio
    >>> kaldiio.load_scp(io.BytesIO(b"utt1 echo 1 2 3 |\\n"))["utt1"].tolist()
    [1, 2, 3]
    """
    if segments is not None:
        return SegmentsExtractor(fname, segments, separator, pipes=pipes, network=network)
    access = Access(pipes, network)
    loader = KaldiioLoader(access, max_cache_fd or MAX_OPEN_FILES, endian)
    if separator is None:
        locations = map_locations(_open_script(fname, access))
    else:
        locations = dict(_split_lines(fname, separator, access))
    return LazyLoader(loader.load_value, locations)


@repeat_errors
def load_scp_sequential(
    fname: FileOrName,
    endian: str = "<",
    separator: str | None = None,
    segments: str | None = None,
    *,
    pipes: bool = True,
    network: bool = True,
) -> Iterator[tuple[str, Any]]:
    """Iterate over the keys and objects of a script file, or over segments. For the arguments, see :func:`load_scp`.

    Raises:
        ArkError: during iteration, if a file cannot be opened or is invalid, an object or segment cannot be read, or
            ``endian`` is invalid.

    >>> import io
    >>> from kaldi_standins import kaldiio
    >>> [(key, array.tolist()) for key, array in kaldiio.load_scp_sequential(io.BytesIO(b"utt1 echo 1 2 3 |\\n"))]
    [('utt1', [1, 2, 3])]
    """
    if segments is not None:
        yield from load_scp(fname, endian, separator, segments, pipes=pipes, network=network).items()
        return
    access = Access(pipes, network)
    loader = KaldiioLoader(access, MAX_OPEN_FILES_SEQUENTIAL, endian, in_order=True)
    lines = _open_script(fname, access).iterate_lines() if separator is None else _split_lines(fname, separator, access)
    for key, rxfilename in lines:
        yield key, loader.load_value(key, rxfilename)


def load_wav_scp(
    fname: FileOrName,
    segments: str | None = None,
    separator: str | None = None,
    *,
    pipes: bool = True,
    network: bool = True,
) -> Mapping[str, Any]:
    """Load a script file: the older name of :func:`load_scp`, which describes the arguments and errors.

    >>> import io
    >>> from kaldi_standins import kaldiio
    >>> kaldiio.load_wav_scp(io.BytesIO(b"utt1 echo 1 2 3 |\\n"))["utt1"].tolist()
    [1, 2, 3]
    """
    return load_scp(fname, separator=separator, segments=segments, pipes=pipes, network=network)


def save_ark(
    ark: FileOrName,
    array_dict: Mapping[str, Any],
    scp: FileOrName | None = None,
    append: bool = False,
    text: bool = False,
    endian: str = "<",
    compression_method: int | None = None,
    write_function: str | None = None,
    write_kwargs: Mapping[str, Any] | None = None,
    *,
    pipes: bool = True,
    network: bool = True,
) -> None:
    """Write an archive, and optionally a script file that points into it.

    Args:
        ark: name of the archive, or an open binary file.
        array_dict: maps keys to values. Audio is ``(rate, samples)``.
        scp: name of the script file, or an open file. None writes no script file.
        append: True to append to both files.
        text: True to write text, False for binary.
        endian: byte order of binary objects, "<" or ">".
        compression_method: compression method of matrices, from 1 to 7. None for no compression.
        write_function: None for Kaldi's formats. "soundfile" writes ``(rate, samples)`` as audio files, "numpy" writes
            values by :func:`numpy.save`, and "pickle" writes plain values and arrays. Only kaldiio and this module
            can read these three formats.
        write_kwargs: arguments of the function that ``write_function`` names, such as ``{"format": "flac"}``.
        pipes, network: False to refuse commands and URLs, respectively.

    Raises:
        ArkError: a key or value cannot be written, a file cannot be opened or written, an argument is invalid, or
            ``scp`` is given, but ``ark`` is a stream without positions.

    >>> import io
    >>> import numpy as np
    >>> from kaldi_standins import kaldiio
    >>> file = io.BytesIO()
    >>> kaldiio.save_ark(file, {"utt1": np.zeros((2, 3), np.float32)})
    >>> position = file.seek(0)
    >>> [(key, array.shape) for key, array in kaldiio.load_ark(file)]
    [('utt1', (2, 3))]
    """
    codec = KaldiioCodec(compression_method, endian=endian, write_function=write_function, write_kwargs=write_kwargs)
    if scp is not None and not is_name(ark) and not _has_position(ark):
        raise SpecifierError("the archive is a stream without positions, so a script file cannot point into it: pass "
                             "the name of a file")  # fmt: skip
    access = Access(pipes, network)
    with (
        open_sink(ark, access, append=append) as archive,
        nullcontext() if scp is None else open_sink(scp, access, append=append) as script,
    ):
        script_entry = nullcontext() if script is None else script.entry
        if script is not None:
            script.archive = archive
        for key, value in array_dict.items():
            check_key(key)
            chunks = CollectedChunks()
            try:
                codec.write(chunks, value, binary=not text)
            except ArkError as error:
                raise name_key(error, key) from error.__cause__
            encoded_key = encode_key(key) + b" "
            with archive.entry, script_entry:
                offset = archive.start + archive.tell() + len(encoded_key)
                archive.write_all((encoded_key, *chunks))
                if script is not None:
                    script.write(encoded_key + encode_key(f"{archive.name}:{offset}\n"))
        # The archive and the script file are flushed before they are closed. If one flush fails, both are discarded.
        with archive.entry, script_entry:
            archive.flush()
            if script is not None:
                script.flush()


def save_mat(
    fname: FileOrName,
    array: Any,
    endian: str = "<",
    compression_method: int | None = None,
    *,
    pipes: bool = True,
    network: bool = True,
) -> int:
    """Write one object in binary to a file, and return the number of bytes written.

    Args:
        fname: name of the file, or an open binary file.
        array: array, or audio ``(rate, samples)``.
        endian: byte order, "<" or ">".
        compression_method: compression method of matrices, from 1 to 7. None for no compression.
        pipes, network: False to refuse commands and URLs, respectively.

    Raises:
        ArkError: the file cannot be opened or written, the value cannot be written, or an argument is invalid.

    >>> import io
    >>> import numpy as np
    >>> from kaldi_standins import kaldiio
    >>> file = io.BytesIO()
    >>> kaldiio.save_mat(file, np.zeros((2, 3), np.float32))
    39
    """
    codec = KaldiioCodec(compression_method, endian=endian)
    with open_sink(fname, Access(pipes, network)) as output:
        chunks = CollectedChunks()  # If the codec refuses the value, nothing is written.
        codec.write(chunks, array, binary=True)
        with output.entry:
            output.write_all(chunks)
        return output.tell()


def _has_position(stream: Any) -> bool:
    """Return True if a stream can report its position."""
    try:
        stream.tell()
    except (OSError, AttributeError):
        return False
    return True


def read_kaldi(
    fd: Any, endian: str = "<", audio_loader: str = "soundfile", load_kwargs: Mapping[str, Any] | None = None
) -> Any:
    """Read the object at the current position of an open binary file: an array, or audio ``(rate, samples)``.

    Args:
        fd: the file.
        endian: byte order, "<" or ">".
        audio_loader: must be "soundfile".
        load_kwargs: arguments of ``soundfile.read`` for audio that soundfile wrote. Ignored for other objects.

    Raises:
        ArkError: the bytes are not an object, or an argument is invalid.

    >>> import io
    >>> from kaldi_standins.kaldiio import matio
    >>> matio.read_kaldi(io.BytesIO(b"1 2 3\\n")).tolist()
    [1, 2, 3]
    """
    if audio_loader != "soundfile":
        raise SpecifierError(f"audio_loader={audio_loader!r} is not supported: choose 'soundfile'")
    with open_source(fd) as source:
        return KaldiioCodec(endian=endian, load_kwargs=load_kwargs).read(source)


def read_matrix_or_vector(fd: Any, endian: str = "<", return_size: bool = False) -> Any:
    """Read the object at the current position of an open binary file. ``endian`` is its byte order, "<" or ">".

    With ``return_size``, return a pair of the object and the number of bytes that were read.

    Raises:
        ArkError: the bytes are not an object, or ``endian`` is invalid.

    >>> import io
    >>> from kaldi_standins.kaldiio import matio
    >>> matio.read_matrix_or_vector(io.BytesIO(b" [ 1 2 3 ]\\n")).tolist()
    [1, 2, 3]
    """
    with open_source(fd) as source:
        start = source.tell()
        value = KaldiioCodec(endian=endian).read(source)
        return (value, source.tell() - start) if return_size else value


read_int32vector = read_matrix_or_vector


def read_ascii_mat(fd: Any, return_size: bool = False) -> Any:
    """Read the object at the current position of an open binary file, in text or in binary.

    With ``return_size``, return a pair of the object and the number of bytes that were read.

    Raises:
        ArkError: the bytes are not an object.

    >>> import io
    >>> from kaldi_standins.kaldiio import matio
    >>> matio.read_ascii_mat(io.BytesIO(b" [ 0.5 2 ]\\n"), return_size=True)
    (array([0.5, 2. ], dtype=float32), 11)
    """
    return read_matrix_or_vector(fd, return_size=return_size)


def write_array(fd: Any, array: Any, endian: str = "<", compression_method: int | None = None) -> int:
    """Write one object to an open binary file, and return the number of bytes written: see :func:`save_mat`.

    >>> import io, numpy as np
    >>> from kaldi_standins.kaldiio import matio
    >>> matio.write_array(io.BytesIO(), np.zeros((2, 3), np.float32))
    39
    """
    return save_mat(fd, array, endian, compression_method)


def write_array_ascii(fd: Any, array: Any, digit: str = ".12g") -> int:
    """Write one array in text to an open binary file, and return the number of bytes written.

    Args:
        fd: open binary file.
        array: vector or matrix.
        digit: format of a number, as in ``format(number, digit)``.

    Raises:
        ArkError: the array is not a vector or matrix of numbers, or the file cannot be written.

    >>> import io, numpy as np
    >>> from kaldi_standins.kaldiio import matio
    >>> file = io.BytesIO()
    >>> matio.write_array_ascii(file, np.array([0.25, 2.0])), file.getvalue()
    (12, b' [ 0.25 2 ]\\n')
    """
    if not isinstance(array, np.ndarray) or array.ndim not in (1, 2) or array.dtype.kind not in "fiu":
        shown = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
        raise FormatError(f"expected an array of numbers with one or two axes, not {shown}")
    with open_sink(fd) as output, output.entry:
        output.write_all([format_array(array, digit)])
    return output.tell()


class SegmentsExtractor(Mapping[str, Any]):
    """Mapping from segments to audio ``(rate, samples)``, which is cut as in kaldiio.

    A segment has all channels of its recording, unless a fifth field of the segments file selects one channel. Times
    are rounded down to samples, and ends beyond the recording are truncated. Segments may have any length.

    Args:
        fname: name of the script file that lists the recordings, or an open file.
        segments: name of the segments file. None raises an error.
        separator, pipes, network: see :func:`load_scp`.

    Raises:
        ArkError: a file cannot be opened or read. On lookup, the segment is unknown, or its recording is missing, is
            not audio, lacks the channel, or ends before the segment.

    >>> import io, numpy as np, tempfile
    >>> from kaldi_standins.kaldiio import matio
    >>> name = f"{tempfile.mkdtemp()}/rec1.wav"
    >>> size = matio.write_wav(name, 8000, np.zeros(8000, np.int16))
    >>> script = io.BytesIO(f"rec1 {name}\\n".encode())
    >>> rate, samples = matio.SegmentsExtractor(script, "echo utt1 rec1 0 0.5 |")["utt1"]
    >>> rate, samples.shape
    (8000, (4000,))
    """

    def __init__(
        self,
        fname: FileOrName,
        segments: str | None = None,
        separator: str | None = None,
        *,
        pipes: bool = True,
        network: bool = True,
    ) -> None:
        if segments is None:
            raise SpecifierError("the argument segments is missing: pass the name of a segments file")
        self._segments: Mapping[str, Any] = load_segments(segments, pipes=pipes, network=network)
        self._recordings = load_scp(fname, separator=separator, pipes=pipes, network=network)
        # The latest recording is cached, because the segments of a recording usually follow each other.
        self._cached_name: str | None = None
        self._cached_recording: Any = None

    def __getitem__(self, key: str) -> Any:
        segment = self._segments[key]
        if self._cached_name != segment.recording:
            self._cached_recording = self._recordings[segment.recording]
            self._cached_name = segment.recording
        if not is_audio(self._cached_recording):
            raise FormatError(f"the recording {segment.recording!r} is not audio: pass a script file of audio", key=key)
        rate, samples = self._cached_recording
        if segment.channel is not None:  # In contrast to kaldiio, a fifth field selects a channel.
            samples = _select_channel(samples, segment, key)
        if segment.start * rate >= len(samples):
            message = (
                f"starts at {segment.start:g} s, after the end of {segment.recording}: correct the times of the segment"
            )
            raise RangeError(message, key=key)
        end = None if segment.end == TO_THE_END else int(segment.end * rate)
        return rate, samples[int(segment.start * rate) : end]

    def __iter__(self) -> Iterator[str]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_cached_name": None, "_cached_recording": None}


def _select_channel(samples: Any, segment: Any, key: str) -> Any:
    """Return the channel (T,) that ``segment`` selects from the ``samples`` (T,) or (T, channels) of its recording.

    Raise RangeError, which names the ``key`` of the segment, if the recording lacks the channel.
    """
    channel_count = samples[:1].size  # One sample of all channels has one number for each channel.
    if segment.channel >= channel_count:
        raise RangeError(
            f"is from channel {segment.channel}, but {segment.recording} has only {channel_count} "
            f"channel{'s' * (channel_count > 1)}, and channels count from 0: correct the fifth field",
            key=key,
        )
    return samples.reshape(len(samples), -1)[:, segment.channel]


def to_bytes(n: int, length: int, endianess: Literal["little", "big"] = "little") -> bytes:
    """Encode the nonnegative integer ``n`` as ``length`` bytes. Raise OverflowError if ``n`` does not fit.

    >>> from kaldi_standins.kaldiio import matio
    >>> matio.to_bytes(258, 4)
    b'\\x02\\x01\\x00\\x00'
    """
    return n.to_bytes(length, endianess)


def from_bytes(s: bytes, endianess: Literal["little", "big"] = "little") -> int:
    """Decode the bytes ``s`` in the byte order ``endianess`` to a nonnegative integer.

    >>> from kaldi_standins.kaldiio import matio
    >>> matio.from_bytes(b"\\x02\\x01\\x00\\x00")
    258
    """
    return int.from_bytes(s, endianess)


def _read_length_header(fd: IO[bytes]) -> int:
    """Read the header that :func:`_write_length_header` writes, and return the size of the data in bytes."""
    return from_bytes(fd.read(fd.read(1)[0]))


def _write_length_header(fd: IO[bytes], length_: int) -> int:
    """Write the header of data that soundfile or NumPy has encoded, and return the number of bytes written.

    The header is one byte with the width of the size, and then the size ``length_`` of the data in bytes.
    """
    data = encode_length(length_)
    fd.write(data)
    return len(data)


def _open_script(fname: FileOrName, access: Access) -> Script:
    """Read a script file by its name, or from an open file."""
    if isinstance(fname, str | PathLike):
        return Script.open(fname, access)
    return Script(_read_bytes(fname), get_stream_name(fname))


def _read_bytes(stream: Any) -> bytes:
    """Return all remaining bytes of an open file, which may be a text file."""
    data = stream.read()
    return data.encode("utf-8", "surrogateescape") if isinstance(data, str) else bytes(data)


def _split_lines(fname: FileOrName, separator: str, access: Access) -> Iterator[tuple[str, str]]:
    """Yield the key and the right-stripped location of every line. Raise FormatError if a line has no ``separator``."""
    if isinstance(fname, str | PathLike):
        with open_source(fname, access, whole=True) as source:
            data = source.read_rest()
    else:
        data = _read_bytes(fname)
    name = get_stream_name(fname)
    text = data.decode("utf-8", "surrogateescape").removesuffix("\n")
    for line_number, line in enumerate(text.split("\n") if text else (), 1):
        key, matched_separator, location = line.partition(separator)
        if not matched_separator:
            raise FormatError(
                f"line {line_number} has no {separator!r} after its key: correct the line, or pass another separator",
                file=name,
            )
        yield key, location.rstrip(WHITE_SPACE)


def _load_mat(fd: Any, offset: int | None, slices: tuple[slice, ...] | None = None, endian: str = "<") -> Any:
    """Read an object from an open binary file, and return its part ``slices``.

    If ``offset`` is None, read at the current position. If ``slices`` is None, return the whole object.
    """
    if offset is not None:
        fd.seek(offset)
    value = read_kaldi(fd, endian)
    return value if slices is None else cut_slices(value, slices)


def _parse_arkpath(ark_name: str) -> tuple[str, int | None, tuple[slice, ...] | None]:
    """Split a location into the file, the offset in bytes and the slices of its range. A missing part is None."""
    # A command to write, such as "| cat >a:1", may end like an offset or a range. A command to read ends in "|".
    if ark_name.lstrip()[:1] == "|":
        return ark_name, None, None
    slices = None
    if ark_name.endswith("]") and "[" in ark_name:
        name, _, range_text = ark_name[:-1].rpartition("[")
        slices = parse_slices(range_text)
        ark_name = ark_name if slices is None else name
    name, colon, offset = ark_name.rpartition(":")
    return (name, int(offset), slices) if colon and offset.isascii() and offset.isdigit() else (ark_name, None, slices)
