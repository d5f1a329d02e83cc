"""The torchaudio API has the same arguments, shapes and, up to rounding, numbers."""

from __future__ import annotations

import dataclasses
import inspect
import random
import sys
import warnings
from typing import Any

import numpy as np
import pytest
import torch

from kaldi_compat.errors import AudioError, OptionError
from kaldi_compat.options.spectral import FbankOptions, MfccOptions, PlpOptions
from kaldi_compat.torch.features.plp import Plp
from kaldi_standins import torchaudio as compliance
from tests.support.native_fbank import by_native_fbank

NAMES = ("fbank", "mfcc", "spectrogram")
OPTION_SETS = 200
SPEECH = 1000 * torch.randn(1, 8000, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def torchaudio_kaldi() -> Any:
    return pytest.importorskip("torchaudio.compliance.kaldi", exc_type=(ImportError, OSError))  # type: ignore[arg-type]


def random_options(name: str, rng: random.Random) -> dict[str, Any]:
    options: dict[str, Any] = {
        "frame_length": rng.choice([25.0, 20.0, 32.0, 10.0]),
        "frame_shift": rng.choice([10.0, 5.0, 12.5]),
        "preemphasis_coefficient": rng.choice([0.97, 0.0, 0.5]),
        "raw_energy": rng.random() < 0.5,
        "remove_dc_offset": rng.random() < 0.7,
        "round_to_power_of_two": rng.random() < 0.8,
        "sample_frequency": rng.choice([8000.0, 16000.0]),
        "snip_edges": rng.random() < 0.5,
        "subtract_mean": rng.random() < 0.3,
        "window_type": rng.choice(["povey", "hamming", "hanning", "rectangular", "blackman"]),
        "energy_floor": rng.choice([0.0, 1.0, 0.1]),
        "blackman_coeff": rng.choice([0.42, 0.4]),
        "channel": rng.choice([-1, 0, 1]),
    }
    if name != "spectrogram":
        options |= {
            "num_mel_bins": rng.choice([23, 20, 15]),
            "low_freq": rng.choice([20.0, 0.0, 60.0]),
            "high_freq": rng.choice([0.0, -200.0, 3800.0]),
            "htk_compat": rng.random() < 0.4,
            "use_energy": rng.random() < 0.5,
            "vtln_low": rng.choice([100.0, 150.0]),
            "vtln_high": rng.choice([-500.0, 3500.0]),
            "vtln_warp": rng.choice([1.0, 1.0, 0.9, 1.12]),
        }
    if name == "fbank":
        options |= {"use_log_fbank": rng.random() < 0.7, "use_power": rng.random() < 0.7}
    if name == "mfcc":
        options |= {"num_ceps": rng.choice([13, 10]), "cepstral_lifter": rng.choice([22.0, 0.0, 10.0])}
    return options


def kaldis_own(name: str, samples: torch.Tensor, options: dict[str, Any]) -> torch.Tensor | None:
    """Return features by Kaldi's C++ code in kaldi-native-fbank; None for options that it lacks."""
    if name == "spectrogram" or options["vtln_warp"] != 1.0 or options["subtract_mean"]:
        return None
    kind = FbankOptions if name == "fbank" else MfccOptions
    ours = {field.name for field in dataclasses.fields(kind)}
    chosen = kind(**{name: value for name, value in options.items() if name in ours}, dither=0.0, allow_empty_bins=True)
    return torch.from_numpy(by_native_fbank(samples[max(options["channel"], 0)].numpy(), chosen))


def distance(one: torch.Tensor, other: torch.Tensor, linear: bool) -> torch.Tensor:
    """Return differences relative to max(1, |value|), or, for linear energies, to the largest of the column."""
    scale = other.abs().amax(0, keepdim=True) if linear else other.abs()
    return ((one - other).abs() / scale.clamp(min=1)).flatten()


@pytest.mark.parametrize("name", NAMES)
def test_arguments_and_defaults_are_torchaudios(torchaudio_kaldi: Any, name: str) -> None:
    theirs, ours = (inspect.signature(getattr(module, name)).parameters for module in (torchaudio_kaldi, compliance))
    assert [(p.name, p.default) for p in ours.values()] == [(p.name, p.default) for p in theirs.values()]


@pytest.mark.parametrize("name", NAMES)
def test_defaults_are_those_of_torchaudios_documentation(name: str) -> None:
    expected: dict[str, Any] = {
        "blackman_coeff": 0.42,
        "channel": -1,
        "dither": 0.0,
        "energy_floor": 1.0,
        "frame_length": 25.0,
        "frame_shift": 10.0,
        "min_duration": 0.0,
        "preemphasis_coefficient": 0.97,
        "raw_energy": True,
        "remove_dc_offset": True,
        "round_to_power_of_two": True,
        "sample_frequency": 16000.0,
        "snip_edges": True,
        "subtract_mean": False,
        "window_type": "povey",
    }
    if name != "spectrogram":
        expected |= {"high_freq": 0.0, "htk_compat": False, "low_freq": 20.0, "num_mel_bins": 23, "use_energy": False}
        expected |= {"vtln_high": -500.0, "vtln_low": 100.0, "vtln_warp": 1.0}
    expected |= {
        "fbank": {"use_log_fbank": True, "use_power": True},
        "mfcc": {"cepstral_lifter": 22.0, "num_ceps": 13},
    }.get(name, {})
    _, *parameters = inspect.signature(getattr(compliance, name)).parameters.values()
    assert {parameter.name: parameter.default for parameter in parameters} == expected


def test_every_public_name_exists(torchaudio_kaldi: Any) -> None:
    assert all(callable(getattr(compliance, name)) for name in torchaudio_kaldi.__all__)


@pytest.mark.filterwarnings("ignore")
def test_random_option_sets_are_as_close_to_torchaudio_as_torchaudio_is_to_kaldi(torchaudio_kaldi: Any) -> None:
    rng = random.Random(7)
    torch.manual_seed(7)
    to_torchaudio, torchaudio_to_kaldi = [], []
    refused = 0
    for number in range(OPTION_SETS):
        name = NAMES[number % len(NAMES)]
        options = random_options(name, rng)
        samples = torch.randn(2, rng.randint(600, 6000)) * 1000
        try:
            theirs = getattr(torchaudio_kaldi, name)(samples, **options)
        except AssertionError:
            with pytest.raises(OptionError):
                getattr(compliance, name)(samples, **options)
            refused += 1
            continue
        ours = getattr(compliance, name)(samples, **options)
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        linear = not options.get("use_log_fbank", True)
        to_torchaudio.append(distance(ours, theirs, linear))
        kaldis = kaldis_own(name, samples, options)
        if kaldis is not None:
            torchaudio_to_kaldi.append(distance(theirs, kaldis, linear))
    assert refused < OPTION_SETS / 5 and len(torchaudio_to_kaldi) > OPTION_SETS / 5
    ours_off, theirs_off = torch.cat(to_torchaudio).numpy(), torch.cat(torchaudio_to_kaldi).numpy()
    for share in (0.5, 0.99, 0.999):
        assert np.quantile(ours_off, share) <= 1.1 * np.quantile(theirs_off, share)
    assert ours_off.max() < 3e-2


def test_a_batch_and_a_list_give_what_each_gives_alone() -> None:
    torch.manual_seed(0)
    batch = torch.randn(3, 2, 4000) * 1000
    options: dict[str, Any] = {"channel": 1, "subtract_mean": True, "use_energy": True}
    together = compliance.mfcc(batch, **options)
    alone = [compliance.mfcc(one, **options) for one in batch]
    torch.testing.assert_close(together, torch.stack(alone), rtol=1e-5, atol=1e-4)
    cut = [batch[0], batch[1, :, :2000]]
    for one, features in zip(cut, compliance.fbank(cut), strict=True):
        assert torch.equal(features, compliance.fbank(one))


@pytest.mark.parametrize("options", [{}, {"snip_edges": False}, {"min_duration": 1.0}, {"subtract_mean": True}])
@pytest.mark.parametrize("name", ["fbank", "mfcc", "spectrogram"])
def test_audio_shorter_than_a_frame_is_refused_as_by_torchaudio(
    name: str, options: dict[str, Any], torchaudio_kaldi: Any
) -> None:
    theirs, ours = getattr(torchaudio_kaldi, name), getattr(compliance, name)
    for samples in 0, 100, 399:
        for compute in theirs, ours:
            with pytest.raises(AssertionError):
                compute(torch.zeros(1, samples), **options)
    if name != "mfcc" or "min_duration" not in options:  # torchaudio's mfcc fails for min_duration.
        assert ours(torch.zeros(1, 400), **options).shape == theirs(torch.zeros(1, 400), **options).shape
    for refused in torch.zeros(2, 1, 399), [torch.zeros(1, 400), torch.zeros(1, 399)]:
        with pytest.raises(compliance.WaveformError, match=r"fewer samples \(399\) than a frame \(400\)"):
            compliance.fbank(refused, **options)


def test_shapes_of_short_audio(torchaudio_kaldi: Any) -> None:
    for samples in (799, 800):
        for dtype in (torch.float32, torch.float64):
            waveform = torch.zeros(1, samples, dtype=dtype)
            theirs, ours = (
                module.fbank(waveform, min_duration=0.1, sample_frequency=8000.0)
                for module in (torchaudio_kaldi, compliance)
            )
            assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)


def test_arrays_are_refused_with_advice() -> None:
    for waveform in np.zeros((1, 1600), np.float32), [np.zeros((1, 1600), np.float32)], np.zeros(1600):
        with pytest.raises(compliance.WaveformError, match=r"torch\.from_numpy"):
            compliance.fbank(waveform)


def test_audio_of_any_scale_brings_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compliance.fbank(0.1 * torch.randn(1, 4000), num_mel_bins=79)


def test_module_stands_in_for_torchaudios_under_its_name(
    torchaudio_kaldi: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torchaudio

    monkeypatch.setitem(sys.modules, "torchaudio.compliance.kaldi", compliance)
    monkeypatch.setattr(torchaudio.compliance, "kaldi", compliance)
    from torchaudio.compliance.kaldi import fbank

    waveform = torch.randn(1, 4000)
    found = torchaudio.compliance.kaldi.fbank(waveform)
    assert fbank is compliance.fbank and torch.equal(found, compliance.fbank(waveform))
    torch.testing.assert_close(found, torchaudio_kaldi.fbank(waveform), atol=1e-2, rtol=1e-2)


def test_names_that_wenet_imports_are_there() -> None:
    from kaldi_standins.torchaudio import Tensor, Tuple, math, torch  # noqa: F401


def test_plp_has_the_same_arguments() -> None:
    samples = torch.randn(1, 4000) * 1000
    assert torch.equal(compliance.plp(samples, num_ceps=9), Plp(PlpOptions(num_ceps=9, dither=0.0))(samples[0]))


def test_mel_banks_and_scales(torchaudio_kaldi: Any) -> None:
    for arguments in [
        (23, 512, 16000.0, 20.0, 0.0, 100.0, -500.0, 1.0),
        (40, 256, 8000.0, 60.0, -200.0, 100.0, -500.0, 1.1),
        (128, 512, 16000.0, 20.0, 0.0, 100.0, -500.0, 1.0),
        (128, 512, 16000.0, 20.0, 0.0, 100.0, -500.0, 0.9),
        (20, 400, 16000.0, 20.0, 0.0, 100.0, -500.0, 1.0),
    ]:
        for ours, theirs in zip(
            compliance.get_mel_banks(*arguments), torchaudio_kaldi.get_mel_banks(*arguments), strict=True
        ):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=2e-4)
    hertz = torch.linspace(0.0, 8000.0, 50)
    torch.testing.assert_close(compliance.mel_scale(hertz), torchaudio_kaldi.mel_scale(hertz))
    mel = torch.linspace(0.0, 2800.0, 50)
    torch.testing.assert_close(compliance.inverse_mel_scale(mel), torchaudio_kaldi.inverse_mel_scale(mel))
    warp = (100.0, 7500.0, 20.0, 8000.0, 0.9)
    torch.testing.assert_close(
        compliance.vtln_warp_mel_freq(*warp, mel), torchaudio_kaldi.vtln_warp_mel_freq(*warp, mel)
    )
    assert compliance.mel_scale_scalar(1000.0) == pytest.approx(torchaudio_kaldi.mel_scale_scalar(1000.0))
    assert compliance.inverse_mel_scale_scalar(900.0) == pytest.approx(torchaudio_kaldi.inverse_mel_scale_scalar(900.0))


@pytest.mark.parametrize(
    ("options", "empty", "tolerance"),
    [
        ({"num_mel_bins": 128, "window_type": "hanning", "htk_compat": True}, 1, 1e-3),
        ({"num_mel_bins": 80, "frame_length": 10.0}, 2, 3e-3),
        ({"num_mel_bins": 500, "use_energy": True, "use_log_fbank": False}, 140, 1e6),  # Energies are up to 1e10.
    ],
    ids=str,
)
def test_mel_bins_without_an_fft_bin_are_computed_as_in_torchaudio(
    torchaudio_kaldi: Any, options: dict[str, Any], empty: int, tolerance: float
) -> None:
    samples = torch.randn(1, 8000, generator=torch.Generator().manual_seed(3)) * 1000
    theirs = torchaudio_kaldi.fbank(samples, **options)
    ours = compliance.fbank(samples, **options)
    silent = theirs[0] == theirs[0].min()
    assert silent.sum() == empty
    torch.testing.assert_close(ours[:, silent], theirs[:, silent], rtol=1e-6, atol=0)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance)


def test_numbers_may_be_tensors_and_integers_floats(torchaudio_kaldi: Any) -> None:
    samples = torch.randn(1, 4000, generator=torch.Generator().manual_seed(3)) * 1000
    options: dict[str, Any] = {
        "num_mel_bins": 80.0,
        "frame_length": torch.tensor(32.0),
        "sample_frequency": torch.tensor(16000),
        "low_freq": np.float32(40),
        "vtln_warp": torch.tensor(0.9),
        "channel": torch.tensor(0),
    }
    ours = compliance.fbank(samples, **options)
    assert ours.shape == (22, 80)
    plain = {"num_mel_bins": 80, "frame_length": 32.0, "low_freq": 40.0, "vtln_warp": 0.9}
    torch.testing.assert_close(ours, torchaudio_kaldi.fbank(samples, **plain), rtol=0, atol=1e-3)
    banks, _ = compliance.get_mel_banks(80.0, 512, torch.tensor(16000.0), 20, 0, 100, -500, 1)  # type: ignore[arg-type]
    assert banks.shape == (80, 256)
    with pytest.raises(OptionError, match="num_mel_bins must be an integer"):
        compliance.fbank(samples, num_mel_bins=80.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("as_tensor", [False, True], ids=["float", "tensor"])
def test_windows_have_torchaudios_number_of_samples(torchaudio_kaldi: Any, as_tensor: bool) -> None:
    """FunASR shortens the window to the audio: it passes the audio's length in milliseconds, as a float or a tensor."""
    for rate, sizes in ((16000, [2, 40, 250, 251, 253, 254, 399]), (11025, range(2, 60))):
        for samples in sizes:
            wave = torch.randn(1, samples, generator=torch.Generator().manual_seed(samples)) * 1000
            length = (torch.tensor(samples) if as_tensor else samples) / rate * 1000
            options = {"sample_frequency": rate, "frame_length": length, "num_mel_bins": 4, "window_type": "hamming"}
            theirs = torchaudio_kaldi.fbank(wave, **options)
            assert theirs.shape == (1, 4)
            torch.testing.assert_close(compliance.fbank(wave, **options), theirs, rtol=1e-3, atol=2e-3)


PRIVATE = {
    "_get_epsilon": [("cpu", torch.float64)],
    "_next_power_of_2": [(0,), (1,), (2,), (3,), (400,), (512,)],
    "_get_strided": [
        (torch.arange(50.0), 10, 4, True),
        (torch.arange(50.0), 10, 4, False),
        (torch.arange(5.0), 10, 4, True),
    ],
    "_feature_window_function": [
        (kind, 25, 0.4, "cpu", torch.float64) for kind in ("hanning", "hamming", "povey", "rectangular", "blackman")
    ],
    "_get_log_energy": [(torch.randn(5, 9), torch.tensor(1e-7), floor) for floor in (0.0, 100.0)],
    "_get_waveform_and_window_properties": [
        (torch.randn(2, 900), channel, 16000.0, 10.0, 25.0, rounded, 0.97)
        for channel, rounded in ((-1, True), (1, False))
    ],
    "_get_window": [
        (torch.randn(900) * 100, 512, 400, 160, "povey", 0.42, snip, raw, 1.0, 0.0, True, 0.97)
        for snip, raw in ((True, True), (False, False))
    ],
    "_subtract_column_mean": [(torch.randn(4, 3), True), (torch.randn(4, 3), False)],
    "_get_dct_matrix": [(13, 23)],
    "_get_lifter_coeffs": [(13, 22.0)],
}


@pytest.mark.parametrize("name", PRIVATE)
def test_private_helpers_are_torchaudios(torchaudio_kaldi: Any, name: str) -> None:
    for arguments in PRIVATE[name]:
        theirs = getattr(torchaudio_kaldi, name)(*arguments)
        torch.testing.assert_close(getattr(compliance, name)(*arguments), theirs, rtol=1e-4, atol=1e-5)
    assert list(inspect.signature(getattr(compliance, name)).parameters) == list(
        inspect.signature(getattr(torchaudio_kaldi, name)).parameters
    )


def test_dithering_of_windows_is_not_of_the_given_size() -> None:
    torch.manual_seed(0)
    arguments = (torch.zeros(16000), 512, 400, 160, "rectangular", 0.42, True, True, 0.0)
    frames, _ = compliance._get_window(*arguments, 2.0, False, 0.0)
    assert abs(float(frames[:, :400].std()) - 2.0) < 0.1
    assert not frames[:, 400:].any()


def test_constants_are_torchaudios(torchaudio_kaldi: Any) -> None:
    names = [name for name in vars(torchaudio_kaldi) if name.isupper()]
    assert len(names) == 8
    for name in names:
        assert getattr(compliance, name) == getattr(torchaudio_kaldi, name)


@pytest.mark.parametrize(
    "changes",
    [
        {"channel": 2},
        {"frame_length": 100.0},
        {"frame_shift": 0.0},
        {"preemphasis_coefficient": 2.0},
        {"frame_length": 401 / 16, "round_to_power_of_two": False},
    ],
)
def test_private_helper_refuses_what_torchaudio_refuses(torchaudio_kaldi: Any, changes: dict[str, Any]) -> None:
    usual = {"channel": 0, "sample_frequency": 16000.0, "frame_shift": 10.0, "frame_length": 25.0}
    values = usual | {"round_to_power_of_two": True, "preemphasis_coefficient": 0.97} | changes
    for library in (torchaudio_kaldi, compliance):
        with pytest.raises(AssertionError):
            library._get_waveform_and_window_properties(torch.zeros(2, 900), **values)


def test_wrong_waveforms_are_refused() -> None:
    with pytest.raises(AssertionError):  # torchaudio raises the same error.
        compliance.mfcc(torch.empty(0))
    with pytest.raises(AudioError, match="channel=2 does not exist"):
        compliance.fbank(torch.zeros(2, 1600), channel=2)
    with pytest.raises(AudioError, match=r"shape \(channels, T\)"):
        compliance.fbank(torch.zeros(1600))


class Forty(torch.nn.Module):
    """A model that calls the function with options that nobody used before."""

    def forward(self, waveform: torch.Tensor) -> torch.Tensor:
        return compliance.fbank(waveform, num_mel_bins=40, low_freq=61.0)


def test_constants_made_in_inference_mode_do_not_spoil_training() -> None:
    waveform = torch.randn(1, 4000, generator=torch.Generator().manual_seed(0)) * 1000
    with torch.inference_mode():
        compliance.fbank(waveform, low_freq=62.0)
    waveform.requires_grad_()
    compliance.fbank(waveform, low_freq=62.0).sum().backward()
    assert waveform.grad is not None and waveform.grad.abs().sum() > 0


@pytest.mark.parametrize("transform", ["trace", "grad", "export"])
def test_first_call_can_be_traced_differentiated_or_exported(transform: str) -> None:
    waveform = torch.randn(1, 4000, generator=torch.Generator().manual_seed(0)) * 1000
    compliance._get_module.cache_clear()
    if transform == "grad":
        gradient = torch.func.grad(lambda x: Forty()(x).sum())(waveform)
        assert gradient.shape == waveform.shape and gradient.abs().sum() > 0
        return
    if transform == "trace":
        model: Any = torch.jit.trace(Forty(), (waveform,))
    else:
        model = torch.export.export(Forty(), (waveform,)).module()
    torch.testing.assert_close(model(waveform), Forty()(waveform), rtol=0, atol=1e-3)


@pytest.mark.costly
@pytest.mark.parametrize("dynamic", [None, True])
def test_first_compiled_call_breaks_the_graph_or_differs(dynamic: bool | None) -> None:
    torch._dynamo.reset()
    compliance._get_module.cache_clear()
    compliance._attribute_names.clear()
    graphs = 0

    def count(graph: torch.fx.GraphModule, _: Any) -> Any:
        nonlocal graphs
        graphs += 1
        return graph

    def model(waveform: torch.Tensor) -> torch.Tensor:
        warped = [compliance.fbank(waveform, num_mel_bins=13, low_freq=63.0, vtln_warp=warp) for warp in (1.1, 0.9)]
        return torch.cat((*warped, compliance.mfcc(waveform, subtract_mean=True)), -1)

    compiled = torch.compile(model, fullgraph=True, dynamic=dynamic, backend=count)
    for length in (4000, 8000, 5000):
        waveform = torch.randn(1, length, generator=torch.Generator().manual_seed(length)) * 1000
        torch.testing.assert_close(compiled(waveform), model(waveform), rtol=0, atol=1e-3)
    assert graphs == (1 if dynamic else 2)  # The second graph fits any length.
    waveform.requires_grad_()
    [gradient] = torch.autograd.grad(compiled(waveform).square().sum(), waveform)
    [expected] = torch.autograd.grad(model(waveform).square().sum(), waveform)
    torch.testing.assert_close(gradient, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("value", [1, 0, None, torch.tensor(True)], ids=str)
def test_any_truth_value_is_a_flag(torchaudio_kaldi: Any, value: Any) -> None:
    flags = dict.fromkeys(("use_energy", "htk_compat", "snip_edges", "raw_energy", "use_power"), value)
    theirs = torchaudio_kaldi.fbank(SPEECH, **flags)
    torch.testing.assert_close(compliance.fbank(SPEECH, **flags), theirs, atol=2e-2, rtol=1e-3)


def test_functions_do_not_use_locals_which_torch_compile_does_not_trace() -> None:
    for name in ("fbank", "mfcc", "spectrogram", "plp", "_compute_feature"):
        assert "locals" not in inspect.unwrap(getattr(compliance, name)).__code__.co_names
    with pytest.raises(TypeError, match="no_such_option"):
        compliance.fbank(SPEECH, no_such_option=1)
    with pytest.raises(TypeError, match="multiple values"):
        compliance.fbank(SPEECH, 0.42, blackman_coeff=0.42)


def test_star_import_brings_only_torchaudios_names_and_plp(torchaudio_kaldi: Any) -> None:
    assert set(compliance.__all__) == {*torchaudio_kaldi.__all__, "plp"}


def test_mel_banks_have_the_default_dtype(torchaudio_kaldi: Any) -> None:
    arguments = (23, 512, 16000.0, 20.0, 0.0, 100.0, -500.0, 1.0)
    torch.set_default_dtype(torch.float64)
    try:
        for mine, theirs in zip(
            compliance.get_mel_banks(*arguments), torchaudio_kaldi.get_mel_banks(*arguments), strict=True
        ):
            torch.testing.assert_close(mine, theirs, atol=1e-3, rtol=1e-3)
    finally:
        torch.set_default_dtype(torch.float32)


def test_resample_waveform_has_torchaudios_filters() -> None:
    resample = pytest.importorskip("torchaudio").functional.resample
    expected = resample(SPEECH, 16000, 8000, lowpass_filter_width=10)
    torch.testing.assert_close(compliance.resample_waveform(SPEECH, 16000.0, 8000.0, 10), expected, atol=0.1, rtol=1e-4)
