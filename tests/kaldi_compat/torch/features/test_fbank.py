"""Log-mel features against Kaldi's, and against kaldi-native-fbank's for options drawn at random."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kaldi_compat import AudioError, Fbank, FbankOptions, KaldiRandom, MfccOptions, OptionError
from kaldi_compat.functional import checks
from kaldi_compat.numpy import Fbank as ArrayFbank
from kaldi_compat.options.spectral import WINDOW_TYPES
from kaldi_compat.torch.features import spectral
from tests.support.native import computing
from tests.support.native_fbank import by_native_fbank
from tests.support.processes import output_of
from tests.support.reference import audio, errors


def test_utterances_of_a_list_have_their_own_vtln_factors() -> None:
    utterances, warps = [torch.randn(size) * 1000 for size in (1600, 900, 1600)], [1.1, 1.0, 0.9]
    for fbank in (Fbank(dither=0.0), Fbank(dither=0.0, engine="torch")):
        for features, utterance, warp in zip(fbank(utterances, vtln_warp=warps), utterances, warps, strict=True):
            torch.testing.assert_close(features, fbank(utterance, vtln_warp=warp), rtol=0, atol=5e-5)


def test_torch_computes_instead_of_the_slower_numpy_unless_the_exact_engine_is_requested() -> None:
    samples = 1000 * torch.randn(2, 1600, generator=torch.Generator().manual_seed(1))
    calls = [lambda module: module(samples), lambda module: module(list(samples))[1]]
    exact, fast = ([call(Fbank(dither=0.0, engine=name)) for call in calls] for name in ("exact", "torch"))
    with computing(None):
        for call, bits, other_bits in zip(calls, exact, fast, strict=True):
            assert torch.equal(call(Fbank(dither=0.0, engine="exact")), bits)
            assert torch.equal(call(Fbank(dither=0.0)), other_bits)
    assert not torch.equal(exact[0], fast[0])


def test_ill_conditioned_frames_are_the_same_in_a_batch() -> None:
    sounds = {key: torch.from_numpy(samples[0].copy()) for key, _, samples in audio("main.scp")}
    utterances = [sounds["speech16k"], sounds["chirp16k"]]
    lengths, warps = torch.tensor([len(x) for x in utterances]), torch.tensor([1.1, 0.9])
    fbank = Fbank(dither=0.0)
    padded = torch.nn.utils.rnn.pad_sequence(utterances, batch_first=True)
    features, counts = fbank(padded, lengths, vtln_warp=warps)
    for utterance, warp, row, count in zip(utterances, warps.tolist(), features, counts, strict=True):
        torch.testing.assert_close(row[:count], fbank(utterance, vtln_warp=warp), rtol=0, atol=5e-5)


PRECISION = """
import torch
from kaldi_compat import Fbank
x = torch.randn(8000, generator=torch.Generator().manual_seed(0)) * 1000
fbank = Fbank(num_mel_bins=80, dither=0.0)
before = fbank(x)
{setting}
assert (fbank(x) - before).abs().max() < 1e-5
"""


@pytest.mark.costly
@pytest.mark.parametrize(
    "setting",
    [
        "torch.set_float32_matmul_precision('medium')",
        pytest.param(
            "torch.backends.mkldnn.matmul.fp32_precision = 'bf16'",
            marks=pytest.mark.skipif(not hasattr(torch.backends.mkldnn, "matmul"), reason="from torch 2.9 on"),
        ),
    ],
)
def test_reduced_precision_of_either_kind_changes_nothing(setting: str) -> None:
    """In a process of its own: torch does not let one go back from the newer setting to the older."""
    output_of(PRECISION.format(setting=setting))


@settings(max_examples=60, deadline=None)
@given(
    length=st.integers(1, 3000),
    seed=st.integers(0, 2**31),
    options=st.builds(
        FbankOptions,
        dither=st.just(0.0),
        sample_frequency=st.sampled_from([8000.0, 16000.0]),
        frame_length=st.sampled_from([20.0, 25.0, 32.0]),
        frame_shift=st.sampled_from([5.0, 10.0, 12.5]),
        preemphasis_coefficient=st.sampled_from([0.0, 0.5, 0.97, 1.0]),
        remove_dc_offset=st.booleans(),
        window_type=st.sampled_from([w for w in WINDOW_TYPES if w != "sine"]),
        snip_edges=st.booleans(),
        num_mel_bins=st.integers(3, 40),
        low_freq=st.sampled_from([20.0, 60.0, 300.0]),
        high_freq=st.sampled_from([0.0, -200.0, 3800.0]),
        use_energy=st.booleans(),
        raw_energy=st.booleans(),
        htk_compat=st.booleans(),
        use_power=st.booleans(),
    ),
)
def test_random_options_against_kaldi_native_fbank(length: int, seed: int, options: FbankOptions) -> None:
    samples = np.round(np.random.default_rng(seed).normal(0, 3000, length)).astype(np.float32)
    theirs = by_native_fbank(samples, options)
    ours = Fbank(options)(torch.from_numpy(samples)).numpy()
    assert len(ours) == len(theirs)
    if len(theirs):
        assert errors(ours, theirs).max() < 2e-4


def test_kaldis_noise_runs_on_through_rows_and_skips_what_is_padding() -> None:
    fbank = Fbank()
    x = torch.randn(3, 4000, generator=torch.Generator().manual_seed(0)) * 1000
    lengths = torch.tensor([4000, 300, 2000])
    features, counts = fbank(x, lengths, generator=KaldiRandom())
    generator = KaldiRandom()
    for row, length, padded, count in zip(x, lengths, features, counts, strict=True):
        alone = fbank(row[:length], generator=generator)
        torch.testing.assert_close(padded[:count], alone, rtol=0, atol=2e-5)
        assert not padded[count:].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_warns_once_of_audio_on_the_wrong_scale(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_warned", set())
    fbank = Fbank(dither=0.0)
    x = torch.linspace(-1, 1, 1000).to(dtype)
    with pytest.warns(UserWarning, match="waveform_scale=32768") as caught:
        fbank(x)
    assert [warning.filename for warning in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fbank(x)
        Fbank(dither=0.0)(x)
        fbank((x * 32767).to(torch.int16))


def test_waveform_scale_is_a_factor_on_the_samples() -> None:
    x = torch.randn(2000, generator=torch.Generator().manual_seed(0)).clamp(-1, 1)
    scaled = Fbank(dither=0.0, waveform_scale=32768.0)(x)
    torch.testing.assert_close(scaled, Fbank(dither=0.0)(x * 32768), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("samples", "lengths"),
    [
        (torch.tensor(1.0), None),
        (torch.ones(400, dtype=torch.complex64), None),
        (torch.ones(400, dtype=torch.bool), None),
        (torch.ones(400), torch.tensor([400])),
        (torch.ones(2, 400), torch.tensor([400])),
        (torch.ones(1, 400), torch.tensor([400.0])),
        (torch.ones(1, 400), torch.tensor([401])),
        (torch.ones(1, 400), torch.tensor([-1])),
        ([torch.ones(1, 400)], None),
    ],
)
def test_invalid_samples_are_refused(samples: Any, lengths: Any) -> None:
    with pytest.raises(AudioError):
        Fbank(dither=0.0)(samples, lengths)


def test_options_of_another_feature() -> None:
    with pytest.raises(OptionError, match="FbankOptions"):
        Fbank(MfccOptions())


def test_stereo_of_soundfile_is_refused() -> None:
    with pytest.raises(AudioError, match="the last axis is time"):
        Fbank(dither=0.0)(torch.zeros(16000, 2))
    assert Fbank(dither=0.0, snip_edges=False)(torch.zeros(500, 200), torch.full((500,), 200))[0].shape == (500, 1, 23)


@pytest.mark.parametrize(
    ("engine", "samples", "reason"),
    [
        ("exact", torch.zeros(800, dtype=torch.float64), "float64"),
        ("exact", torch.zeros(800, requires_grad=True), "autograd"),
        ("triton", torch.zeros(800), "not on CUDA"),
    ],
)
def test_engine_that_cannot_compute_says_why(engine: str, samples: torch.Tensor, reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        Fbank(dither=0.0, engine=engine)(samples)


def test_unknown_engine_is_refused() -> None:
    with pytest.raises(OptionError, match="engine must be one of auto, exact, torch, triton, not 'cuda'"):
        Fbank(engine="cuda")


def test_subclass_with_own_features_is_not_accelerated() -> None:
    class Louder(Fbank):
        def features_of_energies(self, energies: torch.Tensor, log_energy: torch.Tensor | None) -> torch.Tensor:
            return super().features_of_energies(energies, log_energy) + 1

    x = torch.randint(-1000, 1000, (2000,), dtype=torch.int16, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(Louder(dither=0.0)(x), Fbank(dither=0.0)(x) + 1, rtol=0, atol=1e-4)


@pytest.mark.parametrize("use_log_fbank", [True, False])
@pytest.mark.parametrize("htk_compat", [True, False])
def test_energy_column_is_where_the_exact_engine_has_it(htk_compat: bool, use_log_fbank: bool) -> None:
    options = {"use_energy": True, "htk_compat": htk_compat, "use_log_fbank": use_log_fbank, "dither": 0.0}
    samples = torch.randn(4000, generator=torch.Generator().manual_seed(0)) * 1000
    exact, plain = (Fbank(engine=engine, **options)(samples) for engine in ("exact", "torch"))
    torch.testing.assert_close(plain, exact, rtol=1e-4, atol=1e-4)
    assert exact.shape[1] == Fbank(**options).dim


def test_each_block_of_frames_has_its_own_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectral, "BLOCK", 8)
    samples = torch.zeros(2, 8000)
    exact, plain = (Fbank(dither=2.0, engine=engine)(samples, generator=KaldiRandom()) for engine in ("exact", "torch"))
    torch.testing.assert_close(plain, exact, rtol=1e-4, atol=1e-3)


def test_audio_in_the_unit_range_is_warned_of_after_audio_on_kaldis_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_warned", set())
    for module in (Fbank(dither=0.0), ArrayFbank(dither=0.0)):
        checks._warned.clear()
        audio = np.random.default_rng(0).uniform(-0.9, 0.9, 1000).astype(np.float32)
        given = torch.from_numpy if isinstance(module, Fbank) else np.asarray
        module(given(audio * 9999))
        with pytest.warns(UserWarning, match="waveform_scale=32768"):
            module(given(audio))
        checks._warned.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            module._trust_scale()(given(audio))


def test_errors_tell_what_to_write_instead() -> None:
    with pytest.raises(OptionError, match="not 'hann': did you mean 'hanning'"):
        Fbank(window_type="hann")
    with pytest.raises(AudioError, match="are 16000 utterances of 1 sample, and"):
        Fbank(dither=0.0)(torch.zeros(16000, 1))


@pytest.mark.skipif(not hasattr(torch.compiler, "is_exporting"), reason="PyTorch 2.4 does not say that it exports")
def test_warning_of_a_dithered_export_names_the_users_line() -> None:
    with pytest.warns(UserWarning, match="exported with dither=1") as caught:
        torch.export.export(Fbank(), (torch.zeros(2, 1000),))
    assert {warning.filename for warning in caught if "dither" in str(warning.message)} == {__file__}
