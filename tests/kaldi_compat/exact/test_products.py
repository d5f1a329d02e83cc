"""Products of matrices in OpenBLAS's order, against OpenBLAS, and in C against NumPy."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kaldi_compat.exact import products
from kaldi_compat.exact.products import multiply_by_transpose, multiply_matrices, multiply_vectors
from kaldi_compat.exact.sums import fused_multiply_add
from tests.support import products as kaldi
from tests.support.blas import has_avx512, products_by_openblas
from tests.support.native import LEVELS, assert_same_bits, computing, needs_c

# Rows, columns and terms: small products with and without groups of four, larger ones, one of two panels.
SHAPES = [
    (2, 5, 13),
    (3, 40, 40),
    (6, 50, 70),
    (7, 33, 91),
    (5, 7, 33),
    (29, 39, 280),
    (30, 41, 40),
    (60, 13, 448),
    (40, 40, 896),
]


def pairs_of_matrices() -> list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    rng = np.random.default_rng(0)

    def matrix(rows: int, depth: int) -> np.ndarray[Any, Any]:
        return rng.standard_normal((rows, depth)).astype(np.float32)

    return [(matrix(rows, depth), matrix(width, depth)) for rows, width, depth in SHAPES]


@pytest.fixture(params=[None, *LEVELS[-1:]])
def engine(request: pytest.FixtureRequest) -> Iterator[None]:
    with computing(request.param):
        yield


def computed(program: str, shape: kaldi.Shape) -> np.ndarray[Any, Any]:
    """Our product of this shape, as a program computes it."""
    a, b, offset = kaldi.factors(shape)
    if program == "compose-transforms":
        return multiply_matrices(a, b.T)
    if program == "transform-feats":
        return multiply_by_transpose(a, b)
    return multiply_vectors(b, a, offset if "offset" in program else None)


@pytest.mark.parametrize("program", kaldi.SHAPES)
@pytest.mark.usefixtures("engine")
def test_products_around_the_limits_of_the_kernels_have_kaldis_bits(program: str) -> None:
    stored, shapes = json.loads(kaldi.STORED.read_text())[program], kaldi.SHAPES[program]
    assert len(stored) == 8 * len(shapes)
    sums = [stored[i : i + 8] for i in range(0, len(stored), 8)]
    different = [
        shape for shape, wanted in zip(shapes, sums, strict=True) if kaldi.checksum(computed(program, shape)) != wanted
    ]
    assert different == []


@pytest.mark.skipif(not has_avx512(), reason="OpenBLAS adds in this order on processors with AVX-512 alone")
@pytest.mark.usefixtures("engine")
def test_same_bits_as_openblas(tmp_path: Path) -> None:
    pairs = pairs_of_matrices()
    for pair, shape, theirs in zip(pairs, SHAPES, products_by_openblas(pairs, tmp_path), strict=True):
        np.testing.assert_array_equal(multiply_by_transpose(*pair), theirs, err_msg=str(shape))


def test_sum_beside_the_middle_of_two_numbers_is_rounded_once() -> None:
    # 2**-24 less 2**-70 is less than half of the last bit of 1, which float64 does not keep beside the 1.
    below = np.array([1 + 2**-23, 1 - 2**-23], np.float32) * np.float32(2**-12)
    odd = np.float32(1 + 2**-23)
    a = np.array([[odd, below[0]], [-odd, -below[0]]], np.float32)
    b = np.array([[1, below[1]]], np.float32)
    for level in [None, *LEVELS]:
        with computing(level):
            np.testing.assert_array_equal(multiply_by_transpose(a, b), [[odd], [-odd]], err_msg=str(level))


@pytest.mark.parametrize("rows", [0, 1, 2, 31])
@pytest.mark.usefixtures("engine")
def test_matrices_of_a_batch_are_multiplied_as_if_alone(rows: int) -> None:
    rng = np.random.default_rng(rows)
    a, b = rng.standard_normal((50, 40)).astype(np.float32), rng.standard_normal((39, 40)).astype(np.float32)
    bounds = np.array([0, rows, rows, 50])
    together = multiply_by_transpose(a, b, bounds)
    np.testing.assert_array_equal(together[:rows], multiply_by_transpose(a[:rows], b))
    np.testing.assert_array_equal(together[rows:], multiply_by_transpose(a[rows:], b))
    np.testing.assert_allclose(together, a.astype(np.float64) @ b.T.astype(np.float64), atol=1e-4)


@needs_c
def test_all_instruction_sets_give_the_same_bits() -> None:
    for a, b in pairs_of_matrices():
        assert_same_bits(partial(multiply_by_transpose, a, b))


@pytest.mark.parametrize("bounds", [[0, 3], [-1, 2], [2, 1]])
def test_bounds_outside_the_rows_are_refused_before_c_sees_them(bounds: list[int]) -> None:
    with pytest.raises(ValueError, match="bounds"):
        multiply_by_transpose(np.zeros((2, 3), np.float32), np.zeros((1, 3), np.float32), np.array(bounds))


def test_products_of_a_batch_have_the_bits_of_terms_added_one_after_the_other() -> None:
    rng = np.random.default_rng(0)
    for rows, depth, width in ((5, 13, 14), (3, 500, 9), (60, 500, 70)):  # the last is too large for one panel
        a = rng.standard_normal((2, rows, depth)).astype(np.float32)
        b = rng.standard_normal((depth, width)).astype(np.float32)
        found = multiply_matrices(a, b)
        with computing(None):
            np.testing.assert_array_equal(found, multiply_matrices(a, b))
        panels = [0, 256, 500] if rows == 60 else [0, depth]
        total = np.float32(0)
        for begin, end in itertools.pairwise(panels):
            sums = np.zeros(found.shape, np.float32)
            for k in range(begin, end):
                sums = fused_multiply_add(a[..., k, None], b[k], sums)
            total = total + sums
        np.testing.assert_array_equal(found, total)


@needs_c
@pytest.mark.parametrize(
    "shapes",
    [((4, 5, 40), (4, 40, 9)), ((5, 40), (4, 40, 17)), ((2, 3, 5, 9), (3, 9, 1)), ((0, 5, 6), (6, 7))],
)
@pytest.mark.parametrize("most", [1, 10**6])
def test_all_instruction_sets_multiply_each_matrix_of_a_batch(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "_MAX_PANEL_TERMS", 16)
    monkeypatch.setattr(products, "_MAX_SMALL_PRODUCTS", most)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    assert_same_bits(lambda: multiply_matrices(a, b))
    with pytest.raises(ValueError, match="cannot multiply"):
        multiply_matrices(a, b[..., 1:, :])
