"""Reverberation: Kaldi's samples bit for bit, convolution and signal-to-noise ratio."""

from __future__ import annotations

from functools import partial
from typing import Any

import kaldiio
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kaldi_compat.errors import AudioError, FeatureError
from kaldi_compat.exact.fft import compute_packed_irfft, compute_packed_rfft
from kaldi_compat.functional.reverberate import AdditiveSignal, convolve, extract_early_part, reverberate
from kaldi_compat.options.postprocessing import ReverberationOptions
from tests.support.native import assert_same_bits, needs_c
from tests.support.reference import ROOT

RATE = 16000.0
RANDOM = np.random.default_rng(0)
AS_IT_IS = ReverberationOptions(normalize_output=False)


def audio(name: str) -> np.ndarray:
    return kaldiio.load_mat(str(ROOT / "inputs" / "wav" / f"{name}.wav"))[1].astype(np.float32)


ROOM = audio("rir16k") / np.float32(32768)


@pytest.mark.parametrize(
    ("case", "name", "additive", "options"),
    [
        ("001", "speech16k_b", [], ReverberationOptions()),
        ("002", "speech16k_b", [AdditiveSignal(audio("noise16k"), 10.0, 0.1)], ReverberationOptions()),
        ("003", "len960", [], ReverberationOptions(volume=0.5, shift_output=False)),
    ],
)
def test_samples_are_kaldis(
    case: str, name: str, additive: list[AdditiveSignal], options: ReverberationOptions
) -> None:
    _, kaldis = kaldiio.load_mat(str(ROOT / "expected" / "reverb" / case / "o.wav"))
    ours = np.trunc(reverberate(audio(name), RATE, ROOM, additive, options))
    differing = np.flatnonzero(ours != kaldis)
    # The level comes from BLAS's sum of squares, which another processor may round differently.
    assert len(differing) <= 5
    assert np.abs(ours - kaldis).max() <= 1


@given(st.integers(2, 11), st.integers(0, 2**31))
@settings(max_examples=30)
def test_packed_fft_equals_numpys(log_points: int, seed: int) -> None:
    signal = np.random.default_rng(seed).normal(size=(2, 1 << log_points)).astype(np.float32)
    re, im = compute_packed_rfft(signal)
    bins = np.fft.rfft(signal)
    scale = np.abs(bins).max()
    np.testing.assert_allclose(re, bins.real[:, :-1], atol=2e-4 * scale)
    np.testing.assert_allclose(im[:, 0], bins.real[:, -1], atol=2e-4 * scale)
    np.testing.assert_allclose(im[:, 1:], bins.imag[:, 1:-1], atol=2e-4 * scale)
    np.testing.assert_allclose(compute_packed_irfft(re, im) / signal.shape[1], signal, atol=1e-3)


@given(st.integers(1, 300), st.integers(1, 40))
@settings(max_examples=40)
def test_a_convolution_up_to_kaldis_tone_at_the_nyquist(samples: int, taps: int) -> None:
    signal, room = RANDOM.normal(size=samples), RANDOM.normal(size=taps)
    # Neither end of the spectrum in the filter: then Kaldi's product of the two ends has no effect.
    room = np.convolve(room, [1.0, 0.0, -1.0])
    wanted = np.convolve(signal, room)
    np.testing.assert_allclose(convolve(torch.tensor(signal), torch.tensor(room)).numpy(), wanted, atol=1e-9)
    ours = convolve(signal.astype(np.float32), room.astype(np.float32))
    np.testing.assert_allclose(ours, wanted, atol=1e-3 * np.abs(wanted).max() + 1e-4)


def test_kaldis_tone_is_present() -> None:
    # One block: the error is a constant and an alternating part, by the algebra of the two mixed-up bins.
    signal, room = RANDOM.normal(size=50), RANDOM.normal(size=30)
    error = convolve(torch.tensor(signal), torch.tensor(room)).numpy() - np.convolve(signal, room)
    sign = (-1.0) ** np.arange(len(error))
    x, h = (signal.sum(), (signal * sign[:50]).sum()), (room.sum(), (room * sign[:30]).sum())
    ends = np.array([-x[1] * h[1], x[0] * h[1] + x[1] * h[0] - x[1] * h[1]]) / 128
    np.testing.assert_allclose(error, ends[0] + ends[1] * sign, atol=1e-9)


def test_torch_computes_the_same() -> None:
    speech = audio("speech16k_b")
    noise = AdditiveSignal(audio("noise16k"), 5.0, 0.2)
    ours = reverberate(torch.tensor(speech), RATE, torch.tensor(ROOM), [noise])
    np.testing.assert_allclose(ours, reverberate(speech, RATE, ROOM, [noise]), atol=2e-5 * np.abs(speech).max())


def test_a_batch_is_each_by_itself() -> None:
    batch = RANDOM.normal(0, 1000, (3, 4000)).astype(np.float32)
    noise = AdditiveSignal(RANDOM.normal(0, 50, 1000), 10.0, 0.05)
    for kind in (batch, torch.tensor(batch)):
        room = ROOM if kind is batch else torch.tensor(ROOM)
        together = reverberate(kind, RATE, room, [noise])
        for each, out in zip(kind, together, strict=True):
            np.testing.assert_allclose(reverberate(each, RATE, room, [noise]), out, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize(
    ("start", "snr"),
    [(0.0, 10.0), (0.1, 0.0), (-0.0, -20.0)],
)
def test_the_ratio_of_speech_to_noise(start: float, snr: float) -> None:
    speech = RANDOM.normal(0, 1000, 8000).astype(np.float32)
    noise = RANDOM.normal(0, 3, 20000).astype(np.float32)
    mixed = reverberate(speech, RATE, None, [AdditiveSignal(noise, snr, start)], AS_IT_IS)
    added = (mixed - speech).astype(np.float64)
    offset = int(start * RATE)
    assert not added[:offset].any()
    scale = added[offset:] @ noise[: 8000 - offset] / (noise[: 8000 - offset].astype(np.float64) ** 2).sum()
    ratio = np.mean(speech.astype(np.float64) ** 2) / (np.mean(noise.astype(np.float64) ** 2) * scale**2)
    assert 10 * np.log10(ratio) == pytest.approx(snr, abs=1e-2)


def test_a_noise_after_the_end_is_not_heard() -> None:
    speech = RANDOM.normal(0, 1000, 800).astype(np.float32)
    for start in (1.0, 1e30, 1e300, np.inf):
        late = AdditiveSignal(np.ones(100, np.float32), 0.0, start)
        np.testing.assert_array_equal(reverberate(speech, RATE, None, [late], AS_IT_IS), speech)


@pytest.mark.parametrize(
    ("options", "length"),
    [
        (ReverberationOptions(), 4000),
        (ReverberationOptions(shift_output=False), 4000 + len(ROOM) - 1),
        (ReverberationOptions(duration=-1.0), 4000),
        (ReverberationOptions(duration=-1.0, shift_output=False), 4000 + len(ROOM) - 1),
        (ReverberationOptions(duration=0.1), 1600),
        (ReverberationOptions(duration=1.5 / RATE), 1),
        (ReverberationOptions(duration=1.0), 16000),
    ],
)
def test_output_has_the_length_that_the_options_ask_for(options: ReverberationOptions, length: int) -> None:
    speech = RANDOM.normal(0, 1000, 4000).astype(np.float32)
    out = reverberate(speech, RATE, ROOM, options=options)
    assert out.shape == (length,)
    # Beyond the input's length the signal repeats.
    np.testing.assert_array_equal(out[4000:8000], out[: len(out[4000:8000])])


def test_volume_scales_and_power_is_restored() -> None:
    speech = RANDOM.normal(0, 1000, 4000).astype(np.float32)
    plain = reverberate(speech, RATE, ROOM, options=AS_IT_IS)
    np.testing.assert_allclose(reverberate(speech, RATE, ROOM, options=ReverberationOptions(volume=0.25)), plain / 4)
    # Over the whole reverberation, of which 4000 samples are kept, the power is that of the input.
    room = np.zeros(5, np.float32)
    room[2] = 0.1
    normalized = reverberate(speech, RATE, room).astype(np.float64)
    assert np.mean(normalized**2) == pytest.approx(np.mean(speech.astype(np.float64) ** 2), rel=1e-2)


@pytest.mark.parametrize("changes", [{"volume": 1e-46}, {"duration": 1e-46}])
def test_an_option_that_is_zero_in_float_has_no_effect(changes: dict[str, float]) -> None:
    """In C++, ``1e-46f > 0`` is false."""
    speech = RANDOM.normal(0, 1000, 4000).astype(np.float32)
    np.testing.assert_array_equal(reverberate(speech, RATE, ROOM, **changes), reverberate(speech, RATE, ROOM))


@pytest.mark.parametrize("kind", [np.zeros, torch.zeros])
def test_silence_stays_silent(kind: Any) -> None:
    room = ROOM if kind is np.zeros else torch.tensor(ROOM)
    assert not reverberate(kind(2000) if kind is torch.zeros else np.zeros(2000, np.float32), RATE, room).any()


def test_early_part_lies_around_the_peak() -> None:
    room = np.zeros(4000, np.float32)
    room[1000] = 1.0
    assert len(extract_early_part(room, RATE)) == 16 + 800
    assert extract_early_part(room, RATE).argmax() == 16
    assert len(extract_early_part(room[:1001], RATE)) == 17


def test_invalid_arguments_are_refused() -> None:
    speech = np.ones(100, np.float32)
    with pytest.raises(AudioError, match="is empty"):
        reverberate(speech[:0], RATE)
    with pytest.raises(AudioError, match="is empty"):
        reverberate(speech, RATE, ROOM[:0])
    with pytest.raises(AudioError, match=r"impulse response must have one channel, not the shape \(1, "):
        reverberate(speech, RATE, ROOM[None])
    with pytest.raises(FeatureError, match="not list: convert it"):
        reverberate([1.0, 2.0], RATE)  # type: ignore[type-var]
    for start in (-1.0, -np.inf, np.nan):
        with pytest.raises(AudioError, match="before the signal"):
            reverberate(speech, RATE, None, [AdditiveSignal(speech, 0.0, start)])
    for snr in (-1e5, -np.inf, np.nan):
        with pytest.raises(AudioError, match="ratio of"):
            reverberate(speech, RATE, None, [AdditiveSignal(speech, snr)])
    with pytest.raises(AudioError, match="noise must have the shape"):
        reverberate(speech, RATE, None, [AdditiveSignal(speech[:0], 0.0)])
    for duration in (0.5 / RATE, 1e30, np.inf):
        with pytest.raises(AudioError, match=r"duration=.* samples: expected 1 to"):
            reverberate(speech, RATE, options=ReverberationOptions(duration=duration))


def test_gradients() -> None:
    signal = torch.randn(20, dtype=torch.float64, requires_grad=True)
    room = torch.tensor([0.2, 1.0, 0.3, -0.4], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda signal, room: reverberate(signal, RATE, room), (signal, room))


@needs_c
@pytest.mark.parametrize("taps", [1, 2, 3, 16, 17, 100, 1500])
def test_convolution_in_c_gives_numpys_bits(taps: int) -> None:
    rng = np.random.default_rng(taps)
    for samples in (1, 2, 50, 3000, 200_000):
        signal = rng.normal(0, 1000, samples).astype(np.float32)
        response = rng.normal(0, 1, taps).astype(np.float32)
        assert_same_bits(partial(convolve, signal, response))


def test_lengths_are_counted_in_single_precision_as_in_kaldi() -> None:
    signal = np.ones((1 << 24) + 3, np.float32)
    assert len(reverberate(signal, 16000.0)) == (1 << 24) + 4
    assert len(reverberate(signal[:-2], 16000.0)) == 1 << 24
