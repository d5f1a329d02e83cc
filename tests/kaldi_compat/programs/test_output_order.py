"""Outputs are opened when Kaldi's programs open them: what becomes of older ones if an input cannot be read."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import io_ark
from tests.support.output_order import COMMANDS as OF_TABLES
from tests.support.output_order import STORED, outcome, variants, write_inputs
from tests.support.programs import ERROR_STATUS, main_of, run, run_words
from tests.support.tables import audio_archive, noise, save, wav_bytes

KALDIS: dict[str, list[str]] = json.loads(STORED.read_text())


def run_ours(words: Sequence[str]) -> int:
    return run_words(words)[0]


@pytest.mark.parametrize("command", dict.fromkeys(variant for each in OF_TABLES for variant in variants(each)))
def test_an_older_output_is_kept_or_emptied_as_by_kaldi(command: str) -> None:
    assert command in KALDIS, "run: python -m tests.support.output_order FOLDER_OF_KALDIS_PROGRAMS"
    write_inputs()
    assert outcome(run_ours, command) == KALDIS[command]


def test_a_bad_compression_method_is_refused_after_the_output_is_opened() -> None:
    Path("o.ark").write_text("yesterday")
    source = save("a.ark", {"u": np.ones((3, 2), np.float32)})
    status, stderr = run(main_of("copy-feats"), "--compress", "--compression-method=8", source, "ark:o.ark")
    assert status == ERROR_STATUS
    assert "method 8" in stderr
    assert Path("o.ark").read_bytes() == b""


def test_a_failing_command_costs_its_utterances_and_not_the_job() -> None:
    source = save("a.ark", {"u": np.ones((3, 2), np.float32), "v": np.ones((3, 2), np.float32)})
    status, stderr = run(main_of("apply-cmvn"), "ark:false |", source, "ark:o.ark")
    assert status == 1
    assert stderr.count("No normalization statistics available for key") == 2
    assert "exit status 1)" in stderr
    assert stderr.endswith("Applied cepstral mean normalization to 0 utterances, errors on 2\n")


def test_a_missing_channel_is_logged_in_kaldis_words() -> None:
    source = audio_archive("a.ark", u=wav_bytes(noise(4000, 2)))
    warning = "Channel not specified but you have data with 2 channels; defaulting to zero\n"
    for program in ("compute-fbank-feats", "compute-kaldi-pitch-feats"):
        assert warning in run(main_of(program), source, "ark:o.ark")[1]


# Programs that take their output from the number of arguments; "archive" is of yesterday.
OF_ANY_NUMBER = [
    "matrix-sum ark:m ark:t ark:out",
    "vector-sum ark:v ark:v ark:v ark:out",
    "ivector-mean ark:spk2utt ark:v ark:out",
    "ivector-mean ark:spk2utt ark:v ark:out ark:archive",
    "ivector-mean ark:spk2utt ark:v ark:archive ark:out",
    "ivector-subtract-global-mean ark:v ark:out",
    "ivector-subtract-global-mean vec ark:v ark:out",
]
TABLE = re.compile(r"(?<==)\S*:\w+|(?:ark|scp):\S+")


@pytest.mark.parametrize("command", [each for each in OF_TABLES + OF_ANY_NUMBER if " ark:out" in each])
def test_a_table_that_is_read_is_not_written_to(command: str) -> None:
    for table in {each for each in TABLE.findall(command) if "out" not in each and "archive" not in each}:
        write_inputs()
        name = table.partition(":")[2]
        before = Path(name).read_bytes()
        status, stderr = run_words(shlex.split(command.replace("ark:out", f"ark,t:./{name}")))
        assert status == ERROR_STATUS
        assert "is read as well, and writing would destroy it" in stderr
        assert Path(name).read_bytes() == before


@pytest.mark.parametrize("words", ["ark:m ark,scp:o,./o", "--write-num-frames=ark,t:o ark:m ark:./o",
                                   "--write-num-frames=ark,t:o ark:m ark,scp:a,o"])  # fmt: skip
def test_a_file_is_not_two_outputs(words: str) -> None:
    write_inputs()
    Path("o").write_text("yesterday")
    status, stderr = run_words(["copy-feats", *words.split()])
    assert status == ERROR_STATUS
    assert "is written twice: choose another output" in stderr
    assert Path("o").read_text() == "yesterday"
    Path("o").unlink()  # two names of one new file
    assert "is written twice" in run_words(["copy-feats", *words.split()])[1] and not Path("o").exists()
    assert run_ours(["copy-feats", "--write-num-frames=ark:/dev/null", "ark:m", "ark,scp:/dev/null,/dev/null"]) == 0


def test_archives_of_script_files_and_outputs_of_options_are_not_destroyed() -> None:
    write_inputs()
    assert run_ours(["copy-feats", "ark:m", "ark,scp:archive,script"]) == 0
    before = Path("archive").read_bytes()
    for words in (
        ["add-deltas", "scp:script", "ark:archive"],
        ["add-deltas", "ark:archive", "ark,scp:o,archive"],
        ["copy-feats", "--write-num-frames=ark:archive", "scp:script", "ark:o"],
    ):
        assert run_ours(words) == ERROR_STATUS
        assert Path("archive").read_bytes() == before
    Path("other").write_bytes(before)
    place = int(Path("script").read_text().split()[1].rpartition(":")[2])
    for words in (
        ["copy-matrix", f"archive:{place}", "archive"],
        ["copy-matrix", f"./archive:{place}[0:0]", "archive"],
        ["concat-feats", f"other:{place}", f"archive:{place}", "archive"],
        ["matrix-sum", "scp:script", "archive"],
    ):
        status, stderr = run_words(words)
        assert status == ERROR_STATUS and "archive: is read as well, and writing would destroy it" in stderr
        assert Path("archive").read_bytes() == before
    assert run_ours(["copy-matrix", f"archive:{place}", "alone"]) == 0
    assert run_ours(["copy-matrix", "--scale=2", "alone", "alone"]) == 0  # a file, written when all is read
    assert run_ours(["compute-cmvn-stats", "ark:archive", "archive"]) == 0


def test_missing_first_object_of_a_table_ends_feat_to_dim() -> None:
    Path("lost.scp").write_text("a lost.ark:2\n")
    status, stderr = run_words(["feat-to-dim", "scp:lost.scp", "dim"])
    assert status == ERROR_STATUS and "lost.ark: a: cannot be opened: No such file" in stderr
    assert Path("dim").read_bytes() == b""


@pytest.mark.parametrize("target", ["script", "archive", "./script"])
def test_a_file_that_is_written_before_the_table_ends_is_none_of_the_table(target: str) -> None:
    write_inputs()
    assert run_ours(["copy-feats", "ark:m", "ark,scp:archive,script"]) == 0
    before = Path(target).read_bytes()
    status, stderr = run_words(["feat-to-dim", "scp:script", target])
    assert status == ERROR_STATUS and f"{target}: is read as well, and writing would destroy it" in stderr
    assert Path(target).read_bytes() == before


@pytest.mark.parametrize("program", ["copy-feats-to-htk", "copy-feats-to-sphinx"])
@pytest.mark.parametrize("source", ["scp:script", "ark:archive.ext"])
def test_files_of_a_folder_replace_neither_the_table_nor_targets_of_links(program: str, source: str) -> None:
    with io_ark.writer("ark,scp:archive.ext,script") as writer:
        for key in ("a", "archive", "b"):
            writer[key] = np.ones((4, 3), np.float32)
    before = Path("archive.ext").read_bytes()
    status, stderr = run_words([program, "--output-dir=.", "--output-ext=ext", source])
    assert status == ERROR_STATUS and "./archive.ext" in stderr and "is read as well" in stderr
    assert Path("archive.ext").read_bytes() == before
    Path("mine").write_text("mine")
    Path("out").mkdir()
    Path("out/b.ext").symlink_to("../mine")
    Path("out/a.ext").write_text("of yesterday, and longer than what is written today" * 9)
    for _ in range(2):
        assert run_ours([program, "--output-dir=out", "--output-ext=ext", source]) == 0
    assert Path("mine").read_text() == "mine"
    assert len({path.read_bytes() for path in Path("out").iterdir()}) == 1 and not Path("out/b.ext").is_symlink()
    assert sorted(path.name for path in Path("out").iterdir()) == ["a.ext", "archive.ext", "b.ext"]
