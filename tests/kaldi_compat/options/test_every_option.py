"""Every option of a feature means the same in every engine: torch, NumPy and C."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest
import torch

from kaldi_compat.exact import engine
from kaldi_compat.exact.engine import make_batch
from kaldi_compat.exact.plan import make_plan
from kaldi_compat.options.declaration import get_info
from kaldi_compat.options.registry import SPECTRAL_FEATURES
from kaldi_compat.options.spectral import FrameOptions
from tests.support.native import LEVELS, computing

RNG = np.random.default_rng(0)
# Two utterances: the first frames of one are quiet, so that floors count.
AUDIO = [np.round(RNG.standard_normal(3000) * scale).astype(np.float32) for scale in (1000.0, np.repeat([0, 9], 1500))]
# Other values than the default, where neither the opposite, the next number nor a tenth more is one that counts.
OTHER: dict[str, Any] = {
    "energy_floor": 1e6,
    "high_freq": -1000.0,
    "htk_compat": True,
    "lpc_order": 14,
    "sample_frequency": 8000.0,
    "window_type": "hamming",
}
# Options that count only beside others.
BESIDE: dict[str, dict[str, Any]] = {
    "blackman_coeff": {"window_type": "blackman"},
    "round_to_power_of_two": {"frame_length": 24.0},
    "raw_energy": {"use_energy": True},
    "energy_floor": {"use_energy": True},
    "htk_compat": {"use_energy": True},
}
# Options of what is done before or after the features of an utterance; dithering needs the same noise.
ELSEWHERE = {"dither", "allow_downsample", "allow_upsample", "max_feature_vectors", "debug_mel", "allow_empty_bins",
             "vtln_low", "vtln_high"}  # fmt: skip
CASES = [
    (feature, field.name)
    for feature, kind in SPECTRAL_FEATURES.items()
    for field in dataclasses.fields(kind.options)
    if field.name not in ELSEWHERE
]


def other_value(field: dataclasses.Field[Any]) -> Any:
    """Return a value that differs from the default."""
    default = field.default
    if field.name in OTHER:
        return OTHER[field.name]
    if isinstance(default, bool):
        return not default
    value = default - 1 if isinstance(default, int) else 0.9 * default
    return value if get_info(field).allows(value) and value != default else default + 1


def of_torch(feature: str, options: FrameOptions) -> list[Any]:
    module = SPECTRAL_FEATURES[feature].import_class()(options, engine="torch")
    return [each.numpy() for each in module([torch.from_numpy(x) for x in AUDIO])]


@functools.cache
def of_exact(options: FrameOptions, how: str | None = None) -> list[Any]:
    plan = make_plan(options)
    with computing(how):
        return [engine.compute_batch_features(plan, make_batch(plan, x)) for x in AUDIO]


@pytest.mark.parametrize(("feature", "name"), CASES)
def test_option_counts_and_means_the_same_in_every_engine(feature: str, name: str) -> None:
    kind = SPECTRAL_FEATURES[feature].options
    fields = {field.name: field for field in dataclasses.fields(kind)}
    beside = {key: value for key, value in {"dither": 0.0, **BESIDE.get(name, {})}.items() if key in fields}
    usual = kind(**beside)
    changed = kind(**beside, **{name: other_value(fields[name])})
    before, after = of_exact(usual), of_exact(changed)
    assert any(
        one.shape != other.shape or not np.array_equal(one, other) for one, other in zip(before, after, strict=True)
    )
    for level in LEVELS[-1:]:
        for mine, expected in zip(of_exact(changed, level), after, strict=True):
            np.testing.assert_array_equal(mine, expected)
    for mine, expected in zip(of_torch(feature, changed), after, strict=True):
        np.testing.assert_allclose(mine, expected, rtol=2e-3, atol=2e-2 * max(1.0, float(np.abs(expected).max()) / 100))
