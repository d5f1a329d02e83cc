"""Lists of dimensions on the command line."""

from __future__ import annotations

import re

from kaldi_compat.errors import OptionError


def parse_dims(text: str, name: str) -> list[int]:
    """Parse a list of dimensions such as ``13:14:15``; an empty string has none.

    Raises:
        OptionError: the string is not such a list; the message starts with ``name``.
    """
    if not text:
        return []
    if not re.fullmatch(r"[+-]?\d+(:[+-]?\d+)*", text, re.ASCII):
        raise OptionError(f"{name}: expected a colon-separated list of integers such as 13:14:15, not {text!r}")
    return [int(each) for each in text.split(":")]
