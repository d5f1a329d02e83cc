"""Lists of dimensions on the command line."""

from __future__ import annotations

import re

from kaldi_compat.errors import OptionError


def parse_dims(text: str, name: str) -> list[int]:
    """The dimensions in a list like ``13:14:15``; none of an empty text.

    Raises:
        OptionError: it is no such list; ``name`` says what was to be one.
    """
    if not text:
        return []
    if not re.fullmatch(r"[+-]?\d+(:[+-]?\d+)*", text, re.ASCII):
        raise OptionError(f"{name}: expected integers with colons between, such as 13:14:15, but found {text!r}")
    return [int(each) for each in text.split(":")]
