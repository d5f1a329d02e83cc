"""Tests of kaldi_compat.cli.segments."""

from __future__ import annotations

import numpy as np
import pytest

from io_ark.blocks import Skip
from io_ark.codecs.wave import Wave
from kaldi_compat.cli.segments import SegmentOptions, cut_segment, parse_segment
from kaldi_compat.errors import AudioError


@pytest.mark.parametrize(
    "line",
    ["", "s r 1", "s r x 2", "s r 1 y", "s r -1 2", "s r 2 1", "s r 1 1", "s r 1 -2", "s r 0 1 x", "s r 0 1 -1",
     "s r 0 1 0 0", "s r nan 1", "s r 0 nan"],
)  # fmt: skip
def test_invalid_lines_are_skipped(line: str) -> None:
    with pytest.raises(Skip, match="Invalid line in segments file"):
        parse_segment(line)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("s r 1", ""),
        ("s r x 2", " [bad start]"),
        ("s r 1 y", " [bad end]"),
        ("s r 0 1 x", " [bad channel]"),
        ("s r 2 1", " [empty or invalid segment]"),
    ],
)
def test_invalid_lines_have_kaldis_warning(line: str, fault: str) -> None:
    with pytest.raises(Skip) as skip:
        parse_segment(line)
    assert str(skip.value) == f"Invalid line in segments file{fault}: {line}"


def test_bounds_and_channels_of_segments() -> None:
    wave = Wave(1000.0, np.arange(2000, dtype=np.int16).reshape(2, 1000))
    options = SegmentOptions()

    def bounds(line: str) -> tuple[int, int]:
        samples = cut_segment(wave, parse_segment(line), options).samples
        return int(samples[0, 0]), int(samples[0, -1])

    assert bounds("s r 0.1 0.5 0") == (100, 499)
    assert bounds("s r 0.1 0.5 1") == (1100, 1499)
    assert bounds("s r 0.1 -1 0") == (100, 999)
    assert bounds("s r 0.1 1.5 0") == (100, 999)
    assert bounds("s r 0.0104 0.5006 0") == (10, 500)
    for wrong in ("s r 0.1 1.6 0", "s r 1.1 2 0", "s r 0.1 0.15 0", "s r 0.1 0.5 2"):
        with pytest.raises(Skip):
            cut_segment(wave, parse_segment(wrong), options)
    with pytest.raises(AudioError, match=r"multiple channels \(2\)"):
        cut_segment(wave, parse_segment("s r 0.1 0.5"), options)


@pytest.mark.parametrize(
    ("line", "warning"),
    [
        ("s r 0.1 1.6 0", "Segment end is too far out of file data range [0,1s]; skipping segment 's r 0.1 1.6 0'"),
        ("s r  .1 1.600", "Segment end is too far out of file data range [0,1s]; skipping segment 's r  .1 1.600'"),
        ("s r 1.1 2 0", "Segment start is out of file data range [0, 1s]; skipping segment 's r 1.1 2 0'"),
        ("s r 0.1 0.15 0", "Segment s too short, skipping it."),
        ("s r 1 1.2 0", "Segment s too short, skipping it."),  # the end of the recording is not outside it
        ("s r 0.1 0.15", "Segment s too short, skipping it."),  # the length is checked before the channel
        ("s r 0.1 0.5 2", "Invalid channel 2 >= 2. Skipping segment s"),
    ],
)
def test_segments_are_skipped_with_kaldis_warning(line: str, warning: str) -> None:
    wave = Wave(1000.0, np.zeros((2, 1000), np.int16))
    with pytest.raises(Skip) as skip:
        cut_segment(wave, parse_segment(line), SegmentOptions(), line)
    assert str(skip.value) == warning


@pytest.mark.parametrize(
    ("times", "kept"),
    [
        # A float 0.1 is greater than the double 0.1, which is what most of these differences are, or nearly.
        ("0 0.1", False), ("0.2 0.3", False), ("0.3 0.4", False), ("0.5 0.6", False), ("0 0.1000000015", True),
        ("0 1.50000001", False), ("0 1.5", True), ("1.00000001 1.2", False), ("0.89999999 -1", True),
    ],
)  # fmt: skip
def test_limits_are_compared_in_kaldis_precision(times: str, kept: bool) -> None:
    # extract-segments.cc compares double with float, in double.
    wave = Wave(8000.0, np.ones((1, 8000), np.int16))
    try:
        cut_segment(wave, parse_segment(f"s r {times}"), SegmentOptions())
    except Skip:
        assert not kept
    else:
        assert kept


def test_a_segment_beyond_the_rounded_limit_is_skipped_as_in_kaldi() -> None:
    # In single precision, 1 + 0.3 is less than the double 1.3. In double precision, the sum of both floats is greater.
    wave, options = Wave(8000.0, np.ones((1, 8000), np.int16)), SegmentOptions(max_overshoot=0.3)
    with pytest.raises(Skip, match="Segment end is too far out of file data range"):
        cut_segment(wave, parse_segment("s r 0.1 1.3"), options)
