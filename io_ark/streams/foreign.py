"""Recognize files of other programs by their first bytes, with which no Kaldi object, archive or script file starts.

Text that fits no other type is read as a list of words. Without this check, a Git LFS pointer or an HTML page that a
server sent instead of an archive would be read as data.
"""

from __future__ import annotations

import re
from shlex import quote
from typing import Literal

from io_ark.errors import FormatError
from io_ark.logs import logger
from io_ark.streams.source import Source

HEAD_BYTES = 512  # Number of first bytes that show the format of a file. A tar file has its mark at byte 257.
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
Expected = Literal["object", "ark", "scp"]
BINARY_SCRIPT = "is binary, but a script file is text: pass the script file, or read an archive as ark:FILE"

_CONVERT = "convert it to a table with `ark convert`"
_DECODE = "decode it with a command such as 'ffmpeg -v 16 -i FILE -f wav - |'"
_DOWNLOAD = "if it is an error page of a server, download the file again"
_READ_MANIFEST = f"if it is a lhotse manifest (.jsonl), {_CONVERT}; a NeMo manifest is only written, not read"
_TEXT_START = rb"(?:\xef\xbb\xbf)?\s*"
# Patterns of the first bytes of a file, its format, and advice for the user.
_FORMATS = (
    (rb"version https://git-lfs\.", "a Git LFS pointer", "run 'git lfs pull' to fetch the file itself"),
    (rb"PK\x03\x04.{26}[^\0]{1,99}?data\.pkl", "a PyTorch file", "load it with torch.load"),
    (rb"PK\x03\x04", "a zip file, such as NumPy (.npz)", _CONVERT),
    (rb"\x93NUMPY", "a file of NumPy (.npy)", "load it with numpy.load"),
    (rb"\x89HDF\r\n", "a file of HDF5", _CONVERT),
    (rb"PAR1[\0-\x1f]", "a file of Parquet", _CONVERT),
    (rb"ARROW1\0\0", "an Arrow file (.arrow, .feather)", "write it as Parquet, and convert that with `ark convert`"),
    (rb".{257}ustar(?:\0|  \0)", "a tar file, such as WebDataset (.tar)", _CONVERT),
    (rb".{3}\0{5}\{\"", "a safetensors file", _CONVERT),
    (_TEXT_START + rb"(?:\{\s*(?:\"|}\s*\Z)|\[\s*[{\"])", "a JSON file", _READ_MANIFEST),
    (_TEXT_START + rb"(?i:<(?:!doctype|!--|html|head|body|\?xml)[\s>])", "a document in HTML or XML", _DOWNLOAD),
    (
        rb"\x80[\x02-\x05]",
        "a pickle of Python",
        "save its arrays with io_ark.save, because pickles can run any program and are not read",
    ),
    (rb"\x08[\x03-\x1f]\x12.[A-Za-z]", "an ONNX model", ""),
    (rb"\x89PNG\r\n|\xff\xd8\xff", "a picture", ""),
    (rb"%PDF-[0-9]", "a PDF document", ""),
    (rb"\x7fELF|#! ?/", "a program", ""),
    (rb"SQLite format 3\0", "a database (SQLite)", ""),
    (rb"MATLAB 5\.0 MAT", "a MATLAB file", "load it with scipy.io.loadmat"),
    (rb"\xff\xfe[^\0]\0|\xfe\xff\0[^\0]", "text in UTF-16", "convert it with 'iconv -f UTF-16 -t UTF-8'"),
    (rb".{4}ftyp|\x1a\x45\xdf\xa3", "a file of MP4 (.m4a) or Matroska (.webm)", _DECODE),
)
_COMPRESSIONS = (
    (rb"\x1f\x8b", "gzip", "gunzip -c"),
    (rb"BZh[1-9]1AY&SY", "bzip2", "bunzip2 -c"),
    (rb"\xfd7zXZ\0", "xz", "xz -dc"),
    (rb"\x28\xb5\x2f\xfd", "zstd", "zstd -dc"),
)
_CONTRASTS = {"object": "", "ark": ", not an archive", "scp": ", not a script file"}
# The joined pattern has no groups, so that re can skip an alternative by its first byte.
_FOREIGN = re.compile(b"|".join(pattern for pattern, _, _ in (*_FORMATS, *_COMPRESSIONS)), re.DOTALL)
_CONFIGURATION = re.compile(rb"(?:\s*#[^\n]*\n)*\s*--[A-Za-z][\w-]*(?:=|\s*\n)")


def refuse_foreign_file(source: Source, expected: Expected) -> None:
    """Raise FormatError if a source is at its start and is a file of another program (see :func:`refuse_foreign_head`).

    A pipe is checked as soon as its first byte arrives, so the check may see only a part of :data:`HEAD_BYTES`.
    """
    if not source.tell() and not source.at_end():
        refuse_foreign_head(source.peek_buffered(HEAD_BYTES), source.name, expected)


def refuse_foreign_head(head: bytes, name: str, expected: Expected) -> None:
    r"""Raise :class:`FormatError`, with advice, if the first bytes of a file show a format that Kaldi cannot read.

    Compressed files are refused as well, and so are configuration files if a table is expected, and binary files if a
    script file is expected. As in Kaldi, a byte-order mark before a table is read as a part of the first key, but a
    warning is logged.

    Args:
        head: the first bytes of the file, up to :data:`HEAD_BYTES`.
        name: name of the file, which the advice contains.
        expected: "object" for a single object, "ark" for an archive, or "scp" for a script file.
    """
    reason = ""
    if _FOREIGN.match(head):
        reason = _describe_foreign_format(head, name, expected)
    elif expected != "object" and _CONFIGURATION.match(head):
        reason = f"is a configuration file (--name=value){_CONTRASTS[expected]}: name another file"
    elif expected == "scp" and b"\0" in head.partition(b"\n")[0]:
        reason = BINARY_SCRIPT
    if reason:
        raise FormatError(reason, file=name, offset=0)
    if head.startswith(BYTE_ORDER_MARK) and expected != "object":
        logger.warning(r"%s: starts with a byte-order mark, which is read as a part of the first key: remove it with "
                       r"sed -i '1s/^\xef\xbb\xbf//'", name)  # fmt: skip


def _describe_foreign_format(head: bytes, name: str, expected: Expected) -> str:
    """Return the message about a file whose first bytes ``head`` show a format of ``_FORMATS`` or a compression.

    For ``name`` and ``expected``, see :func:`refuse_foreign_head`.
    """
    for start, format_name, advice in _FORMATS:
        if re.match(start, head, re.DOTALL):
            return f"is {format_name}{_CONTRASTS[expected]}: {advice or 'name another file'}"
    format_name, command = next(names for start, *names in _COMPRESSIONS if re.match(start, head))
    command = f"{name} {command} |" if name.endswith("|") else f"{command} {quote(name)} |"
    prefix = "" if expected == "object" else f"{expected}:"
    return f"is compressed with {format_name}: read it as '{prefix}{command}'"
