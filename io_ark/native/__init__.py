"""Optional C library of the codecs: decoding and encoding that NumPy does in several passes."""

from __future__ import annotations

import os

from io_ark.native.library import Library, load

__all__ = ["FUNCTIONS", "library"]

FUNCTIONS = (
    "ark_compress_arrays",
    "ark_find_objects",
    "ark_from_codes",
    "ark_from_linear",
    "ark_from_percentiles",
    "ark_marshal_pairs",
    "ark_pack_arrays",
    "ark_pack_entries",
    "ark_pack_lists",
    "ark_pack_marshalled",
    "ark_print_entries",
    "ark_print_integers",
    "ark_print_lists",
    "ark_print_marshalled",
    "ark_print_numbers",
    "ark_print_script",
    "ark_read_rows",
    "ark_scan",
    "ark_scan_shapes",
    "ark_scan_waves",
    "ark_sum_compressed",
    "ark_to_bytes",
    "ark_to_percentiles",
    "ark_to_words",
)
"""Functions of the library that this package calls."""


_DIRECTORY = os.path.dirname(os.path.abspath(__file__))


def library() -> Library:
    """Return the library of this package; false if it was not built or is switched off."""
    return load(_DIRECTORY, *FUNCTIONS)
