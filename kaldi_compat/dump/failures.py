"""Failed utterances, described in short lines that a terminal can show."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

MAX_REASON_CHARACTERS = 400  # A message may contain a command with millions of characters.

# Files, offsets and times in a reason, which differ between utterances.
_PARTICULARS = re.compile(r"\S*/\S*(?: \S*/\S*)*|\S+\.\w{1,5}:(?:[0-9]+:)?|[0-9]+\.[0-9]+")


def by_reason(failures: Iterable[tuple[str, str]]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Group failures (key and reason) with similar reasons. The largest groups come first.

    Returns:
        the common reason of each group, with an ellipsis for files, offsets and times, and the failures.

    >>> by_reason([("a", "it is empty"), ("b", "/d/b.wav: No such file"), ("c", "/d/c.wav: No such file")])[0]
    ('… No such file', [('b', '/d/b.wav: No such file'), ('c', '/d/c.wav: No such file')])
    """
    groups = defaultdict[str, list[tuple[str, str]]](list)
    for key, reason in failures:
        groups[_PARTICULARS.sub("…", reason)].append((key, reason))
    return sorted(groups.items(), key=lambda group: -len(group[1]))


def reason_for(key: str, message: str) -> str:
    """Return an error message without the utterance's key, to be shown after the key.

    >>> reason_for("utt1", "Failed to compute features for utterance utt1: it is empty")
    'Failed to compute features: it is empty'
    """
    name = re.escape(key)
    message = re.sub(rf"^(?:File with id|File:?|Segment)? ?{name}(?:: | )", "", message)
    return re.sub(rf" (?:\({name}\)|(?:for )?(?:utterance|utterance-id \(or speaker-id\)) {name}(?!\S*/))", "", message)


def shorten(text: str) -> str:
    """Return a text, without its middle if the text is long."""
    if len(text) <= MAX_REASON_CHARACTERS:
        return text
    return f"{text[: MAX_REASON_CHARACTERS // 2]} … {text[-MAX_REASON_CHARACTERS // 2 :]}"
