"""Exit statuses where Kaldi's programs lose data and end with 0, or cannot say what is wrong, are those of the page."""

from __future__ import annotations

import re
import shlex
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

import io_ark
from tests.support.output_order import write_inputs
from tests.support.programs import run_words

PAGE = (Path(__file__).parents[3] / "docs" / "programs.md").read_text()
ROWS = PAGE.split("| status of our programs |\n|---|---|---|\n")[1].split("\n\n")[0].splitlines()
# For each row of the page's table, in order: commands, and what they log.
CASES: list[dict[str, str]] = [
    {"copy-feats ark:f.ark 'ark:| cat > out; exit 3'": "the output is incomplete"},
    {
        "copy-feats 'scp:cat f.scp; exit 3 |' ark:out": "the table may be incomplete",
        "select-voiced-frames ark:m 'scp:cat v.scp; exit 3 |' ark:out": "the table may be incomplete",
    },
    {"copy-feats ark:trail.ark ark:out": "trail.ark:[0-9]+: "},
    {
        "copy-feats-to-htk ark:f.ark": "Could not write to HTK feature file: ./b.fea: Is a.*\n.*2 HTK",
        "copy-feats-to-sphinx ark:f.ark": "Could not write to Sphinx feature file: ./b.mfc: Is a.*\n.*2 Sphinx",
    },
    {"compute-fbank-feats --vtln-warp=nan scp:wav.scp ark:out": "must be positive, not nan"},
    {
        "copy-feats 'ark:cat f.ark; exit 3 |' ark:out": "the table may be incomplete",
        "compare-feats ark:f.ark ark:longer.ark": "a: 2 frames in the first table, but 3 in the second",
        "wav-copy scp:zero.scp ark:out": "zero.wav",
        "copy-feats ark:f.ark ark:-": "standard output: .* it is closed",
    },
    {
        "copy-feats 'ark,p:printf k |' ark:out": "printf k |: ",
        "copy-feats ark:f.ark:99999 ark:out": "f.ark:99999: the offset is beyond the end",
        "copy-feats ark:- ark:out": "standard input: .* it is closed",
    },
]
# Statuses that the page describes outside of the table.
OTHER_CASES: list[tuple[str, str, str]] = [
    ("0", "copy-feats scp:entry.scp ark:out", "WARNING .* had nonzero return status 768"),
    ("255", "copy-feats scp:blank.scp ark:out", "line 2 is blank"),
    ("0", "copy-feats scp,p:blank.scp ark:out", "WARNING .* invalid line"),
    ("255", "copy-feats scp:bare.scp ark:out", "line 2 has a key .* without a value"),
    ("0", "copy-feats scp,p:bare.scp ark:out", "WARNING .* invalid line"),
    ("255", "copy-feats scp:beyond.scp ark:out", "f.ark:99999: a: "),
    ("255", "compute-fbank-feats scp:zero.scp ark:out", "zero.wav:20: u: a wave file has a sampling rate of 0"),
    ("255", "wav-to-duration scp:zero.scp ark:out", "zero.wav"),
    ("0", "wav-to-duration scp:odd.scp ark:out", "Printed duration for 1 audio files"),
    ("0", "copy-post ark:tight ark:out", "Done copying 1 posteriors"),
]
COMMANDS = [
    *(
        (row.split(" | ")[-1], command, says)
        for row, cases in zip(ROWS, CASES, strict=True)
        for command, says in cases.items()
    ),
    *OTHER_CASES,
]


def write_odd_inputs() -> None:
    write_inputs()
    with io_ark.Writer("ark,scp:f.ark,f.scp", kind="matrix") as writer:
        for key in "abc":
            writer.write(key, np.ones((2, 2), np.float32))
    with io_ark.Writer("ark,scp:v.ark,v.scp", kind="vector") as writer:
        writer.write("u", np.ones(3, np.float32))
    Path("b.fea").mkdir()
    Path("b.mfc").mkdir()
    wave, lines = Path("u.wav").read_bytes(), Path("f.scp").read_text()
    with io_ark.Writer("ark:longer.ark", kind="matrix") as writer:
        writer.write("a", np.ones((3, 2), np.float32))
    Path("zero.wav").write_bytes(wave[:24] + bytes(8) + wave[32:])
    size = struct.pack("<I", len(wave) - 8 + 12)
    Path("odd.wav").write_bytes(wave[:4] + size + wave[8:36] + b"LIST\3\0\0\0abc\0" + wave[36:])
    Path("trail.ark").write_bytes(Path("f.ark").read_bytes() + b"\0\1\2")
    for name, text in {
        "zero.scp": "u zero.wav\n", "odd.scp": "u odd.wav\n", "beyond.scp": "a f.ark:99999\n", "tight": "u [1 0.5]\n",
        "blank.scp": lines.replace("\nb", "\n\nb"), "bare.scp": lines.replace("\nb", "\nbare\nb"),
        "entry.scp": "a tail -c +3 f.ark | head -c 31; exit 3 |\n",
    }.items():  # fmt: skip
        Path(name).write_text(text)


@pytest.mark.parametrize(("expected", "command", "says"), COMMANDS, ids=[command for _, command, _ in COMMANDS])
def test_status_is_that_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: str, command: str, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_odd_inputs()
    for stream in ("stdin", "stdout"):
        if says.startswith(stream.replace("std", "standard ") + "put"):
            monkeypatch.setattr(sys, stream, None)
    status, log = run_words(shlex.split(command))
    ours = re.match("[0-9]+", expected)
    assert ours and status == int(ours[0]), log
    assert re.search(says, log), log
