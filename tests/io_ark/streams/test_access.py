"""Commands and URLs are refused by every function that opens files, by an argument or by the environment."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import io_ark
from io_ark.cli.check import check_table
from io_ark.cli.entries import iterate_entries
from io_ark.errors import ArkError, NetworkRefusedError, PipesRefusedError
from io_ark.specifier import Rspecifier
from io_ark.streams.access import NO_NETWORK_VARIABLE, NO_PIPES_VARIABLE, PRIVATE_VARIABLE, Access
from io_ark.streams.files import OpenFiles
from io_ark.streams.input import open_input
from io_ark.streams.output import open_output

MATRIX = np.eye(2, dtype=np.float32)


class Names(NamedTuple):
    """A command or URL to read, one to write, and a script file and segments that name the first."""

    source: str
    out: str
    script: Path
    segments: Path


# What is called with names, and the arguments pipes and network.
DOORS: list[Callable[..., object]] = [
    lambda at, **no: open_input(at.source, access=Access(**no)),
    lambda at, **no: open_output(at.out, access=Access(**no)),
    lambda at, **no: io_ark.load(at.source, **no),
    lambda at, **no: list(io_ark.read(f"ark:{at.source}", **no)),
    lambda at, **no: list(io_ark.read(f"scp:{at.script}", **no)),
    lambda at, **no: list(io_ark.SequentialReader(f"scp:{at.source}", kind="matrix", **no)),
    lambda at, **no: list(io_ark.SequentialReader(f"scp:{at.script}", kind="matrix", **no)),
    lambda at, **no: io_ark.load_scp(at.source, **no),
    lambda at, **no: io_ark.load_scp(str(at.script), **no)["a"],
    lambda at, **no: io_ark.RandomAccessReader(f"ark:{at.source}", kind="matrix", **no)["a"],
    lambda at, **no: io_ark.RandomAccessReader(f"scp:{at.script}", kind="matrix", **no)["a"],
    lambda at, **no: io_ark.Writer(f"ark:{at.out}", kind="matrix", **no),
    lambda at, **no: io_ark.writer(f"ark:{at.out}", **no),
    lambda at, **no: io_ark.save(at.out, MATRIX, kind="matrix", **no),
    lambda at, **no: io_ark.load_utt2spk(at.source, **no),
    lambda at, **no: io_ark.load_spk2utt(at.source, **no),
    lambda at, **no: io_ark.load_text(at.source, **no),
    lambda at, **no: io_ark.load_segments(at.source, **no),
    lambda at, **no: io_ark.load_segments(at.segments, str(at.script), **no)["s"],
]


REFUSALS = [(what, by) for what in ("pipes", "network") for by in ("argument", "environment")]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_commands_and_urls_are_refused_everywhere(
    refusal: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_refused(DOORS, refusal, tmp_path, monkeypatch)


def check_refused(
    doors: Iterable[Callable[..., object]], refusal: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    what, by = refusal
    made, script, segments = (tmp_path / name for name in ("made", "a.scp", "segments"))
    commands, urls = (f"touch {made} |", f"| touch {made}"), ("https://127.0.0.1:1/a", "s3://bucket/a")
    at = Names(*(commands if what == "pipes" else urls), script, segments)
    script.write_text(f"a {at.source}\n")
    segments.write_text("s a 0 1\n")
    variable = NO_PIPES_VARIABLE if what == "pipes" else NO_NETWORK_VARIABLE
    if by == "environment":
        monkeypatch.setenv(variable, "1")
    for door in doors:
        with pytest.raises(ArkError, match=f"{what}=False" if by == "argument" else variable) as refused:
            door(at, **({what: False} if by == "argument" else {}))
        expected = PipesRefusedError if what == "pipes" else NetworkRefusedError
        assert expected in (type(refused.value), type(refused.value.__cause__))
    assert not made.exists()


def test_no_door_to_a_script_file_reaches_a_private_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = check_private_addresses(DOORS, 5, tmp_path, monkeypatch)
    assert "private network" in check_table(Rspecifier("scp", script), Access()).problems[0]
    assert "private network" in str(next(iter(iterate_entries(Rspecifier("scp", script), Access()))).error)
    with pytest.raises(NetworkRefusedError, match="private network"):
        OpenFiles().get_file("http://127.0.0.1:1/a.ark")


def check_private_addresses(
    doors: Iterable[Callable[..., object]], at_least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """Check that those of the functions that read a script file refuse its URL; return the script file."""
    pytest.importorskip("fsspec")
    pytest.importorskip("aiohttp")
    monkeypatch.setenv(PRIVATE_VARIABLE, "0")
    at = Names(str(tmp_path / "nosuch"), str(tmp_path / "out"), tmp_path / "a.scp", tmp_path / "segments")
    at.script.write_text("a http://127.0.0.1:1/a.ark:5\n")
    at.segments.write_text("s a 0 1\n")
    refused = 0
    for door in doors:
        try:
            door(at)
        except ArkError as error:
            if "nosuch" not in str(error):
                refused += "private network" in str(error)
                assert "private network" in str(error)
    assert refused >= at_least
    return str(at.script)


def test_variable_set_to_zero_allows_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NO_PIPES_VARIABLE, "0")
    with open_input("echo x |") as opened:
        assert opened.source.read_rest() == b"x\n"
