"""The exact engine in C (optional): features with the bits of Kaldi, one frame per SIMD lane."""

from __future__ import annotations

from pathlib import Path

from io_ark.native.library import Library, load

__all__ = ["library"]


def library() -> Library:
    """Return the library of this package; false if it was not built or is switched off."""
    return load(str(Path(__file__).parent))
