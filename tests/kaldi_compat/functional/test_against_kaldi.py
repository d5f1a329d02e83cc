"""Functions of features against what Kaldi's programs wrote, of arrays and of tensors; and the same in any batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import kaldiio
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kaldi_compat.functional.cmvn import (
    apply_cmvn,
    apply_own_cmvn,
    cmvn_statistics,
    replace_statistics,
    sliding_cmvn,
)
from kaldi_compat.functional.deltas import add_deltas, add_shifted_deltas
from kaldi_compat.functional.splice import splice
from kaldi_compat.functional.transform import apply_transform
from kaldi_compat.functional.vad import compute_vad
from kaldi_compat.options.postprocessing import (
    CmvnOptions,
    DeltaOptions,
    ShiftedDeltaOptions,
    SlidingCmvnOptions,
    SpliceOptions,
    VadOptions,
)
from tests.support.reference import ROOT

INPUTS = dict(kaldiio.load_ark(str(ROOT / "inputs" / "mfcc.ark")))
STATISTICS = dict(kaldiio.load_ark(str(ROOT / "inputs" / "cmvn_utt.ark")))
VARS = CmvnOptions(norm_vars=True)


def transform(name: str) -> Callable[[Any, str], Any]:
    return lambda x, _: apply_transform(x, kaldiio.load_mat(str(ROOT / "inputs" / f"{name}.mat")))


# What the stored commands of the group "tools" compute of the features of a key.
FUNCTIONS: dict[str, Callable[[Any, str], Any]] = {
    "001": lambda x, _: add_deltas(x),
    "002": lambda x, _: add_deltas(x, DeltaOptions(delta_order=1)),
    "003": lambda x, _: add_deltas(x, DeltaOptions(delta_order=3, delta_window=3)),
    "004": lambda x, _: add_deltas(x[:, :5]),
    "005": lambda x, _: add_shifted_deltas(x),
    "006": lambda x, _: add_shifted_deltas(x, ShiftedDeltaOptions(num_blocks=3, block_shift=2, delta_window=2)),
    "007": lambda x, _: cmvn_statistics(x),
    "011": lambda x, key: apply_cmvn(x, STATISTICS[key]),
    "012": lambda x, key: apply_cmvn(x, STATISTICS[key], VARS),
    "016": lambda x, key: apply_cmvn(x, STATISTICS[key], CmvnOptions(norm_vars=True, reverse=True)),
    "017": lambda x, key: apply_cmvn(x, replace_statistics(STATISTICS[key], [0, 3])),
    "020": lambda x, _: sliding_cmvn(x),
    "021": lambda x, _: sliding_cmvn(x, SlidingCmvnOptions(center=True)),
    "022": lambda x, _: sliding_cmvn(x, SlidingCmvnOptions(cmn_window=30, min_cmn_window=10)),
    "024": lambda x, _: sliding_cmvn(x, SlidingCmvnOptions(cmn_window=20, norm_vars=True)),
    "025": lambda x, _: splice(x),
    "026": lambda x, _: splice(x, SpliceOptions(left_context=0, right_context=2)),
    "043": transform("lin"),
    "044": transform("aff"),
    "045": transform("sq"),
    "050": lambda x, _: compute_vad(x),
    "051": lambda x, _: compute_vad(
        x, VadOptions(vad_energy_threshold=5.5, vad_frames_context=2, vad_proportion_threshold=0.12)
    ),
}
# Where sums are taken in another order: of a window, and of 13 products each rounded to float.
CLOSE = dict.fromkeys(("020", "021", "022", "024"), 3e-7) | dict.fromkeys(("043", "044", "045"), 2e-4)


@pytest.mark.parametrize("case", FUNCTIONS)
def test_numbers_are_kaldis(case: str) -> None:
    for key, kaldis in kaldiio.load_ark(str(ROOT / "expected" / "tools" / case / "o.ark")):
        atol = CLOSE.get(case, 0)
        of_array = FUNCTIONS[case](INPUTS[key], key)
        of_tensor = FUNCTIONS[case](torch.tensor(INPUTS[key]), key)
        np.testing.assert_allclose(of_array, kaldis, rtol=0, atol=atol)
        # of float64 statistics the last digit; of float32 features none
        np.testing.assert_allclose(of_tensor.numpy(), kaldis, rtol=1e-14, atol=atol)


DELTA_OPTIONS = st.builds(DeltaOptions, delta_order=st.integers(0, 3), delta_window=st.integers(1, 4))
SHIFTED_OPTIONS = st.builds(
    ShiftedDeltaOptions, delta_window=st.integers(1, 3), num_blocks=st.integers(0, 4), block_shift=st.integers(-2, 5)
)
SLIDING_OPTIONS = st.builds(
    SlidingCmvnOptions, cmn_window=st.integers(1, 9), norm_vars=st.booleans(), center=st.booleans()
)


@given(
    lengths=st.lists(st.integers(0, 25), min_size=1, max_size=4),
    function=st.one_of(
        st.builds(partial, st.just(add_deltas), options=DELTA_OPTIONS),
        st.builds(partial, st.just(add_shifted_deltas), options=SHIFTED_OPTIONS),
        st.builds(partial, st.just(sliding_cmvn), options=SLIDING_OPTIONS),
        st.just(partial(apply_own_cmvn, options=VARS)),
    ),
    extra=st.integers(0, 9),
)
@settings(max_examples=50)
def test_an_utterance_is_the_same_in_any_batch(lengths: list[int], function: Any, extra: int) -> None:
    padded = np.full((len(lengths), max(lengths) + extra, 3), np.nan)
    for row, length in zip(padded, lengths, strict=True):
        row[:length] = np.random.default_rng(length).normal(size=(length, 3))
    for kind in (np.asarray, torch.from_numpy):
        batch = np.asarray(function(kind(padded), lengths=lengths))
        for row, out, length in zip(padded, batch, lengths, strict=True):
            np.testing.assert_allclose(out[:length], function(row[:length]), rtol=0, atol=1e-9)
            assert not out[length:].any()
