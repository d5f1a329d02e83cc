"""Arguments and text files may have integers of thousands of digits, for which int() raises a ValueError."""

from __future__ import annotations

from pathlib import Path

import pytest

from kaldi_compat.cli.alignments import read_phone_map, read_symbols
from kaldi_compat.cli.dims import parse_dims
from kaldi_compat.errors import OptionError
from kaldi_compat.programs.select_feats import parse_selection

MANY_DIGITS = "9" * 5000
PADDED_TWO = "0" * 5000 + "2"


def write_lines(folder: Path, text: str) -> str:
    path = folder / "lines"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("number", [MANY_DIGITS, f"-{MANY_DIGITS}"], ids=["positive", "negative"])
def test_dimension_of_many_digits_is_refused(number: str) -> None:
    with pytest.raises(OptionError, match="--skip-dims: expected a colon-separated list of integers"):
        parse_dims(f"1:{number}", "--skip-dims")


@pytest.mark.parametrize(
    ("selection", "message"), [(MANY_DIGITS, "Invalid range start"), (f"0-{MANY_DIGITS}", "Invalid range end")]
)
def test_column_of_many_digits_is_refused(selection: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_selection(selection, 3)


@pytest.mark.parametrize("pair", [f"1 {MANY_DIGITS}", f"{MANY_DIGITS} 1"])
def test_phone_of_many_digits_is_refused(tmp_path: Path, pair: str) -> None:
    with pytest.raises(OptionError, match="line 1: expected an old phone and a new phone"):
        read_phone_map(write_lines(tmp_path, f"{pair}\n"))


def test_leading_zeros_of_a_number_are_ignored(tmp_path: Path) -> None:
    assert parse_dims(f"1:{PADDED_TWO}", "--skip-dims") == [1, 2]
    assert parse_selection(PADDED_TWO, 3) == [2]
    assert read_phone_map(write_lines(tmp_path, f"1 {PADDED_TWO}\n")) == {1: 2}
    assert read_symbols(write_lines(tmp_path, f"a {PADDED_TWO}\nb {MANY_DIGITS}\n")) == {2: "a", 2**64: "b"}
