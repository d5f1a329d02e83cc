"""Tests of add-deltas that the stored commands of Kaldi do not cover."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kaldi_compat.programs import (
    add_deltas,
    add_deltas_sdc,
)
from tests.support.programs import check_refused
from tests.support.tables import load, matrices, save

Stderr = pytest.CaptureFixture[str]


@pytest.mark.parametrize("main", [add_deltas.main, add_deltas_sdc.main])
def test_empty_matrices_are_skipped_and_too_many_columns_refused(main: Any, capsys: Stderr) -> None:
    source = save("in.ark", matrices(5) | {"empty": np.zeros((0, 0), np.float32)})
    assert main(["--truncate=2", source, "ark:out.ark"]) == 0
    assert "Empty feature matrix for key empty" in capsys.readouterr().err
    assert list(load("out.ark")) == ["u0"]
    assert main(["--truncate=2", save("two.ark", matrices(5, dim=2)), "ark:cut.ark"]) == 0
    message = "u0: Cannot truncate features as dimension 3 is smaller than --truncate=4"
    check_refused(main, "--truncate=4", source, "ark:out.ark", message=message)
    check_refused(main, "--truncate=-1", source, "ark:out.ark", message="--truncate must be at least 0, not -1")


def test_truncated_deltas_are_those_of_the_first_columns() -> None:
    values = matrices(9, 4)
    add_deltas.main(["--truncate=2", save("in.ark", values), "ark:cut.ark"])
    add_deltas.main([save("two.ark", {key: value[:, :2] for key, value in values.items()}), "ark:two_out.ark"])
    cut, two = load("cut.ark"), load("two_out.ark")
    assert cut.keys() == two.keys() == values.keys()
    for key in cut:
        np.testing.assert_array_equal(cut[key], two[key])
