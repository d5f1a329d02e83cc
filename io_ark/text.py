"""Words of a line, as Kaldi tells them apart."""

from __future__ import annotations

import re

WHITE_SPACE = " \t\n\v\f\r"
_SPACE = re.compile(r"\s+", re.ASCII)


def split_words(line: str, splits: int = 0) -> list[str]:
    """The words that ASCII white space stands between. (``str.split`` goes by Unicode's, which Kaldi lets stand.)

    Args:
        line: the line.
        splits: after so many words the rest of the line is one word; 0 for no limit.

    >>> split_words("utt1\\twith\\u3000wide\\u00a0space ")
    ['utt1', 'with\\u3000wide\\xa0space']
    >>> split_words("utt1 some  text ", 1)
    ['utt1', 'some  text']
    """
    inner = line.strip(WHITE_SPACE)
    return _SPACE.split(inner, splits) if inner else []
