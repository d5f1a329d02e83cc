"""The fused kernels agree with torch's operations, on a GPU or in Triton's interpreter."""

from __future__ import annotations

import dataclasses
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, reject, settings
from hypothesis import strategies as st

from kaldi_compat import Fbank, KaldiRandom, Mfcc, Plp, Spectrogram
from kaldi_compat.errors import KaldiCompatError, OptionError
from kaldi_compat.functional import checks
from kaldi_compat.functional.array_api import detect_tracing
from kaldi_compat.options.registry import SPECTRAL_FEATURES
from kaldi_compat.torch import kernels
from kaldi_compat.torch.features.engines import choose_engine
from kaldi_compat.torch.features.spectral import SpectralFeature

pytest.importorskip("triton", minversion="3.6")
launch = pytest.importorskip("kaldi_compat.torch.kernels.launch")
probes = pytest.importorskip("tests.emulator.probe_kernels")

ON_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda:0" if ON_GPU else "cpu")
# The interpreter takes 0.1 s for two frames; on a GPU nearly each example is a compilation of several seconds.
EXAMPLES = int(os.environ.get("KALDI_COMPAT_EXAMPLES", 16))
FRAMES = 400 if ON_GPU else 3

FRAME_OPTIONS = {
    "sample_frequency": st.sampled_from([8000.0, 16000.0]),
    "frame_length": st.sampled_from([10.0, 20.0, 25.0, 31.9375]),
    "frame_shift": st.sampled_from([5.0, 10.0, 12.5]),
    "snip_edges": st.booleans(),
    "remove_dc_offset": st.booleans(),
    "preemphasis_coefficient": st.sampled_from([0.0, 0.97, 1.0]),
    "window_type": st.sampled_from(["povey", "hamming", "rectangular", "blackman"]),
    "blackman_coeff": st.just(0.3),
    "waveform_scale": st.sampled_from([0.25, 3.7]),
    "raw_energy": st.booleans(),
    "energy_floor": st.sampled_from([0.0, 1.0]),
}
MEL_OPTIONS = {
    "num_mel_bins": st.sampled_from([20, 23, 31]),
    "low_freq": st.sampled_from([20.0, 60.0]),
    "high_freq": st.sampled_from([0.0, -200.0]),
    "vtln_low": st.just(120.0),
    "vtln_high": st.just(-600.0),
}
FLAGS = {"htk_compat": st.booleans(), "use_energy": st.booleans()}
CEPSTRA = {"num_ceps": st.integers(2, 13), "cepstral_lifter": st.sampled_from([0.0, 10.0, 22.0])}
OPTIONS = {
    Fbank: MEL_OPTIONS | FLAGS | {"use_power": st.booleans(), "use_log_fbank": st.booleans()},
    Mfcc: MEL_OPTIONS | FLAGS | CEPSTRA,
    Plp: MEL_OPTIONS
    | FLAGS
    | CEPSTRA
    | {"lpc_order": st.just(14), "compress_factor": st.just(0.4), "cepstral_scale": st.just(2.0)},
    Spectrogram: {},
}
# Options of what is done before or after the features, and noise, which differs between engines.
ELSEWHERE = {"allow_downsample", "allow_upsample", "max_feature_vectors", "debug_mel", "dither"}
# Options with one value for which there are kernels, and allow_empty_bins, which only makes an error a warning.
FIXED = {"round_to_power_of_two", "return_raw_fft", "allow_empty_bins"}


LOOK = kernels._find_fault


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The kernels serve the device that the tests have."""
    monkeypatch.setattr(kernels, "DEVICE_TYPE", DEVICE.type)
    monkeypatch.setattr(kernels, "_find_fault", lambda *_: "")
    monkeypatch.delenv(kernels.SWITCH, raising=False)
    yield


def untried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let kernels be tested before they are used, as if none had been."""
    monkeypatch.setattr(kernels, "_find_fault", LOOK)
    monkeypatch.setattr(kernels, "_faults", {})


def audio(samples: int, rows: int, seed: int = 0) -> torch.Tensor:
    """Noise of different levels with a silent stretch, 16-bit."""
    rng = np.random.default_rng(seed)
    made = rng.normal(0, 10.0 ** rng.uniform(0, 4, (rows, 1)), (rows, samples))
    made[:, samples // 3 : 2 * samples // 3] *= rng.integers(0, 2, (rows, 1))
    return torch.from_numpy(made.clip(-32768, 32767).astype(np.int16)).to(DEVICE)


def exactly(module: SpectralFeature, samples: torch.Tensor, *rest: Any, **kwargs: Any) -> Any:
    return type(module)(module.options, engine="exact")(samples.detach().cpu().float(), *rest, **kwargs)


def plainly(module: SpectralFeature, samples: torch.Tensor, *rest: Any, **kwargs: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(kernels.SWITCH, "0")
        return module(samples, *rest, **kwargs)


def level(features: torch.Tensor, module: SpectralFeature) -> torch.Tensor:
    """Features on a scale on which rounding is seen: of a spectrogram's bins, the powers beside the frame's largest."""
    if isinstance(module, Spectrogram):
        powers = features[..., 1:].double().exp()
        return powers / powers.amax(-1, keepdim=True).clamp(min=1e-3)
    return features.double()


def test_each_option_is_compared() -> None:
    for feature in SPECTRAL_FEATURES.values():
        names = {field.name for field in dataclasses.fields(feature.options)}
        assert names - FIXED - ELSEWHERE <= {*FRAME_OPTIONS, *OPTIONS[feature.import_class()]}


@pytest.mark.costly
@settings(max_examples=EXAMPLES, derandomize=not ON_GPU, phases=[Phase.generate])  # to shrink would take minutes
@given(
    data=st.data(),
    kind=st.sampled_from(list(OPTIONS)),
    changes=st.fixed_dictionaries({}, optional=FRAME_OPTIONS),
    seed=st.integers(0, 1000),
)
def test_kernels_are_as_exact_as_the_plain_operations(
    data: st.DataObject, kind: type[SpectralFeature], changes: dict[str, Any], seed: int
) -> None:
    more = data.draw(st.fixed_dictionaries({}, optional=OPTIONS[kind]))
    warp = data.draw(st.sampled_from([1.0, 0.9]))
    try:
        module = kind(dither=0.0, **changes, **more).to(DEVICE)
    except OptionError:  # more bands than a small FFT has bins for
        reject()
    x = audio(module.size + module.shift * FRAMES // 2, 2, seed)
    x = x if data.draw(st.booleans()) else x.float()
    lengths = torch.tensor([x.shape[1], x.shape[1] * 2 // 3], device=DEVICE) if data.draw(st.booleans()) else None
    if lengths is not None and data.draw(st.booleans()):
        lengths = lengths.int()
    assert choose_engine(module, x, lengths) == "triton"
    by_kernels = module(x, lengths, vtln_warp=warp)
    found, plain, exact = (
        result if lengths is None else result[0]
        for result in (
            by_kernels,
            plainly(module, x, lengths, vtln_warp=warp),
            plainly(module.double(), x.double(), lengths, vtln_warp=warp),
        )
    )
    assert found.shape == plain.shape and found.dtype == torch.float32 and found.device.type == DEVICE.type
    error, plain_error = ((level(each, module) - level(exact, module)).abs() for each in (found, plain))
    if more.get("use_log_fbank", True):
        assert error.max() <= 4 * plain_error.max() + 1e-4
        assert error.mean() <= 2 * plain_error.mean() + 2e-6
    else:
        torch.testing.assert_close(found.double(), exact, rtol=2e-5, atol=1e-7 * float(exact.abs().max()))


@pytest.mark.parametrize("frequency", [4000.0, 8000.0, 16000.0, 32000.0])
def test_each_size_of_fft_gives_the_spectrum(frequency: float) -> None:
    module = Spectrogram(dither=0.0, sample_frequency=frequency).to(DEVICE)
    assert module.points in kernels.SHAPES
    x = audio(module.size, 1)
    x[:] = torch.randint(-9999, 9999, x.shape, generator=torch.Generator().manual_seed(1))
    power, exact = (level(each, module) for each in (module(x), plainly(module.double(), x.double())))
    assert (power - exact).abs().max() < 5e-6
    error = (power.log() - exact.log()).abs()
    assert error.median() < 1e-6


def test_silence_and_constants_are_the_floor_itself() -> None:
    module = Fbank(dither=0.0, use_energy=True).to(DEVICE)
    for value in (0, 1234, -32768):
        x = torch.full((1000,), value, dtype=torch.int16, device=DEVICE)
        assert torch.equal(module(x), plainly(module, x))


@pytest.mark.costly
@pytest.mark.parametrize("kind", [Spectrogram, Fbank])  # MFCC ends with a product that is not ours
def test_a_frame_is_the_same_wherever_it_stands(kind: type[SpectralFeature]) -> None:
    module = kind(dither=0.0).to(DEVICE)
    x = audio(400 + 160 * FRAMES, 3, seed=7)
    whole = module(x)
    assert torch.equal(module(x[1]), whole[1])
    assert torch.equal(module(x[1, 320:]), whole[1, 2:])
    assert torch.equal(module(x.T.contiguous().T), whole)
    assert torch.equal(module(x.reshape(3, 1, -1))[:, 0], whole)


@pytest.mark.parametrize(("kind", "frequency"), [(Fbank, 4000.0), (Fbank, 16000.0), (Spectrogram, 16000.0)])
def test_a_frame_is_the_same_whatever_its_program_computed_before(
    kind: type[SpectralFeature], frequency: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = torch.empty
    made: list[torch.Tensor] = []
    monkeypatch.setattr(
        torch, "empty", lambda *shape, **kind: made.append(empty(*shape, **kind).fill_(float("nan"))) or made[-1]
    )
    # With these filters, sums run over bins behind the last one.
    more = {} if kind is Spectrogram else {"num_mel_bins": 10}
    module = kind(dither=0.0, sample_frequency=frequency, **more).to(DEVICE)
    x = audio(module.size + module.shift * 8, 1)  # an odd number of frames
    x[0, : module.size] = 32767  # whose spectrum must not show in those of later frames
    monkeypatch.setattr(launch, "_count_programs", lambda device, points: 99)
    whole = module(x, vtln_warp=0.9)
    assert whole.isfinite().all()
    # No sums run over what was in memory before, not even those of a frame beside the last one, which nobody needs.
    assert kind is Spectrogram or made[-1].isfinite().all()
    for programs in (1, 2):
        monkeypatch.setattr(launch, "_count_programs", lambda device, points, programs=programs: programs)
        assert torch.equal(module(x, vtln_warp=0.9), whole)


@given(data=st.data(), banks=st.integers(1, 3), bins=st.sampled_from([9, 65, 257]), bands=st.integers(1, 70))
def test_sparse_filters_hold_all_weights(data: st.DataObject, banks: int, bins: int, bands: int) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    weights = np.zeros((banks, bins, bands), np.float32)
    for bank, band in np.ndindex(banks, bands):
        first, end = sorted(rng.integers(0, bins + 1, 2))
        end = min(end, first + rng.integers(0, 20))
        weights[bank, first:end, band] = rng.uniform(0.1, 1, end - first)
    width = bins - 1 + launch.PADDING
    first_bins, rows, group_rows = (each.numpy() for each in launch.make_band_filters(weights, width))
    found = np.zeros((banks, width, first_bins.shape[1]), np.float32)
    for bank, band in np.ndindex(*first_bins.shape):
        group, lane = divmod(band, launch.GROUP)
        own = rows[bank, group_rows[group] : group_rows[group + 1], lane].reshape(-1)
        first = first_bins[bank, band]
        assert first % 4 == 0 and 0 <= first <= width - len(own)
        found[bank, first : first + len(own), band] = own
    assert (
        np.array_equal(found[:, :bins, :bands], weights) and not found[:, bins:].any() and not found[..., bands:].any()
    )


def test_audio_on_the_wrong_scale_gets_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_warned", set())
    monkeypatch.setattr(kernels, "_find_fault", LOOK)
    with pytest.warns(UserWarning, match="waveform_scale"):
        Fbank(dither=0.0).to(DEVICE)(torch.rand(1000, device=DEVICE))


def test_unsupported_arguments_are_refused() -> None:
    module = Fbank(dither=0.0).to(DEVICE)
    with pytest.raises(OptionError):
        module(audio(1000, 1), vtln_warp=0.01)


UNSERVED = {
    "float64": lambda: (Fbank(dither=0.0), audio(1000, 1).double(), None, 1.0),
    "gradient": lambda: (Fbank(dither=0.0), audio(1000, 1).float().requires_grad_(), None, 1.0),
    "400 points": lambda: (Fbank(dither=0.0, round_to_power_of_two=False), audio(1000, 1), None, 1.0),
    "2048 points": lambda: (Fbank(dither=0.0, frame_length=100.0), audio(2000, 1), None, 1.0),
    "FFT": lambda: (Spectrogram(dither=0.0, return_raw_fft=True), audio(1000, 1), None, 1.0),
    "no frame": lambda: (Fbank(dither=0.0), audio(399, 1), None, 1.0),
    "nothing": lambda: (Fbank(dither=0.0), audio(0, 1), None, 1.0),
}


def noisy(kind: type[SpectralFeature] = Fbank, **options: Any) -> SpectralFeature:
    return kind(dither=2.0, **options).to(DEVICE)


@pytest.mark.costly
@pytest.mark.parametrize("options", [{}, {"preemphasis_coefficient": 0.0, "sample_frequency": 8000.0}])
def test_dithering_in_the_kernel_is_kaldis(options: dict[str, Any]) -> None:
    module = noisy(**options, snip_edges=False)
    x = audio(900, 2)
    assert choose_engine(module, x, None) == "triton"
    source, exact_source = KaldiRandom(), KaldiRandom()
    found = module(x, generator=source)
    torch.testing.assert_close(found.cpu(), exactly(module, x, generator=exact_source), rtol=1e-4, atol=1e-4)
    assert np.array_equal(source.draws(9), exact_source.draws(9))


def test_dithering_of_padded_rows_takes_states_for_frames_that_exist() -> None:
    module, x = noisy(), audio(1200, 2)
    lengths = torch.tensor([1200, 700], device=DEVICE)
    source, exact_source = KaldiRandom(), KaldiRandom()
    found, counts = module(x, lengths, generator=source)
    exact, exact_counts = exactly(module, x, lengths.cpu(), generator=exact_source)
    assert torch.equal(counts.cpu(), exact_counts)
    torch.testing.assert_close(found.cpu(), exact, rtol=1e-4, atol=1e-4)
    assert np.array_equal(source.draws(9), exact_source.draws(9))


@pytest.mark.costly
def test_noise_of_kernels_is_standard_normal_and_follows_the_generator() -> None:
    # With nothing but the window's position to tell, the energies of frames of silence are those of the noise.
    module = Spectrogram(dither=1.0, window_type="rectangular", preemphasis_coefficient=0.0, remove_dc_offset=False).to(
        DEVICE
    )
    x = torch.zeros(400 + 160 * 49, device=DEVICE, dtype=torch.int16)

    def features(seed: int, frames: int = 50) -> torch.Tensor:
        return module(x[: 240 + 160 * frames], generator=torch.Generator().manual_seed(seed)).cpu()

    found = features(1)
    assert torch.equal(found[:4], features(1, 4)) and not torch.equal(found[:4], features(2, 4))
    powers = found[:, 1:].double().exp() / 400  # of white noise: exponentially distributed, with a mean of 1
    assert abs(float(powers.mean()) - 1) < 0.03
    assert abs(float((powers > 1).double().mean()) - np.exp(-1)) < 0.02
    energies = found[:, 0].double().exp() / 400
    assert abs(float(energies.mean()) - 1) < 0.03 and 0.03 < float(energies.std()) < 0.12  # sqrt(2 / 400) = 0.07


def test_numbers_of_each_kind_of_noise_are_normal_and_independent() -> None:
    from kaldi_compat.exact.rand import compute_rand_r_starts
    from kaldi_compat.torch.tensors.dither import compute_kaldi_noise

    frames, size = 64, 512
    seeds = torch.from_numpy(KaldiRandom().frame_seeds(frames))
    kaldi = torch.empty((frames, size), device=DEVICE)
    philox = torch.empty((frames, 4, size), device=DEVICE)
    probes.draw[(frames,)](
        seeds.to(DEVICE), torch.from_numpy(compute_rand_r_starts(size)).to(DEVICE), kaldi, philox, SIZE=size
    )
    torch.testing.assert_close(kaldi.cpu(), compute_kaldi_noise(seeds, size), rtol=1e-5, atol=5e-6)
    for noise in (kaldi, philox):
        values = noise.double().cpu()
        assert abs(float(values.mean())) < 0.02 and abs(float(values.var()) - 1) < 0.03
        assert abs(float((values**4).mean()) - 3) < 0.15
        assert values.unique().numel() > 0.999 * values.numel() * (1 if noise is philox else 0.999)
    flat = philox.double().cpu().flatten(1)
    correlations = torch.corrcoef(flat) - torch.eye(frames)
    assert float(correlations.abs().max()) < 5.5 / np.sqrt(flat.shape[1])


@pytest.mark.parametrize("kind", [Fbank, Plp])
def test_each_row_may_have_its_own_vtln_factor(kind: type[SpectralFeature]) -> None:
    module, x = kind(dither=0.0).to(DEVICE), audio(400 + 160 * 3, 3)
    warps = [0.9, 1.0, 1.1]
    assert choose_engine(module, x, None) == "triton"
    found = module(x, vtln_warp=warps)
    for row, warp in enumerate(warps):
        torch.testing.assert_close(found[row], plainly(module, x[row], vtln_warp=warp), rtol=0, atol=1e-4)


def test_parts_of_a_row_may_have_their_own_vtln_factors() -> None:
    module, x = Fbank(dither=0.0).to(DEVICE), audio(400 + 160 * 8, 1)[0]
    firsts, warps = [0, 3, 6], [0.9, 1.0, 0.9]
    found = launch.launch_row(module, x, launch.Spans(np.array(firsts), warps), None)
    for first, end, warp in zip(firsts, [3, 6, 9], warps, strict=True):
        expected = plainly(module, x, vtln_warp=warp)[first:end]
        torch.testing.assert_close(found[first:end], expected, rtol=0, atol=1e-4)


@pytest.mark.costly
@pytest.mark.parametrize("kind", [Spectrogram, Fbank])
def test_lengths_beyond_the_row_do_not_read_behind_it(kind: type[SpectralFeature]) -> None:
    x = audio(700, 2)
    assert x[1, :100].any()  # what must not be read
    for snip_edges in (False, True):
        module = kind(dither=0.0, snip_edges=snip_edges).to(DEVICE)
        right, counts = kernels.compute_features(module, x, torch.tensor([700, 0], device=DEVICE), 1.0)
        found, found_counts = kernels.compute_features(module, x, torch.tensor([1100, -5], device=DEVICE), 1.0)
        assert torch.equal(found_counts, counts) and torch.equal(found, right)


def test_lengths_may_be_a_column_of_a_table() -> None:
    module = Fbank(dither=0.0, num_mel_bins=10, sample_frequency=4000.0, snip_edges=False).to(DEVICE)
    x, table = audio(500, 2), torch.tensor([[500, 7], [300, 8]], device=DEVICE)
    found, expected = module(x, table[:, 0]), module(x, table[:, 0].contiguous())
    assert torch.equal(found[0], expected[0]) and torch.equal(found[1], expected[1])


@pytest.mark.costly
@pytest.mark.parametrize("kind", [Spectrogram, Fbank])
def test_indices_of_reflected_samples_do_not_overflow(
    kind: type[SpectralFeature], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = audio(1200, 2)
    module = kind(dither=0.0, snip_edges=False).to(DEVICE)
    lengths = torch.tensor([1200, 650], device=DEVICE)
    expected = kernels.compute_features(module, x, lengths, 1.0)[0]
    monkeypatch.setattr(launch, "WIDE", 100)
    # Another variant of the kernel, which a compiler may contract otherwise.
    torch.testing.assert_close(kernels.compute_features(module, x, lengths, 1.0)[0], expected, rtol=0, atol=1e-4)
    # the longest row whose doubled length, and a frame more, fit into 32 bits
    monkeypatch.undo()
    assert 2 * (launch.WIDE + 2**20) < 2**31 and kernels.MAX_SAMPLES + 2**20 <= 2**31


def test_places_in_a_row_of_more_than_2_to_the_30_samples_do_not_overflow() -> None:
    module = Fbank(dither=0.0, snip_edges=False, frame_shift=2.0**28 / 16).to(DEVICE)
    shift, frames = module.shift, 6
    row = torch.from_numpy(np.zeros(shift * frames, np.int16)).to(DEVICE)  # on a CPU, only what is used takes memory
    excerpt = audio(400, 1, seed=3)[0]
    for frame in range(frames):
        row[frame * shift + shift // 2 - 200 :][:400] = excerpt
    found = kernels.compute_features(module, row, None, 1.0)
    expected = kernels.compute_features(Fbank(dither=0.0).to(DEVICE), excerpt, None, 1.0)
    assert isinstance(expected, torch.Tensor) and isinstance(found, torch.Tensor) and len(found) == frames
    torch.testing.assert_close(found, expected.expand(frames, -1), rtol=0, atol=1e-5)


def test_indices_are_reflected_for_rows_of_any_length() -> None:
    import triton.language as tl

    for length, kind in ((2**29, tl.int32), (2**31 - 2**20 - 1, tl.int64)):
        places = torch.tensor([-2, 5, length - 1, length + 7], device=DEVICE)
        out = torch.empty_like(places)
        probes.reflect[(1,)](places, length, out, TYPE=kind, N=4)
        assert out.tolist() == [1, 5, length - 1, length - 8]


@pytest.mark.parametrize("kind", OPTIONS)
def test_nan_in_the_audio_is_nan_in_the_features(kind: type[SpectralFeature]) -> None:
    more = {} if kind is Spectrogram else {"use_energy": True}
    module = kind(dither=0.0, **more).to(DEVICE)
    x = audio(400 + 160 * 3, 1).float()
    x[0, 200] = float("nan")
    found, plain = module(x), plainly(module, x)
    assert choose_engine(module, x, None) == "triton"
    assert plain[0, :2].isnan().all() and not plain[0, 2:].isnan().any()
    assert torch.equal(found.isnan(), plain.isnan())


@pytest.mark.parametrize("case", UNSERVED)
def test_what_kernels_do_not_support_is_computed_as_by_the_exact_engine(case: str) -> None:
    module, x, lengths, warp = UNSERVED[case]()
    module = module.to(DEVICE)
    assert choose_engine(module, x, lengths, detect_tracing(x)) == "torch"
    found = module(x, lengths, vtln_warp=warp)
    exact = exactly(module, x, lengths, vtln_warp=warp)
    torch.testing.assert_close(found.cpu().float(), exact, rtol=1e-3, atol=1e-3)


def test_compilers_and_vmap_see_plain_operations() -> None:
    module = Fbank(dither=0.0).to(DEVICE)
    x = audio(1000, 2).float()
    torch.testing.assert_close(torch.vmap(module)(x), plainly(module, x), rtol=0, atol=1e-4)
    compiled = torch.compile(module, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x), plainly(module, x), rtol=0, atol=1e-4)
    for graph in (torch.export.export(module, (x,)).graph, torch.jit.trace(module, (x,)).graph):
        assert "rfft" in str(graph)


def test_environment_variable_disables_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = Fbank(dither=0.0).to(DEVICE), audio(1000, 1)
    assert choose_engine(module, x, None) == "triton"
    monkeypatch.setenv(kernels.SWITCH, "0")
    assert choose_engine(module, x, None) == "torch"


@pytest.mark.parametrize("kind", OPTIONS)
def test_kernels_are_tested_before_use(
    kind: type[SpectralFeature], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    untried(monkeypatch)
    module, x = kind(dither=0.0, sample_frequency=8000.0).to(DEVICE), audio(1000, 1)
    assert choose_engine(module, x, None) == "triton", caplog.text
    assert list(kernels._faults.values()) == [""]
    assert not kernels.list_faults()


VARIANTS: dict[str, tuple[dict[str, Any], Any, Any, Any]] = {
    "plain": ({}, None, 1.0, None),
    "ragged": ({"snip_edges": False}, [1000, 600], 1.0, None),
    "several factors": ({}, None, [0.9, 1.1], None),
    "torch's noise": ({"dither": 1.0}, None, 1.0, None),
    "Kaldi's noise": ({"dither": 1.0}, None, 1.0, KaldiRandom()),
    "wide": ({"snip_edges": False}, None, 1.0, None),
}


@pytest.mark.parametrize(
    ("variant", "good"), [(name, good) for name in VARIANTS for good in (True, False) if good or name != "plain"]
)
def test_each_variant_is_tested_before_use_and_given_up_by_itself(
    variant: str, good: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    options, lengths, warp, generator = VARIANTS[variant]
    untried(monkeypatch)
    monkeypatch.setattr(launch, "WIDE", 500 if variant == "wide" else launch.WIDE)
    seen: list[tuple[object, ...]] = []
    constants_of = launch.make_kernel_options

    def spoilt(*arguments: Any, **more: Any) -> dict[str, Any]:
        found = constants_of(*arguments, **more)
        seen.append(tuple(found[name] for name in ("RAGGED", "BANKS", "NOISE", "WIDE")))
        if not good and seen[-1] != (False, False, 0, False):
            raise RuntimeError("this variant does not compile")
        return found

    monkeypatch.setattr(launch, "make_kernel_options", spoilt)
    module = Fbank(sample_frequency=4000.0, **({"dither": 0.0} | options)).to(DEVICE)
    x = audio(1000, 2)
    found = module(x, lengths, vtln_warp=warp, generator=generator)
    assert len(set(seen)) == 1 and (variant == "plain") == (seen[0] == (False, False, 0, False))
    assert len(seen) == (2 if good else 1), "the trial, and the features"
    assert ("without fused kernels" in caplog.text) == (len(seen) == 1)
    assert (found if lengths is None else found[0]).isfinite().all()


def test_a_broken_device_is_not_used_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    untried(monkeypatch)
    monkeypatch.setattr(launch, "launch_features", broken)
    monkeypatch.setattr(kernels, "is_broken", lambda device: True)
    with pytest.raises(KaldiCompatError, match="KALDI_COMPAT_KERNELS=0"):
        Fbank(dither=0.0).to(DEVICE)(audio(1000, 1))


def test_leaving_the_kernels_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    module = Fbank(dither=0.0, round_to_power_of_two=False, frame_length=24.0).to(DEVICE)
    with caplog.at_level("INFO", "kaldi_compat"):
        for _ in range(3):
            module(audio(1000, 1))
    assert [each.levelname for each in caplog.records if "384 points" in each.message] == ["INFO"]


class Late(torch.Tensor):
    """The result of a kernel whose error shows when it is read."""

    def __sub__(self, other: object) -> Any:
        raise RuntimeError("CUDA error: invalid argument")


@pytest.mark.parametrize("fault", ["absent", "wrong", "nan", "late"])
def test_faulty_kernels_are_reported_once_and_not_used(
    fault: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    right = launch.launch_features

    def broken(*args: Any, **more: Any) -> Any:
        if fault == "absent":
            raise RuntimeError("no C compiler")
        if fault == "late":
            return Late()
        return right(*args, **more) + (0.01 if fault == "wrong" else float("nan"))

    untried(monkeypatch)
    monkeypatch.setattr(launch, "launch_features", broken)
    module, x = Fbank(dither=0.0, sample_frequency=8000.0).to(DEVICE), audio(1000, 1)
    expected = plainly(module, x)
    assert torch.equal(module(x), expected) and torch.equal(module(x), expected)
    assert len(caplog.records) == 1 and "without fused kernels" in caplog.text


def test_subclass_with_own_features_is_not_computed_by_kernels() -> None:
    class Louder(Fbank):
        def features_of_energies(self, energies: torch.Tensor, log_energy: torch.Tensor | None) -> torch.Tensor:
            return super().features_of_energies(energies, log_energy) + 1

    x = audio(1000, 1)
    assert torch.equal(Louder(dither=0.0).to(DEVICE)(x), plainly(Fbank(dither=0.0).to(DEVICE), x) + 1)


@pytest.mark.gpu
def test_a_graph_of_kernels_is_captured_and_replayed() -> None:
    module = Fbank(dither=0.0, num_mel_bins=80).to(DEVICE)
    x = audio(16000, 4)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        module(x)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        features = module(x)
    x.copy_(audio(16000, 4, seed=5))
    graph.replay()
    assert torch.equal(features, module(x))


@pytest.mark.parametrize(
    ("capability", "uses", "kernels_of_them"),
    [
        ("90", ("energy",), 1),
        pytest.param("75", ("spectrum",), 1, marks=pytest.mark.slow),
        pytest.param("90", (), 9, marks=pytest.mark.slow),
        pytest.param("75", (), 9, marks=pytest.mark.slow),
    ],
)
def test_kernels_compile_without_spilling_and_keep_nan(
    tmp_path: Path, capability: str, uses: tuple[str, ...], kernels_of_them: int
) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [
            sys.executable,
            str(Path(__file__).parents[4] / "tests" / "emulator" / "kernel_resources.py"),
            capability,
            *uses,
        ],
        env=environment | {"TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[4])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) == kernels_of_them, done.stdout
    for use, kernel, *figures in lines:
        assert {"STACK:0", "LOCAL:0"} <= set(figures), (use, kernel, figures)
        # The interpreter keeps NaN whatever the kernels say, so only the machine code can tell.
        assert kernel != "feature_kernel" or "DROPS_NAN:0" in figures, (use, kernel, figures)
        # Kaldi's bytes need each operation to be rounded by itself.
        assert kernel not in ("speech_kernel", "integers_kernel") or "FUSED:0" in figures, (use, kernel, figures)


def test_the_benchmark_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    script = Path(__file__).parents[4] / "benchmarks" / "resident.py"
    small = ["--device", DEVICE.type, "--seconds", "1", "--batch", "2", "--rounds", "1", "--copied", "1000000"]
    monkeypatch.setattr(sys, "argv", [str(script), *small])
    monkeypatch.syspath_prepend(script.parent)
    monkeypatch.setattr(kernels, "DEVICE_TYPE", "cuda")  # not in the interpreter
    runpy.run_path(str(script), run_name="__main__")
    (figures,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert figures["times_real_time"]["kaldi_compat, torch operations"] > 0
    assert ("resident_ratio" in figures) == ON_GPU
