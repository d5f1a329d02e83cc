"""copy-post: posteriors from one table to another, optionally scaled."""

from __future__ import annotations

from dataclasses import dataclass

from kaldi_compat.options import option

USAGE = """
Copies tables of posteriors, optionally scaling them.

Usage: copy-post [options] <post-rspecifier> <post-wspecifier>
e.g.:  copy-post --scale=0.5 ark:1.post ark,t:-
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of copy-post."""

    scale: float = option(1.0, "factor on the posteriors; 0 removes them")
