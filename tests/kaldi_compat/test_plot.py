"""Plots have the right axes, values and messages."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from kaldi_compat import Fbank, FbankOptions, FeatureError, MfccOptions, Pitch, PitchOptions, SpectrogramOptions, plot
from kaldi_compat.exact.mel import compute_mel_banks

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def figure() -> Iterator[Any]:
    matplotlib.use("Agg")
    from matplotlib import pyplot

    yield pyplot.figure()
    pyplot.close("all")


RAMP = np.arange(98 * 80, dtype=np.float32).reshape(98, 80)


def test_time_axis_is_that_of_the_audio() -> None:
    axes = plot.show_features(RAMP, FbankOptions(num_mel_bins=80))
    # Frame 0 is centered at 12.5 ms, frame 97 at 982.5 ms; each is a shift wide.
    assert axes.get_xlim() == pytest.approx((0.0075, 0.9875))
    edge = plot.show_features(RAMP, FbankOptions(num_mel_bins=80, snip_edges=False))
    assert edge.get_xlim()[0] == pytest.approx(0.0)


def test_mel_bins_are_labelled_with_their_centers() -> None:
    options = FbankOptions(num_mel_bins=80)
    axes = plot.show_features(RAMP, options)
    assert axes.get_yticklabels()[-1].get_text() == f"79 ({compute_mel_banks(options).centers[79]:.0f})"
    with_energy = plot.show_features(np.ones((5, 81)), FbankOptions(num_mel_bins=80, use_energy=True))
    assert with_energy.get_yticks()[0] == 1  # the energy is column 0


def test_spectrogram_reaches_the_nyquist_frequency() -> None:
    axes = plot.show_features(np.ones((5, 257)), SpectrogramOptions(sample_frequency=16000))
    assert axes.get_ylabel() == "frequency in Hz" and axes.get_yticklabels()[-1].get_text() == "8000"


def test_cepstra_and_plain_arrays_are_not_labelled_in_hz() -> None:
    assert plot.show_features(np.ones((5, 13)), MfccOptions()).get_ylabel() == "coefficient"
    plain = plot.show_features(np.ones((5, 13)))
    assert (plain.get_xlabel(), plain.get_ylabel(), plain.get_xlim()) == ("frame", "column", (-0.5, 4.5))


def test_values_that_are_not_finite_do_not_spoil_the_scale() -> None:
    values = RAMP.copy()
    values[3, 4], values[5, 6] = np.nan, np.inf
    image = plot.show_features(values).images[0]
    assert image.get_clim() == (0.0, RAMP.max())
    assert image.get_array().mask.sum() == 2


def test_tensors_with_gradients_and_modules_are_taken() -> None:
    fbank = Fbank(dither=0.0)
    features = fbank((torch.randn(8000) * 1000).requires_grad_())
    assert plot.show_features(features, fbank, title="utt1").get_title() == "utt1"


def test_batches_and_foreign_options_are_refused() -> None:
    with pytest.raises(FeatureError, match=r"the shape \(2, 5, 3\): pass the features of one utterance"):
        plot.show_features(np.ones((2, 5, 3)))
    with pytest.raises(FeatureError, match="PitchOptions does not describe a spectral feature"):
        plot.show_features(np.ones((5, 3)), PitchOptions())


def test_pitch_is_drawn_at_the_frames_times_and_unvoiced_frames_are_pale() -> None:
    track = np.array([[0.9, 100.0], [0.1, 150.0], [0.9, 200.0]])
    pale, strong = plot.show_pitch(track, PitchOptions()).lines
    assert pale.get_xdata() == pytest.approx([0.0125, 0.0225, 0.0325])
    assert pale.get_ydata().tolist() == [100.0, 150.0, 200.0]
    assert np.isnan(strong.get_ydata()).tolist() == [False, True, False]
    with pytest.raises(FeatureError, match="show_features"):
        plot.show_pitch(np.ones((5, 3)), Pitch())


def test_pitch_over_a_spectrogram_shares_its_frequency_axis() -> None:
    axes = plot.show_pitch(np.full((50, 2), 120.0), PitchOptions(), spectrogram=np.ones((50, 257)))
    bottom, top = axes.images[0].get_extent()[2:]
    assert (bottom, top) == pytest.approx((-15.625, 8015.625))
    assert axes.get_ylim() == (0, 1000)


def test_pitch_without_options_shares_the_time_axis_of_a_spectrogram() -> None:
    axes = plot.show_pitch(np.full((50, 2), 120.0), spectrogram=np.ones((50, 257)))
    assert axes.lines[0].get_xdata()[[0, -1]] == pytest.approx([0.0125, 0.5025])
    assert axes.get_xlabel() == "time in seconds"


def test_mel_banks_are_drawn_for_each_warp() -> None:
    options = FbankOptions(num_mel_bins=10)
    axes = plot.show_mel_banks(options, vtln_warp=[1.0, 0.9])
    assert len(axes.lines) == 20
    np.testing.assert_array_equal(axes.lines[13].get_xdata(), np.arange(257) * 16000 / 512)
    np.testing.assert_array_equal(axes.lines[13].get_ydata(), compute_mel_banks(options, 0.9).weights[:, 3])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["VTLN factor 1", "VTLN factor 0.9"]
    with pytest.raises(FeatureError, match="no mel filters"):
        plot.show_mel_banks(SpectrogramOptions())


def test_compare_states_the_largest_and_the_mean_difference() -> None:
    other = RAMP.copy()
    other[10, 20] += 7.84
    *both, difference = plot.compare(RAMP, other, names=("ours", "Kaldi's"))
    assert difference.get_title() == "Kaldi's - ours: largest 7.84, mean 0.001"
    assert {axes.images[0].get_clim() for axes in both} == {(0.0, RAMP.max())}
    with pytest.raises(FeatureError, match="shapes"):
        plot.compare(RAMP, RAMP[:5])


def test_compare_counts_values_that_are_finite_in_one_only() -> None:
    other = RAMP.copy()
    other[1, 1] = np.nan
    assert plot.compare(RAMP, other)[2].get_title() == "second - first: largest 0, mean 0, 1 not finite"


def test_without_matplotlib_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("matplotlib")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_Hide("matplotlib"), *sys.meta_path])
    with pytest.raises(ModuleNotFoundError, match=r"Plots need matplotlib.*pip install matplotlib.*'\.\[plot\]'"):
        plot.show_features(RAMP)


class _Hide:
    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(self, name: str, *_: Any) -> None:
        if name.partition(".")[0] == self.package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
