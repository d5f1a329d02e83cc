"""Failed utterances, described in short lines that a terminal can show."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from io_ark.text import printable

LONGEST_REASON = 400  # characters; commands may have millions

# Parts of a reason that differ from utterance to utterance: files, offsets, times.
_PARTICULARS = re.compile(r"\S*/\S*(?: \S*/\S*)*|\S+\.\w{1,5}:(?:[0-9]+:)?|[0-9]+\.[0-9]+")


class Reason(NamedTuple):
    """A reason that several utterances failed for.

    Attributes:
        utterances: their number.
        text: the reason, with an ellipsis for files and times.
        first: the key of the first of them.
    """

    utterances: int
    text: str
    first: str


def by_reason(failures: Iterable[tuple[str, str]]) -> list[Reason]:
    """Group failures, given as key and reason, by what they have in common; the most frequent come first.

    >>> by_reason([("a", "/d/a.wav: No such file"), ("b", "/d/b.wav: No such file"), ("c", "it is empty")])
    [Reason(utterances=2, text='… No such file', first='a'), Reason(utterances=1, text='it is empty', first='c')]
    """
    found: dict[str, Reason] = {}
    for key, reason in failures:
        text = shape_of_reason(reason)
        count, _, first = found.get(text, Reason(0, text, key))
        found[text] = Reason(count + 1, text, first)
    return sorted(found.values(), key=lambda reason: -reason.utterances)


def shape_of_reason(reason: str) -> str:
    """Return a reason with an ellipsis for files, offsets and times: what utterances of a group have in common."""
    return _PARTICULARS.sub("…", reason)


def reason_for(key: str, message: str) -> str:
    """Return an error message as the reason to show after an utterance's key: short, printable, without the key.

    >>> reason_for("utt1", "Failed to compute features for utterance utt1: it is empty")
    'Failed to compute features: it is empty'
    """
    name = re.escape(key)
    message = re.sub(rf"^(?:File with id|File:?|Segment)? ?{name}(?:: | )", "", message)
    message = re.sub(
        rf" (?:\({name}\)|(?:for )?(?:utterance|utterance-id \(or speaker-id\)) {name}(?!\S*/))", "", message
    )
    return printable(shortened(message))


def shortened(text: str) -> str:
    """Return a text, without its middle if it is long."""
    if len(text) <= LONGEST_REASON:
        return text
    return f"{text[: LONGEST_REASON // 2]} … {text[-LONGEST_REASON // 2 :]}"
