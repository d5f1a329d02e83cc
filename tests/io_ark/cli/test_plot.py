"""``ark plot`` draws into files and terminals."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

import io_ark
from io_ark.cli import plot, terminal
from io_ark.cli.terminal import blocks, graphics_protocol
from io_ark.streams.access import Access
from tests.support.ark_program import Ark


@pytest.fixture(autouse=True)
def table(ark: Ark, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KITTY_WINDOW_ID", "TERM_PROGRAM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
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
        ("a.scp matrix", "standard output is not a terminal: add -o FILE.png"),
        ("-o x.png a.scp word", "a.scp: word: a token cannot be drawn"),
        ("-o x.png a.scp nobody", "the table has no such key"),
        ("-o x.nonsense a.scp matrix", "x.nonsense: Format 'nonsense' is not supported"),
    ],
)
def test_what_cannot_be_drawn_gives_one_line(arguments: str, said: str, ark: Ark) -> None:
    pytest.importorskip("matplotlib")
    message = ark(f"plot {arguments}", 2).err
    assert said in message and message.count("\n") == 1


def test_blocks_show_the_largest_value_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.zeros((4, 6))
    values[1, 4] = 1.0
    first, second = blocks(values, 80, 20)
    assert first.rstrip()[:-1] == "    " and second.strip() == ""
    monkeypatch.setattr(terminal, "has_colours", lambda: True)
    first, second = blocks(values, 80, 20)
    assert "48;2;253;231;37m" in first and "253;231;37" not in second  # yellow, in the lower half of the first line


def test_blocks_fit_into_the_terminal() -> None:
    lines = blocks(np.random.default_rng(0).normal(size=(83, 1000)), 72, 20)
    assert len(lines) == 20 and {len(line) for line in lines} == {72}
    assert len(blocks(np.full((3, 5), np.nan), 72, 20)) == 2


def test_terminal_protocol_follows_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert graphics_protocol() == "blocks"
    monkeypatch.setenv("TERM_PROGRAM", "iTerm.app")
    assert graphics_protocol() == "iterm"
    monkeypatch.setenv("TERM", "xterm-kitty")
    assert graphics_protocol() == "kitty"


@pytest.mark.parametrize(("protocol", "start"), [("kitty", "\x1b_Ga=T,f=100,m="), ("iterm", "\x1b]1337;File=inline=1")])
def test_terminals_with_pictures_get_the_png(
    protocol: str, start: str, monkeypatch: pytest.MonkeyPatch, ark: Ark
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("io_ark.cli.plot.graphics_protocol", lambda: protocol)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert start in ark("plot a.scp matrix").out


def test_other_terminals_get_characters_and_need_no_matplotlib(monkeypatch: pytest.MonkeyPatch, ark: Ark) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    out = ark("plot a.scp matrix vector").out
    assert "matrix: matrix 10 x 4" in out and "0 (dark) to 39 (bright)" in out and "@" in out
