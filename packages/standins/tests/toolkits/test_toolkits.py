"""The page of public repositories lists the calls and scripts, and the comparison notices differences."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kaldi_standins import torchaudio as compliance
from packages.standins.tests.toolkits import forms
from packages.standins.tests.toolkits.calls import CALLS, CEPSTRA
from packages.standins.tests.toolkits.page import PAGE, format_page
from packages.standins.tests.toolkits.repositories import REPOSITORIES
from packages.standins.tests.toolkits.run import compare, steps
from packages.standins.tests.toolkits.scripts import SCRIPTS, difference
from tests.support.frontend_audio import kept_rows


def result(*arrays: Any) -> dict[str, Any]:
    types = [(type(each).__name__, str(each.dtype), each.shape, steps(each)) for each in arrays]
    return {"arrays": list(arrays), "types": types}


def test_page_lists_all_calls_and_scripts() -> None:
    assert PAGE.read_text(encoding="utf-8") == format_page()
    named = {call.file.partition("/")[0] for call in CALLS} | {script.repository for script in SCRIPTS}
    assert named == REPOSITORIES.keys()


@pytest.mark.parametrize("page", [PAGE, Path(__file__).parents[4] / "README.md"], ids=["page", "README"])
def test_what_is_said_of_repositories_is_true(page: Path) -> None:
    text = " ".join(page.read_text("utf-8").split())
    said = re.search(r"(\d+) functions of (\d+) .*? (\d+) (?:of their )?scripts", text)
    repositories = {call.file.partition("/")[0] for call in CALLS}
    assert said and said.groups() == tuple(map(str, (len(CALLS), len(repositories), len(SCRIPTS))))


STORED = np.load(forms.STORED)


@pytest.mark.parametrize("number", range(len(STORED["forms"])))
def test_a_projects_call_of_torchaudio_gives_what_torchaudio_gave(number: int) -> None:
    name, options, unit = json.loads(STORED["forms"][number])
    found = getattr(compliance, name)(forms.waveform(unit), **options)
    expected = STORED[str(number)]
    kept = found[torch.from_numpy(kept_rows(len(found)))].numpy()
    assert kept.dtype == expected.dtype
    tolerance = CEPSTRA if name == "mfcc" else 1e-3
    assert (np.abs(kept - expected) <= tolerance * np.maximum(1, np.abs(expected))).all()


@pytest.mark.parametrize(
    ("ours", "wrong"),
    [
        (result(np.ones(3, np.float32)), 0),
        (result(np.full(3, 1.1, np.float32)), 1),
        (result(np.ones(3)), 1),
        (result(np.ones(6, np.float32)[::2]), 1),
        (result(np.ones(4, np.float32)), 1),
        ({"error": ["ValueError", "Exception"], "text": "refused"}, 1),
    ],
)
def test_differences_are_noticed(ours: dict[str, Any], wrong: int) -> None:
    call = next(each for each in CALLS if not each.unlike)
    assert len(compare(call, {"a": result(np.ones(3, np.float32))}, {"a": ours})[1]) == wrong


def test_errors_of_a_derived_class_are_the_originals() -> None:
    call = next(each for each in CALLS if not each.unlike)
    theirs = {"a": {"error": ["AssertionError", "Exception"], "text": ""}}
    assert compare(call, theirs, {"a": {"error": ["WaveformError", "AssertionError"], "text": ""}})[1] == []
    assert len(compare(call, theirs, {"a": {"error": ["TypeError"], "text": ""}})[1]) == 1


def test_strides_that_no_element_depends_on_are_not_compared() -> None:
    assert steps(np.ones((1, 3))[:, ::3]) == steps(torch.ones(1, 1)) == (0, 0)
    assert steps(np.ones((2, 3)).T) == steps(torch.ones(2, 3).T) == (1, 3)


@pytest.mark.parametrize(
    ("ours", "expected"),
    [(b"mean 1.001 b", 0.001), (b"mean 1 b", 0), (b"mean 1 c", float("inf")), (b"mean 1 1 b", float("inf"))],
)
def test_outcomes_of_scripts_are_compared_by_text_and_numbers(ours: bytes, expected: float) -> None:
    assert difference({"x": b"mean 1.0 b"}, {"x": ours}) == pytest.approx(expected)
    assert difference({"x": b""}, {"y": b""}) == float("inf")
