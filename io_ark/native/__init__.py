"""Optional C library of the codecs, for decoding and encoding that takes several passes in NumPy."""

from __future__ import annotations

import os

from io_ark.native.library import Library as Library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from io_ark.native.signatures import Signatures

    NATIVE: Signatures
    """Functions of the library. They check the types of their arguments. Callers must ensure the sizes."""


def library() -> Library:
    """Return the C library of ``io_ark``. If it cannot be used, its truth value is False, and ``reason`` says why."""
    from io_ark.native import NATIVE  # The first import calls __getattr__ below.

    return NATIVE.library()


def __getattr__(name: str) -> object:
    """Create :data:`NATIVE` when it is first used."""
    if name != "NATIVE":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from io_ark.native.signatures import Signatures  # Imported here, because it imports NumPy, which takes long.

    globals()[name] = signatures = Signatures(os.path.dirname(os.path.abspath(__file__)))
    return signatures
