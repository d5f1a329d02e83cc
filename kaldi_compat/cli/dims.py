"""Parse lists of dimensions on the command line."""

from __future__ import annotations

import re

from io_ark.text import parse_integer
from kaldi_compat.errors import OptionError
from kaldi_compat.options.base import INT32


def parse_dims(text: str, name: str) -> list[int]:
    """Parse a list of dimensions such as ``13:14:15``. An empty string gives an empty list.

    Raise OptionError, whose message starts with ``name``, if the string is not a list of 32-bit integers.
    """
    if not text:
        return []
    is_list = re.fullmatch(r"\s*[+-]?\d+(:\s*[+-]?\d+)*", text, re.ASCII)
    dims = [parse_integer(dim.strip()) for dim in text.split(":")] if is_list else []
    if not dims or not all(dim in INT32 for dim in dims):
        raise OptionError(f"{name}: expected a colon-separated list of integers such as 13:14:15, not {text!r}")
    return dims
