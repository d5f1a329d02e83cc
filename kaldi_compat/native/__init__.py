"""The exact engine in C (optional): features with the bits of Kaldi, one frame per SIMD lane."""

from __future__ import annotations

import os

import io_ark.native.signatures as signatures

Library = signatures.Library
Structure = signatures.Structure
get_address = signatures.get_address
NATIVE = signatures.Signatures(os.path.dirname(os.path.abspath(__file__)))
library = NATIVE.library
get_function = NATIVE.get_function
get_structure = NATIVE.get_structure
twin = NATIVE.twin


def load_before_tracing() -> None:
    """Load the library now, because torch.compile cannot trace the first look-up, which loads the library."""
    _ = NATIVE.in_use
