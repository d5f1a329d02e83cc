"""Several threads compute parts of one batch."""

from __future__ import annotations

import numpy as np
import pytest

from kaldi_compat import native
from kaldi_compat.exact.batch import make_batch
from kaldi_compat.exact.engine import compute
from kaldi_compat.exact.plan import plan_of
from kaldi_compat.options.spectral import PlpOptions


@pytest.mark.skipif(not native.library(), reason="needs the C library")
def test_new_options_in_two_threads_keep_their_tables() -> None:
    samples = np.random.default_rng(0).normal(0, 1000, 48000).astype(np.int16)
    for size in range(20, 80):
        plan = plan_of(PlpOptions(frame_length=float(size), dither=0.0))
        batch = make_batch(plan, samples)
        np.testing.assert_array_equal(compute(plan, batch, threads=2), compute(plan, batch, threads=1))
