"""``ark plot`` draws into files."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

import io_ark
from io_ark.cli import plot
from io_ark.streams.access import Access
from tests.support.ark_program import Ark


@pytest.fixture(autouse=True)
def table(ark: Ark) -> None:
    with io_ark.writer("ark,scp:a.ark,a.scp") as writer:
        writer["matrix"] = np.arange(40, dtype=np.float32).reshape(10, 4)
        writer["vector"] = np.arange(30, dtype=np.float32)
        writer["audio"] = io_ark.Wave(8000.0, np.arange(-400, 400, dtype=np.int16).reshape(1, -1))
        writer["word"] = "anna"


def test_picture_file_has_a_panel_for_each_key(ark: Ark) -> None:
    pytest.importorskip("matplotlib")
    ark("plot -o one.png a.scp matrix")
    ark("plot -o three.png --frame-shift=10 a.scp matrix vector audio")
    heights = [struct.unpack(">II", Path(name).read_bytes()[16:24])[1] for name in ("one.png", "three.png")]
    assert heights[1] > 2 * heights[0]


@pytest.mark.parametrize(("shift", "end", "unit"), [(0.0, 29.0, "element"), (0.01, 0.29, "time in seconds")])
def test_elements_of_a_vector_are_drawn_at_their_times(shift: float, end: float, unit: str) -> None:
    figures = pytest.importorskip("matplotlib.figure")
    axes = figures.Figure().subplots()
    plot._draw_entry(axes, plot._entry("a.scp", "vector", Access()), shift)
    assert axes.lines[0].get_xdata()[-1] == pytest.approx(end)
    assert axes.get_xlabel() == unit


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("-o x.png a.scp word", "a.scp: word: a token cannot be drawn"),
        ("-o x.png a.scp nobody", "the table has no such key"),
        ("-o x.nonsense a.scp matrix", "x.nonsense: Format 'nonsense' is not supported"),
    ],
)
def test_what_cannot_be_drawn_gives_one_line(arguments: str, said: str, ark: Ark) -> None:
    pytest.importorskip("matplotlib")
    message = ark(f"plot {arguments}", 2).err
    assert said in message and message.count("\n") == 1
