"""Tests of select-feats that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaldi_compat.errors import OptionError
from kaldi_compat.programs import select_feats


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=5))
def test_ranges_run_in_both_directions(ranges: list[tuple[int, int]]) -> None:
    expected = [c for a, b in ranges for c in (range(a, b + 1) if a <= b else range(a, b - 1, -1))]
    assert select_feats.selected(",".join(f"{a}-{b}" for a, b in ranges), 10) == expected


def test_one_comma_at_the_end_is_ignored() -> None:
    # std::getline in select-feats.cc gives no empty last part
    assert select_feats.selected("2,0-1,", 3) == [2, 0, 1]


def test_start_is_cut_to_the_length_of_the_end_as_in_kaldi(caplog: pytest.LogCaptureFixture) -> None:
    # istringstream(token.substr(0, token.length() - p - 1)) in select-feats.cc
    assert select_feats.selected("10-8", 20) == list(range(1, 9))
    assert "Kaldi reads the selection 10-8 as 1-8" in caplog.text


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ("", "No ranges or indices"),
        ("1-", "no number after the hyphen"),
        ("3", "Invalid range start: 3"),
        ("0-3", "Invalid range end: 3"),
        ("--1", "Invalid range end: -1"),
        # Kaldi's program reads memory that is not set: 1,,2 gave 1,1,2 once.
        (",2", "a number is missing"),
        ("1,,2", "a number is missing"),
        ("1, ,2", "a number is missing"),
        ("1,-,2", "no number after the hyphen"),
        ("1- ,2", "a number is missing"),
    ],
)
def test_selections_that_kaldi_refuses_or_makes_up_are_refused(selection: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        select_feats.selected(selection, 3)


@pytest.mark.parametrize(
    ("selection", "columns"),
    # What Kaldi's program writes: of each number it parses as much as looks like one, else it is 0.
    [("-3", [0, 1, 2, 3]), ("3-5-", [3, 4, 5]), ("a", [0]), ("1.5", [1])],
)
def test_odd_selections_are_parsed_as_in_kaldi(
    selection: str, columns: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    assert select_feats.selected(selection, 13) == columns
    assert "Kaldi reads the selection" in caplog.text
