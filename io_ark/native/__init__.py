"""Optional C library of the codecs: decoding and encoding that NumPy does in several passes."""

from __future__ import annotations

import os

from io_ark.native.library import Library as Library
from io_ark.native.signatures import Signatures

NATIVE = Signatures(os.path.dirname(os.path.abspath(__file__)))
"""The functions of the library. They check the types of their arguments; the sizes are the callers' duty."""


def library() -> Library:
    """Return the library of this package; false if it was not built or is switched off."""
    return NATIVE.library()
