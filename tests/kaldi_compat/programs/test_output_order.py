"""Outputs that are opened before an input are empty if that input cannot be opened, as with Kaldi's programs."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.programs import ERROR_STATUS, run
from tests.support.tables import audio_archive, mat, noise, save, wav_bytes

# Programs that open their output first in Kaldi, and arguments before source and target.
OUTPUT_FIRST: list[tuple[str, list[str]]] = [
    ("add-deltas", []),
    ("add-deltas-sdc", []),
    ("compute-and-process-kaldi-pitch-feats", []),
    ("compute-cmvn-stats", []),
    ("compute-kaldi-pitch-feats", []),
    ("copy-feats", []),
    ("copy-feats", ["--compress=true"]),
    ("copy-int-vector", []),
    ("copy-matrix", []),
    ("copy-vector", []),
    ("feat-to-len", []),
    ("splice-feats", []),
    ("subset-feats", []),
    ("wav-to-duration", []),
]
INPUT_FIRST = ["apply-cmvn-sliding", "compute-fbank-feats", "copy-post", "shift-feats", "subsample-feats", "wav-copy"]


def main_of(program: str) -> Callable[..., int]:
    main: Any = importlib.import_module(f"kaldi_compat.programs.{program.replace('-', '_')}").main
    return main  # type: ignore[no-any-return]


@pytest.mark.parametrize(("program", "options"), OUTPUT_FIRST, ids=lambda value: str(value))
def test_an_older_output_is_empty_after_an_early_failure(program: str, options: list[str]) -> None:
    Path("o.ark").write_text("yesterday")
    status, stderr = run(main_of(program), *options, "scp:none.scp", "ark:o.ark")
    assert status == ERROR_STATUS
    assert "none.scp" in stderr
    assert Path("o.ark").read_bytes() == b""


@pytest.mark.parametrize("program", INPUT_FIRST)
def test_an_older_output_stays_where_kaldi_opens_the_input_first(program: str) -> None:
    Path("o.ark").write_text("yesterday")
    assert run(main_of(program), "scp:none.scp", "ark:o.ark")[0] == ERROR_STATUS
    assert Path("o.ark").read_text() == "yesterday"


@pytest.mark.parametrize("program", ["apply-cmvn", "transform-feats"])
def test_the_second_table_is_opened_after_the_output(program: str) -> None:
    Path("o.ark").write_text("yesterday")
    source = save("a.ark", {"u": np.ones((3, 2), np.float32)})
    assert run(main_of(program), "ark:none.ark", source, "ark:o.ark")[0] == ERROR_STATUS
    assert Path("o.ark").read_bytes() == b""


def test_a_bad_compression_method_is_refused_after_the_output_is_opened() -> None:
    Path("o.ark").write_text("yesterday")
    source = save("a.ark", {"u": np.ones((3, 2), np.float32)})
    status, stderr = run(main_of("copy-feats"), "--compress", "--compression-method=8", source, "ark:o.ark")
    assert status == ERROR_STATUS
    assert "method 8" in stderr
    assert Path("o.ark").read_bytes() == b""


@pytest.mark.parametrize("program", ["multiply-vectors", "paste-feats", "paste-vectors"])
def test_programs_of_several_inputs_open_their_output_first(program: str) -> None:
    Path("o.ark").write_text("yesterday")
    assert run(main_of(program), "scp:none.scp", "scp:none.scp", "ark:o.ark")[0] == ERROR_STATUS
    assert Path("o.ark").read_bytes() == b""


@pytest.mark.parametrize("program", ["compose-transforms"])
def test_compose_transforms_opens_its_output_first(program: str) -> None:
    Path("o.ark").write_text("yesterday")
    assert run(main_of(program), "scp:none.scp", mat("b.mat", np.eye(2)), "ark:o.ark")[0] == ERROR_STATUS
    assert Path("o.ark").read_bytes() == b""


def test_a_failing_command_costs_its_utterances_and_not_the_job() -> None:
    source = save("a.ark", {"u": np.ones((3, 2), np.float32), "v": np.ones((3, 2), np.float32)})
    status, stderr = run(main_of("apply-cmvn"), "ark:false |", source, "ark:o.ark")
    assert status == 1
    assert stderr.count("No normalization statistics available for key") == 2
    assert "exit status 1" in stderr
    assert stderr.endswith("Applied cepstral mean normalization to 0 utterances, errors on 2\n")


def test_a_missing_channel_is_logged_in_kaldis_words() -> None:
    source = audio_archive("a.ark", u=wav_bytes(noise(4000, 2)))
    warning = "Channel not specified but you have data with 2 channels; defaulting to zero\n"
    for program in ("compute-fbank-feats", "compute-kaldi-pitch-feats"):
        assert warning in run(main_of(program), source, "ark:o.ark")[1]
