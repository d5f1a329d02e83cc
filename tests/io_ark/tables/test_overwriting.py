"""Outputs that are inputs as well: what only the function shows, beside the programs that refuse them."""

from __future__ import annotations

import os
from pathlib import Path

from io_ark.tables.overwriting import overwritten_input


def test_file_on_standard_input_is_an_input(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "b").touch()
    before = os.dup(0)
    try:
        with open(tmp_path / "a") as file:
            os.dup2(file.fileno(), 0)
        found = [overwritten_input(f"ark:{tmp_path / name}", ["ark:-"]) for name in "ab"]
    finally:
        os.dup2(before, 0)
        os.close(before)
    assert [bool(each) for each in found] == [True, False]
