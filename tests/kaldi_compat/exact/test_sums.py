"""The dot product in OpenBLAS's order, against OpenBLAS."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from kaldi_compat.exact.engine import compute_batch_features, make_batch
from kaldi_compat.exact.plan import make_plan
from kaldi_compat.exact.products import multiply_vectors
from kaldi_compat.exact.sliding import _sum_strided_rows
from kaldi_compat.exact.sums import dot, fused_multiply_add, multiply_matrix_vector
from kaldi_compat.options.spectral import MfccOptions
from tests.support.blas import has_avx512, products_by_openblas
from tests.support.native import LEVELS, assert_same_bits, computing, needs_c


@pytest.mark.skipif(not has_avx512(), reason="OpenBLAS adds in this order on processors with AVX-512 alone")
def test_same_bits_as_openblas(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lengths = [*range(200), *rng.integers(200, 9000, 100)]
    pairs = [(1000 * rng.standard_normal((2, n))).astype(np.float32) for n in lengths]
    np.testing.assert_array_equal([dot(*pair) for pair in pairs], products_by_openblas(pairs, tmp_path))


def test_dot_product_is_close_to_float64s() -> None:
    x = np.random.default_rng(1).standard_normal(1000).astype(np.float32)
    assert dot(x, x) == pytest.approx(np.sum(x.astype(np.float64) ** 2), rel=1e-6)


def exactly_rounded(value: Fraction) -> np.float32:
    """Return the float32 nearest to a fraction, ties to even."""
    near = np.float32(float(value))
    around = [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))]
    return min(around, key=lambda x: (abs(Fraction(float(x)) - value), int(x.view(np.int32)) & 1))


def test_fused_rounds_once() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 500)).astype(np.float32)
    c = (rng.standard_normal(500) * 10.0 ** rng.uniform(-9, 9, 500)).astype(np.float32)
    wide = [[Fraction(float(x)) for x in row] for row in (a, b, c)]
    right = [exactly_rounded(x * y + z) for x, y, z in zip(*wide, strict=True)]
    np.testing.assert_array_equal(fused_multiply_add(a, b, c), right)


def test_fused_does_not_round_twice() -> None:
    # The sum lies 2**-54 below the middle between two floats; in float64 it is the middle, which rounds up, to even.
    a, b, c = np.float32(1 - 2.0**-15), np.float32(2.0**-24 * (1 + 2.0**-15)), np.float32(1 + 2.0**-23)
    assert np.float32(float(a) * float(b) + float(c)) != c
    assert fused_multiply_add(a, b, c) == c
    assert fused_multiply_add(-a, b, -c) == -c


def test_rows_that_fill_no_group_of_four_are_added_to_the_first_strided_sum() -> None:
    rows = np.zeros((6, 1))
    rows[0], rows[4:] = 2.0**53, 1  # which are lost beside the large number, one after the other
    assert _sum_strided_rows(rows) == 2.0**53


@needs_c
@pytest.mark.parametrize("columns", [3, 4, 5, 6, 7, 8, 9, 23])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 6, 7])
def test_products_of_few_columns_are_the_same_in_c(rows: int, columns: int) -> None:
    """C computes them for cepstra alone: the sums of each group of rows, and of four and eight columns, differ."""
    if rows > columns:
        pytest.skip("there are no more cepstra than mel bins")
    plan = make_plan(
        MfccOptions(num_mel_bins=columns, num_ceps=rows, dither=0.0, cepstral_lifter=0.0, use_energy=False)
    )
    batch = make_batch(plan, np.random.default_rng(rows).integers(-9999, 9999, 40000).astype(np.int16))
    assert_same_bits(lambda: compute_batch_features(plan, batch))


@needs_c
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("columns", [1, 3, 4, 5, 8, 11, 37])
def test_products_with_a_matrix_in_c_are_those_of_numpy(level: str, columns: int) -> None:
    rng = np.random.default_rng(columns)
    for rows in (1, 2, 3, 4, 7, 10):
        matrix, vectors = (rng.standard_normal((n, columns)).astype(np.float32) for n in (rows, 19))
        for onto in (None, rng.standard_normal(rows).astype(np.float32)):
            with computing(level):
                found = multiply_vectors(matrix, vectors, onto)
            np.testing.assert_array_equal(found, multiply_matrix_vector(matrix, vectors, onto))
