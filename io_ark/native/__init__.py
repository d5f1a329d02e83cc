"""Optional C library of the codecs: decoding and encoding that NumPy does in several passes."""

from __future__ import annotations

from pathlib import Path

from io_ark.native.library import Library, load

__all__ = ["library"]


def library() -> Library:
    """Return the library of this package; false if it was not built or is switched off."""
    return load(str(Path(__file__).parent))
