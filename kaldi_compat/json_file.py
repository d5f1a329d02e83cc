"""Reader of JSON files that users or other programs wrote.

It reads only regular files of bounded size, and refuses documents that have two meanings. Does not import NumPy.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from typing import Any

MAX_FILE_BYTES = 1 << 26  # Largest size of a JSON file. A preset or a file of statistics is far smaller.
MAX_DIGITS = 308  # Largest number of digits of an integer. With more digits, it may be infinite in double precision.
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


def read_regular_file(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a regular file. Raise an error for a pipe instead of waiting for its content.

    Raises:
        OSError: the file cannot be read, is not a regular file, or has more than :data:`MAX_FILE_BYTES`.
    """
    # Without O_NONBLOCK, open() would wait forever for a pipe that nobody writes to.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file: pass the path of a file, not of a pipe or a device")
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise OSError(errno.EFBIG, f"the file has more than {MAX_FILE_BYTES >> 20} MiB: pass a smaller file")
    return content


def parse_json(content: bytes) -> Any:
    """Parse a JSON document in UTF-8, and return its value.

    Raises:
        ValueError: the document is not valid, starts with a byte-order mark, repeats a key of an object, has an integer
            of more than 308 digits, or is nested too deeply. The message says what to do.
    """
    if content.startswith(_BYTE_ORDER_MARKS):
        raise ValueError("the file starts with a byte-order mark: save it as UTF-8 without a byte-order mark")
    try:
        return json.loads(content.decode("utf-8"), object_pairs_hook=_make_object, parse_int=_parse_integer)
    except RecursionError:
        raise ValueError("the document is nested too deeply: nest fewer lists and objects") from None


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the dictionary of an object's keys and values. Raise ValueError if a key is repeated."""
    values = dict(pairs)
    if len(values) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated_key = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {json.dumps(repeated_key)} occurs twice: delete one of the two entries")
    return values


def _parse_integer(text: str) -> int:
    """Parse an integer of a JSON document. Raise ValueError if it has more than :data:`MAX_DIGITS` digits."""
    digit_count = len(text.removeprefix("-"))
    if digit_count > MAX_DIGITS:
        raise ValueError(f"an integer has {digit_count} digits: write a number of at most {MAX_DIGITS} digits")
    return int(text)
