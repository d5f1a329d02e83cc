"""The page of fast paths names what is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/concepts/fast_paths.md").read_text(encoding="utf-8")
# What every library has for its loader.
LOADER = {"native_interface", "simd_levels"}


def test_every_function_in_c_has_a_row() -> None:
    for package in ("io_ark", "kaldi_compat"):
        lines = (ROOT / package / "native/signatures.txt").read_text(encoding="utf-8").splitlines()
        functions = {line.split()[0] for line in lines if not line.startswith(("struct", "#"))} - LOADER
        assert functions
        assert not {each for each in functions if f"`{each}`" not in PAGE}


def test_files_that_the_page_names_exist() -> None:
    tests = re.findall(r"`((?:io_ark|kaldi_compat)/\S+/test_\w+\.py)`", PAGE)
    assert len(tests) > 10
    assert not [each for each in tests if not (ROOT / "tests" / each).exists()]
