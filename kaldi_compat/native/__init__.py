"""The exact engine in C (optional): features with the bits of Kaldi, one frame per SIMD lane."""

from __future__ import annotations

import os

from io_ark.native.signatures import Library, Signatures, Structure, address

__all__ = ["NATIVE", "Library", "Structure", "address", "function", "library", "structure", "twin"]

NATIVE = Signatures(os.path.dirname(os.path.abspath(__file__)))
library = NATIVE.library
function = NATIVE.function
structure = NATIVE.structure
twin = NATIVE.twin
