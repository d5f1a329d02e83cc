"""Voice activity: the vote of neighbouring frames."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kaldi_compat import native
from kaldi_compat.errors import FeatureError, OptionError
from kaldi_compat.functional.block_vad import detect_voiced
from kaldi_compat.functional.cmvn import sliding_cmvn
from kaldi_compat.functional.vad import compute_vad, select_voiced, voiced_cmvn
from kaldi_compat.options.frontend import VoicedCmvnOptions
from kaldi_compat.options.postprocessing import VadOptions


@given(
    st.lists(st.integers(0, 20), min_size=0, max_size=25),
    st.integers(0, 4),
    st.integers(1, 9),
    st.integers(0, 5),
)
def test_frames_are_voiced_by_the_proportion_of_their_context(
    energies: list[int], context: int, tenths: int, padding: int
) -> None:
    options = VadOptions(
        vad_energy_threshold=9.75,
        vad_energy_mean_scale=0.0,
        vad_frames_context=context,
        vad_proportion_threshold=tenths / 10,
    )
    wanted = []
    for t in range(len(energies)):
        window = energies[max(0, t - context) : t + context + 1]
        # In integers, hence exact: at least this many tenths of the window exceed the threshold.
        wanted.append(10 * sum(energy > 9 for energy in window) >= tenths * len(window))
    padded = np.full((1, len(energies) + padding, 2), np.nan)
    padded[0, : len(energies), 0] = energies
    ours = compute_vad(padded.astype(np.float32), options, lengths=[len(energies)])[0]
    # In Kaldi's float arithmetic 0.7 * 10 is a little more than 7, so that a vote that just suffices may fail.
    window_sizes = [len(energies[max(0, t - context) : t + context + 1]) for t in range(len(energies))]
    clear = [(tenths * size) % 10 != 0 or tenths in (1, 2, 4, 5, 8) for size in window_sizes]
    np.testing.assert_array_equal(ours[: len(energies)][clear], np.array(wanted, np.float32)[clear])
    assert not ours[len(energies) :].any()


def test_the_mean_is_the_utterances_own() -> None:
    batch = torch.tensor([[10.0, 0.0, 99.0], [50.0, 40.0, 42.0]])[..., None]
    detect_voiced = compute_vad(batch, VadOptions(vad_energy_threshold=0.0, vad_energy_mean_scale=1.0), lengths=[2, 3])
    assert detect_voiced.tolist() == [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]


def test_selected_frames() -> None:
    features = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(select_voiced(features, np.array([1.0, 0.0, 1.0])), features[[0, 2]])
    of_tensors = select_voiced(torch.from_numpy(features), torch.tensor([1.0, 0.0, 1.0]))
    np.testing.assert_array_equal(of_tensors.numpy(), features[[0, 2]])
    for wrong in (np.ones(2), np.array([0.5, 1.0, 1.0]), np.zeros(3)):
        with pytest.raises(FeatureError):
            select_voiced(features, wrong)


@pytest.mark.parametrize(
    "wrong", [{"vad_proportion_threshold": 1.0}, {"vad_frames_context": -1}, {"vad_energy_mean_scale": -0.1}]
)
def test_invalid_options_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(OptionError, match=next(iter(wrong))):
        VadOptions(**wrong)  # type: ignore[arg-type]


def test_an_infinite_energy_does_not_count_without_the_mean() -> None:
    features = np.array([[np.inf], [9], [1]], np.float32)
    options = VadOptions(vad_energy_mean_scale=0.0)
    for each in (compute_vad(features, options), compute_vad(torch.tensor(features), options).numpy()):
        np.testing.assert_array_equal(each, [1, 1, 0])
    if native.library():
        np.testing.assert_array_equal(detect_voiced(features, np.array([0, 3]), options)[0], [1, 1, 0])


def test_the_rounding_of_kaldis_sum_decides_about_an_energy_at_the_threshold() -> None:
    # Energies of -50 plus this number of steps of 2^-18, and what Kaldi 5.5 wrote for them.
    steps = [272, 302, -61, -174, 175, -107, 237, 6, 143, -277, -562, -395, 39, -135, 142, -313, -257, -68, -120]
    steps += [-28, -153, -94, 139, 134, -289, -287, -333]
    features = (np.array(steps) / 2**18 - 50).astype(np.float32)[:, None]
    kaldis = [1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0]
    options = VadOptions(vad_energy_threshold=50, vad_energy_mean_scale=2)
    np.testing.assert_array_equal(compute_vad(features, options), kaldis)
    if native.library():
        np.testing.assert_array_equal(detect_voiced(features, np.array([0, len(features)]), options)[0], kaldis)


@pytest.mark.parametrize("of", [np.asarray, torch.as_tensor])
def test_the_voiced_frames_of_a_batch_are_those_of_each_utterance(of: Any) -> None:
    random = np.random.default_rng(0)
    features = (10 * random.standard_normal((3, 40, 5))).astype(np.float32)
    options, lengths = VoicedCmvnOptions(cmn_window=9, center=True), [40, 25, 1]
    features[2, 0, 0] = -50  # not voiced
    batch, counts = voiced_cmvn(of(features), options, lengths=of(np.array(lengths)))
    for found, count, row, length in zip(batch, counts, features, lengths, strict=True):
        alone = row[:length]
        kept = sliding_cmvn(alone, options)[compute_vad(alone, options) == 1]
        assert int(count) == len(kept)
        np.testing.assert_allclose(found[: len(kept)], kept, rtol=0, atol=1e-5)
        assert not found[len(kept) :].any()
    with pytest.raises(FeatureError, match="pass lengths"):
        voiced_cmvn(of(features), options)
    with pytest.raises(FeatureError, match="without columns"):
        compute_vad(of(features[..., :0]))
    with pytest.raises(FeatureError, match="must be from 0 to 40"):
        compute_vad(of(features), lengths=of(np.array([41, 1, 1])))
