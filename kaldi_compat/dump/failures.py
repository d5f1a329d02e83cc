"""Failed utterances, described in short lines that a terminal can show."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

LONGEST_REASON = 400  # characters; commands may have millions

# Parts of a reason that differ from utterance to utterance: files, offsets, times.
_PARTICULARS = re.compile(r"\S*/\S*(?: \S*/\S*)*|\S+\.\w{1,5}:(?:[0-9]+:)?|[0-9]+\.[0-9]+")


def by_reason(failures: Iterable[tuple[str, str]]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Group failures, given as key and reason, by what they have in common; the largest groups come first.

    Returns:
        the reason of each group, with an ellipsis for files, offsets and times, and the group.

    >>> by_reason([("a", "it is empty"), ("b", "/d/b.wav: No such file"), ("c", "/d/c.wav: No such file")])[0]
    ('… No such file', [('b', '/d/b.wav: No such file'), ('c', '/d/c.wav: No such file')])
    """
    found = defaultdict[str, list[tuple[str, str]]](list)
    for key, reason in failures:
        found[_PARTICULARS.sub("…", reason)].append((key, reason))
    return sorted(found.items(), key=lambda group: -len(group[1]))


def reason_for(key: str, message: str) -> str:
    """Return an error message as the reason to show after an utterance's key, without the key.

    >>> reason_for("utt1", "Failed to compute features for utterance utt1: it is empty")
    'Failed to compute features: it is empty'
    """
    name = re.escape(key)
    message = re.sub(rf"^(?:File with id|File:?|Segment)? ?{name}(?:: | )", "", message)
    return re.sub(rf" (?:\({name}\)|(?:for )?(?:utterance|utterance-id \(or speaker-id\)) {name}(?!\S*/))", "", message)


def shorten(text: str) -> str:
    """Return a text, without its middle if it is long."""
    if len(text) <= LONGEST_REASON:
        return text
    return f"{text[: LONGEST_REASON // 2]} … {text[-LONGEST_REASON // 2 :]}"
