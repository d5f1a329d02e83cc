"""The table of public repositories is that of the manifest, and its comparison notices what it should."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.toolkits.manifest import CALLS, REPOSITORIES
from tests.toolkits.run import PAGE, compare


def result(*arrays: Any) -> dict[str, Any]:
    types = [(type(each).__name__, str(each.dtype), each.shape) for each in arrays]
    return {"arrays": list(arrays), "types": types, "seconds": 0.0}


def test_page_has_a_row_for_each_call() -> None:
    rows = [line.split(" | ") for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| [")]
    listed = [(row[0].partition("]")[0].partition("/")[2], row[1].strip("`"), row[2].strip("`")) for row in rows]
    assert listed == [(*call.file.split("/", 1), call.function) for call in CALLS]
    assert {call.file.partition("/")[0] for call in CALLS} == REPOSITORIES.keys()


@pytest.mark.parametrize(
    ("ours", "wrong"),
    [
        (result(np.ones(3, np.float32)), 0),
        (result(np.full(3, 1.1, np.float32)), 1),
        (result(np.ones(3)), 1),
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
