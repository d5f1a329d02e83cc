"""Transforms of features: the algebra."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kaldi_compat.errors import FeatureError
from kaldi_compat.functional.transform import (
    apply_transform,
    compose_transforms,
    compute_log_determinant,
    extend_transform,
    full_lda,
)
from tests.support.processes import memory_below

RANDOM = np.random.default_rng(0)
DIM = st.integers(1, 5)


@given(DIM, DIM, DIM, st.booleans(), st.booleans())
def test_one_after_the_other_is_their_composition(
    dim: int, middle: int, out: int, a_is_affine: bool, b_is_affine: bool
) -> None:
    a, b = RANDOM.normal(size=(out, middle + a_is_affine)), RANDOM.normal(size=(middle, dim + b_is_affine))
    features = RANDOM.normal(size=(7, dim))
    one_by_one = apply_transform(apply_transform(features, b), a)
    if b_is_affine and not a_is_affine:
        b_with_offset = features @ (a @ b)[:, :dim].T + (a @ b)[:, dim]
        np.testing.assert_allclose(one_by_one, b_with_offset)
    composed = compose_transforms(a, b, b_is_affine=b_is_affine)
    np.testing.assert_allclose(apply_transform(features, composed), one_by_one, atol=1e-10)


@given(DIM, st.integers(0, 3), st.booleans())
def test_an_extended_transform_leaves_the_further_dimensions(dim: int, more: int, affine: bool) -> None:
    transform = RANDOM.normal(size=(dim, dim + affine))
    features = RANDOM.normal(size=(4, dim + more))
    extended = extend_transform(transform, dim + more)
    assert extended.shape == (dim + more, dim + more + affine)
    ours = apply_transform(features, extended)
    np.testing.assert_allclose(ours[:, :dim], apply_transform(features[:, :dim], transform), atol=1e-12)
    np.testing.assert_array_equal(ours[:, dim:], features[:, dim:])


def test_extending_takes_no_more_memory_than_the_result() -> None:
    transform = np.eye(2, 3, dtype=np.float32)
    with memory_below(1.1 * extend_transform(transform, 1000).nbytes):
        extend_transform(transform, 1000)


def test_log_determinant() -> None:
    square, wide = RANDOM.normal(size=(4, 4)), RANDOM.normal(size=(2, 4))
    assert compute_log_determinant(square, 4) == pytest.approx(np.log(abs(np.linalg.det(square))))
    # Of a matrix with orthogonal rows it is the log of the product of their lengths.
    assert compute_log_determinant(np.array([[3.0, 0.0, 7.0], [0.0, 2.0, 7.0]]), 2) == pytest.approx(np.log(6.0))
    assert compute_log_determinant(wide, 4) == pytest.approx(0.5 * np.log(np.linalg.det(wide @ wide.T)))


def test_full_lda() -> None:
    lda, kept = RANDOM.normal(size=(4, 4)), RANDOM.normal(size=(2, 4))
    full = full_lda(kept, lda)
    np.testing.assert_array_equal(full[:2], kept)
    np.testing.assert_array_equal(full[2:], lda[2:])


def test_each_of_a_batch_may_have_its_own() -> None:
    features, transforms = torch.randn(3, 6, 4), torch.randn(3, 2, 5)
    batch = apply_transform(features, transforms)
    for each, transform, out in zip(features, transforms, batch, strict=True):
        torch.testing.assert_close(out, apply_transform(each, transform))


def test_reduced_precision_modes_change_nothing() -> None:
    features, transform = torch.randn(50, 40), torch.randn(40, 40)
    plain = apply_transform(features, transform)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(apply_transform(features, transform), plain, rtol=0, atol=0)


def test_shapes_that_do_not_match_are_refused() -> None:
    features, five = np.zeros((3, 4)), np.zeros((2, 7))
    for transform in (five, five[0]):
        with pytest.raises(
            FeatureError, match="does not fit features of dimension 4: pass a matrix with 4 or 5 columns"
        ):
            apply_transform(features, transform)
    with pytest.raises(FeatureError, match="7 columns cannot follow one with 3 rows"):
        compose_transforms(five, np.zeros((3, 3)))
    vector = np.zeros(3)
    calls: list[Callable[[], object]] = [
        lambda: compose_transforms(vector, np.eye(3)),
        lambda: compose_transforms(np.eye(3), vector),
        lambda: extend_transform(vector, 5),
        lambda: full_lda(vector, np.eye(3)),
        lambda: full_lda(np.eye(3), vector),
    ]
    for call in calls:
        with pytest.raises(FeatureError, match=r"a transform of shape \(3,\) is not a matrix: pass"):
            call()
    with pytest.raises(FeatureError, match="empty"):
        compose_transforms(np.zeros((2, 0)), np.zeros((0, 3)))
    with pytest.raises(FeatureError, match="new dimension 1"):
        extend_transform(np.eye(2), 1)
    with pytest.raises(FeatureError, match="neither linear nor affine"):
        extend_transform(five, 9)
    with pytest.raises(FeatureError, match="does not match"):
        full_lda(five, np.eye(4))
