"""``ark head``, ``grep``, ``stat``, ``--json``, colours and the pager."""

from __future__ import annotations

import gzip
import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import kaldiio
import numpy as np
import pytest
from _pytest.capture import CaptureResult

import io_ark
from io_ark.cli import terminal
from io_ark.cli.ark import main
from io_ark.cli.check import check_table
from io_ark.cli.entries import StoredEntry
from io_ark.specifier import Rspecifier
from io_ark.streams.access import Access
from tests.support.ark_program import Ark

FEATS = {f"utt{i}": np.full((5 + i, 3), i, "f4") for i in range(12)}
ARK = [sys.executable, "-m", "io_ark.cli.ark"]


@pytest.fixture(autouse=True)
def table(ark: Ark) -> None:
    kaldiio.save_ark("feats.ark", FEATS, scp="feats.scp")


def keys(listed: CaptureResult[str]) -> list[str]:
    return [line.split("\t")[0] for line in listed.out.splitlines()]


def test_head_reads_no_more_than_it_prints(ark: Ark) -> None:
    Path("endless.scp").write_text(Path("feats.scp").read_text() + "last touch ran; false |\n")
    assert keys(ark("head -n 2 endless.scp")) == ["utt0", "utt1"]
    assert not Path("ran").exists()
    assert len(keys(ark("head feats.ark"))) == 10


@pytest.mark.parametrize(
    "command",
    [
        "convert feats.ark o.jsonl --frame-shift 0",
        "convert feats.ark o.jsonl --sample-frequency=-5",
        "convert feats.ark o.jsonl --sample-frequency 0.5",
        "diff feats.ark feats.ark --tolerance nan",
        "diff feats.ark feats.ark --tolerance=-1",
    ],
)
def test_impossible_numbers_are_refused(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(command.split())
    assert "number" in capsys.readouterr().err


def test_count_beyond_any_list_is_no_limit(ark: Ark) -> None:
    assert ark(f"head -n {'9' * 30} feats.scp") == ark("ls feats.scp")
    assert ark(f"head -n {'9' * 5000} feats.scp") == ark("ls feats.scp")


def test_compressed_archive_is_named_as_such(ark: Ark) -> None:
    Path("a.ark").write_bytes(gzip.compress(Path("feats.ark").read_bytes()))
    for command, status in ("ls", 2), ("stat", 2), ("check", 1):
        printed = ark(f"{command} a.ark", status)
        assert "is compressed with gzip: read it as 'ark:gunzip -c a.ark |'" in printed.out + printed.err


def test_grep_selects_keys(ark: Ark) -> None:
    assert keys(ark("grep '^UTT1[01]$' -i feats.scp")) == ["utt10", "utt11"]
    assert "utt1" not in keys(ark("grep -v 1 feats.scp"))
    ark("grep nobody feats.scp", 1)
    assert "is not a regular expression" in ark("grep '(' feats.scp", 2).err


@pytest.mark.parametrize("tail", [bytes(500), b"utt99", b"a\x0b"])
def test_entries_before_an_unreadable_key_are_used(tail: bytes, ark: Ark) -> None:
    with open("feats.ark", "ab") as archive:
        archive.write(tail)
    said = ark("ls feats.ark", 1)
    assert len(said.out.splitlines()) == 13 and said.out.splitlines()[-1].startswith("-\tunreadable\tfeats.ark:")
    assert keys(ark("grep utt1 feats.ark", 1))[:-1] == ["utt1", "utt10", "utt11"]
    assert "unreadable" in ark("grep -v .* feats.ark", 1).out
    said = ark("convert feats.ark feats.npz", 1)
    assert said.err.startswith("ark: feats.ark:") and said.err.endswith("feats.npz: 12 entries, 1 failed\n")
    np.testing.assert_array_equal(np.load("feats.npz")["utt11"], FEATS["utt11"])
    assert "12 keys compared: 12 equal, 0 different, 1 unreadable" in ark("diff feats.ark feats.scp", 1).out
    assert "12 entries, 1 unreadable" in ark("stat feats.ark", 1).out
    assert ark("show feats.ark utt99", 2).err.startswith("ark: feats.ark:")
    Path("tail.ark").write_bytes(tail)
    ark("ls tail.ark", 2)


def test_grep_reports_invalid_lines(ark: Ark) -> None:
    Path("blank.scp").write_text("utt1 feats.ark:5\n\nutt2 feats.ark:5\n")
    assert "blank.scp: line 2 is blank" in ark("grep utt1 blank.scp", 1).out


def test_check_reports_a_truncated_wave_file(ark: Ark, caplog: pytest.LogCaptureFixture) -> None:
    io_ark.save("long.wav", io_ark.Wave(8000.0, np.ones((1, 500), np.int16)))
    Path("cut.wav").write_bytes(Path("long.wav").read_bytes()[:-100])
    Path("wav.scp").write_text("u1 long.wav\nu2 cut.wav\nu3 long.wav\n")
    said = ark("check wav.scp", 1).out
    assert said.startswith("cut.wav: Expected 1000 bytes of wave data, but read only 900 bytes. Truncated file? (u2)\n")
    assert said.endswith("wav.scp: 3 entries read, 1 problem\n") and not caplog.records
    ark("ls wav.scp")


def test_check_names_no_key_of_a_single_truncated_wave_file(ark: Ark) -> None:
    io_ark.save("long.wav", io_ark.Wave(8000.0, np.ones((1, 500), np.int16)))
    Path("cut.wav").write_bytes(Path("long.wav").read_bytes()[:-100])
    assert ark("check cut.wav", 1).out.splitlines()[0].endswith("900 bytes. Truncated file?")


def test_checks_in_two_threads_report_their_own_wave_files(ark: Ark) -> None:
    io_ark.save("long.wav", io_ark.Wave(8000.0, np.ones((1, 500), np.int16)))
    Path("cut.wav").write_bytes(Path("long.wav").read_bytes()[:-100])
    Path("whole.scp").write_text("u1 long.wav\nu2 long.wav\n")
    Path("cut.scp").write_text("u1 cut.wav\n")

    def check_other(entries: Iterable[StoredEntry]) -> Iterator[StoredEntry]:
        for entry in entries:
            if entry.key == "u1":  # The other thread reads its table while this table is being checked.
                other.start()
                other.join()
            yield entry

    found = []
    table, access = Rspecifier("scp", "cut.scp"), Access(True, True)
    other = threading.Thread(target=lambda: found.extend(check_table(table, access).problems))
    assert check_table(Rspecifier("scp", "whole.scp"), access, progress=check_other).problems == []
    assert [message.partition(":")[0] for message in found] == ["cut.wav"]


def test_json_of_ls_show_check_and_stat(ark: Ark) -> None:
    first = json.loads(ark("ls --json feats.scp").out.splitlines()[0])
    assert first == {"key": "utt0", "kind": "matrix", "shape": [5, 3], "stored": "float32", "where": "feats.ark:5"}
    assert json.loads(ark("show --json feats.scp utt1").out)["value"] == FEATS["utt1"].tolist()
    checked = json.loads(ark("check --json feats.scp").out)
    assert checked == {"table": "feats.scp", "entries": 12, "problems": []}
    statistics = json.loads(ark("stat --json feats.scp").out)
    rows = np.concatenate(list(FEATS.values()))
    columns = statistics.pop("columns")["3"]
    assert statistics == {
        "table": "feats.scp", "entries": 12, "unreadable": 0, "stored": {"float32": 12}, "seconds": 0.0,
        "lengths": {"total": len(rows), "smallest": 5, "largest": 16},
    }  # fmt: skip
    moments = {"mean": rows.mean(0), "deviation": rows.std(0), "min": rows.min(0), "max": rows.max(0)}
    for name, expected in moments.items():
        np.testing.assert_allclose(columns[name], expected, rtol=1e-6)
    assert (columns["nan"], columns["infinite"], columns["constant"]) == ([0] * 3, [0] * 3, [])


def test_stat_names_columns_with_nan_infinities_and_constants(ark: Ark) -> None:
    values = np.arange(20, dtype="f4").reshape(5, 4)
    values[0, 1], values[1, 1], values[2, 3], values[:, 2] = np.nan, np.nan, np.inf, 7
    kaldiio.save_ark("bad.ark", {"a": values})
    out = ark("stat bad.ark").out
    assert "NaN: 2 values in column 1\n" in out and "infinite: 1 value in column 3\n" in out
    assert "constant: column 2\n" in out


@pytest.mark.parametrize(("count", "more"), [(10, ""), (11, " and 1 more")])
def test_stat_names_ten_columns(count: int, more: str, ark: Ark) -> None:
    kaldiio.save_ark("bad.ark", {"a": np.full((1, count), np.nan, "f4")})
    names = ", ".join(map(str, range(10)))
    assert f"  NaN: {count} values in columns {names}{more}\n" in ark("stat bad.ark").out


def test_progress_is_printed_every_five_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = iter([0.0, 4.9, 5.0, 5.1, 10.0, 10.1, 10.2])  # Time at the start, and after each item and message.
    monkeypatch.setattr(time, "monotonic", lambda: next(seconds))
    assert list(terminal.show_progress("abcd", "feats.ark")) == [*"abcd"]
    assert capsys.readouterr() == ("", "feats.ark: 2 entries ...\nfeats.ark: 4 entries ...\n")


@pytest.mark.parametrize("state", ["closed", "missing"])
def test_closed_standard_error_is_no_obstacle(
    state: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open(os.devnull, "w") as stream:
        pass
    for line, status in ("stat feats.ark", 0), ("check feats.ark", 0), ("ls feats.ark", 0), ("ls none.ark", 2):
        monkeypatch.setattr(sys, "stderr", None if state == "missing" else stream)
        if state == "missing" or line == "check feats.ark":
            assert main(line.split()) == status
            assert ("entries read" in capsys.readouterr().out) == line.startswith("check")


def in_terminal(*arguments: str, **environment: str) -> str:
    master, slave = pty.openpty()
    cleaned = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "PAGER", "LESS")}
    process = subprocess.Popen(
        [*ARK, *arguments], stdin=slave, stdout=slave, stderr=slave, env={**cleaned, "TERM": "xterm", **environment}
    )
    os.close(slave)
    found = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:
            break
        if not part:
            break
        found += part
    os.close(master)
    assert process.wait() == 0
    return found.decode()


def test_colours_and_pager_are_used_on_a_terminal_only() -> None:
    assert "\x1b[36mutt0\x1b[0m" in in_terminal("ls", "feats.scp", PAGER="")
    assert "\x1b[" not in in_terminal("ls", "feats.scp", PAGER="", NO_COLOR="1")
    assert "\x1b[" not in subprocess.run([*ARK, "ls", "feats.scp"], capture_output=True, text=True, check=True).stdout
    assert "PAGED \x1b[36mutt0" in in_terminal("ls", "feats.scp", PAGER="sed 's/^/PAGED /'")
    assert "PAGED" not in in_terminal("ls", "--json", "feats.scp", PAGER="sed 's/^/PAGED /'")
    assert "\x1b[36mutt0\x1b[0m" in in_terminal("ls", "feats.scp", PAGER="no-such-pager")


def test_leaving_the_pager_early_is_no_error() -> None:
    lines = "".join(f"key{i} feats.ark:5\n" for i in range(20000))
    Path("long.scp").write_text(lines)
    assert "Traceback" not in in_terminal("ls", "long.scp", PAGER="head -n 1")


def test_interrupt_ends_ark_by_the_signal_so_that_a_script_of_a_shell_ends_too() -> None:
    done = subprocess.run([*ARK, "ls", "ark:kill -INT $PPID; sleep 0.2 |"], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")


def test_a_web_page_is_named_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    for text in "<!DOCTYPE html>\n<html lang=en></html>\n", "\n<HTML></HTML>\n", '<?xml version="1.0"?>\n<a/>':
        Path("report.html").write_text(text)
        assert main(["ls", "report.html"]) != 0
        printed = capsys.readouterr()
        assert "report.html:0: is a document in HTML or XML, not an archive" in printed.out + printed.err


def test_a_compressed_script_file_is_named_as_one() -> None:
    Path("feats.scp.gz").write_bytes(gzip.compress(b"a feats.ark:2\n"))
    for read in io_ark.load_scp, lambda name: list(io_ark.read(f"scp:{name}")):
        with pytest.raises(io_ark.ArkError, match=r"is compressed with gzip: .*'scp:gunzip -c feats.scp.gz \|'"):
            read("feats.scp.gz")


def test_closed_streams_are_no_terminals(tmp_path: Path) -> None:
    with (tmp_path / "closed").open("w") as closed:
        pass
    assert not terminal._is_terminal(closed) and not terminal._is_terminal(None)  # type: ignore[arg-type]
