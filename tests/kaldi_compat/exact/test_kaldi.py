"""The exact engine against Kaldi's stored outputs: the same bytes, computed in C and in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kaldi_compat.errors import OptionError
from kaldi_compat.exact.batch import make_batch
from kaldi_compat.exact.engine import compute, subtract_mean
from kaldi_compat.exact.plan import plan_of
from kaldi_compat.exact.rand import KaldiRandom
from kaldi_compat.exact.resample import resample_waveform
from kaldi_compat.options.spectral import FbankOptions, MfccOptions, PlpOptions, SpectrogramOptions
from tests.support.native import LEVELS, computing
from tests.support.reference import audio, cases_of, expected, flags_of, name_of, options_of

OPTIONS = {"fbank": FbankOptions, "mfcc": MfccOptions, "plp": PlpOptions, "spectrogram": SpectrogramOptions}
GROUPS = [group + suffix for group in OPTIONS for suffix in ("", "-dither")]
CASES = [case for case in cases_of(*GROUPS) if "len_empty.scp" not in case["cmd"]]  # there the program fails, not we


def features_of(case: dict[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Return the features of each utterance of a case that has any frames, Kaldi's random numbers running on."""
    flags, arguments = flags_of(case)
    plan = plan_of(options_of(OPTIONS[case["group"].partition("-")[0]], flags))
    random, computed = KaldiRandom(), {}
    for key, rate, samples in audio(arguments[0]):
        x = samples[0]
        rate_out = int(plan.options.sample_frequency)
        if rate != rate_out:
            x = resample_waveform(x.astype(np.float32), rate, rate_out)
        batch = make_batch(plan, x, vtln_warp=float(flags.get("vtln-warp", "1")))
        if plan.options.dither:
            batch = batch.with_seeds(random.frame_seeds(int(batch.rows[-1])))
        y = compute(plan, batch)
        if len(y):
            computed[key] = subtract_mean(y) if flags.get("subtract-mean") == "true" else y
    return computed


@pytest.mark.parametrize("how", [None, *LEVELS[-1:]])
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_same_bytes_as_kaldi(case: dict[str, Any], how: str | None) -> None:
    if case["exit"] != 0:
        with pytest.raises(OptionError):
            features_of(case)
        return
    kaldis = {key: value for key, value in expected(case).items() if value.size}
    with computing(how):
        ours = features_of(case)
    assert list(ours) == list(kaldis)
    for key, value in kaldis.items():
        assert ours[key].shape == value.shape
        assert ours[key].tobytes() == value.tobytes(), f"{key}: {(ours[key] != value).sum()} of {value.size} differ"
