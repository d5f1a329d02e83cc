"""Resampling and sums in C against NumPy, byte for byte, on every instruction set."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaldi_compat.exact import resample, sums
from tests.support.native import assert_same_bits, needs_c

pytestmark = needs_c


def noise(samples: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(samples).normal(0, 3000, samples).astype(np.float32)


@settings(max_examples=60, deadline=None)
@given(
    rate_in=st.sampled_from([8000, 16000, 11025, 44100]),
    rate_out=st.sampled_from([4000, 8000, 16000]),
    samples=st.integers(0, 3000),
    start=st.integers(0, 2000),
    outputs=st.tuples(st.integers(0, 900), st.integers(0, 900)),
    zeros=st.sampled_from([1, 2, 6]),
    integers=st.booleans(),
)
def test_resampling(
    rate_in: int, rate_out: int, samples: int, start: int, outputs: tuple[int, int], zeros: int, integers: bool
) -> None:
    x = noise(samples).astype(np.int16 if integers else np.float32)
    filters = resample.make_resampling_filters(rate_in, rate_out, 1000.0, zeros)
    wanted = (min(outputs), max(outputs))
    assert_same_bits(lambda: resample.resample_chunk(x, filters, wanted, start))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(0, 400))
def test_sums_of_vectors_and_of_parts_of_a_signal(seed: int, n: int) -> None:
    x = np.random.default_rng(seed).normal(0, 1e3, n).astype(np.float32)
    parts = np.array([0, n // 3, n // 3, n])
    assert_same_bits(lambda: (sums.compute_vector_sums(x), sums.compute_signal_sums(x, parts)))


@settings(max_examples=40, deadline=None)
@given(rate=st.sampled_from([8000, 16000, 44100]), data=st.data())
def test_resampling_of_chunks(rate: int, data: st.DataObject) -> None:
    filters = resample.make_resampling_filters(rate, 4000, 1000.0, 1)
    x = noise(3000).astype(np.int16)
    chunks = []
    for _ in range(data.draw(st.integers(1, 4))):
        start, end = sorted(data.draw(st.tuples(st.integers(0, 3000), st.integers(0, 3000))))
        begin = data.draw(st.integers(0, end - start))
        outputs = sorted(data.draw(st.tuples(st.integers(0, 400), st.integers(0, 400))))
        chunks.append([start, end - start, begin, *outputs])
    table = np.array(chunks, np.int64)
    assert_same_bits(lambda: resample.resample_chunks(x, filters, table))


def test_parts_outside_of_the_audio_are_refused() -> None:
    filters = resample.make_resampling_filters(16000, 4000, 1000.0, 1)
    for chunk in ([0, 11, 0, 0, 2], [-1, 4, 0, 0, 1], [0, 4, 0, 2, 1]):
        with pytest.raises(ValueError, match="lies outside"):
            resample.resample_chunks(np.zeros(10, np.int16), filters, np.array([chunk]))
