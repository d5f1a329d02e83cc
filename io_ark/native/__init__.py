"""Optional C library of the codecs: decoding and encoding that NumPy does in several passes."""

from __future__ import annotations

import os

from io_ark.native.library import Library as Library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from io_ark.native.signatures import Signatures

    NATIVE: Signatures
    """The functions of the library. They check the types of their arguments; the sizes are the callers' duty."""


def library() -> Library:
    """Return the library of this package; false if it was not built or is switched off."""
    from io_ark.native import NATIVE

    return NATIVE.library()


def __getattr__(name: str) -> object:
    if name != "NATIVE":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from io_ark.native.signatures import Signatures  # which imports NumPy

    globals()[name] = made = Signatures(os.path.dirname(os.path.abspath(__file__)))
    return made
