"""Tests of multiply-vectors that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import numpy as np

import io_ark
from kaldi_compat.programs import multiply_vectors
from tests.support.programs import check_failed
from tests.support.tables import load, read, save


def test_vectors_are_multiplied_element_by_element() -> None:
    one = save("one.ark", {"a": np.array([1, 2, 3], np.float32), "b": np.ones(2, np.float32)})
    two = save("two.ark", {"a": np.array([4, 5], np.float32)})
    message = "Length mismatch 3 vs. 2 for utt a exceeds tolerance 0"
    check_failed(multiply_vectors.main, one, two, "ark:out.ark", message=message)
    assert multiply_vectors.main(["--length-tolerance=1", one, two, two, "ark:out.ark"]) == 0
    assert {key: value.tolist() for key, value in load("out.ark").items()} == {"a": [16, 50]}
    io_ark.write_object("vector", "v", np.array([2, 3], np.float32))
    assert multiply_vectors.main(["v", "v", "v", "out.vec"]) == 0
    assert read("out.vec").tolist() == [8, 27]
    io_ark.write_object("vector", "w", np.array([2], np.float32))
    assert multiply_vectors.main(["v", "w", "out.vec"]) == 1


def test_a_negative_tolerance_skips_equal_lengths_too_as_in_kaldi() -> None:
    source = save("in.ark", {"a": np.ones(3, np.float32)})
    message = "Length mismatch 3 vs. 3 for utt a exceeds tolerance -1"
    check_failed(multiply_vectors.main, "--length-tolerance=-1", source, source, "ark:out.ark", message=message)
