"""One preset has one set of bits on a CPU: on tensors, on arrays with C and without, in batches, streams and dumps."""

from __future__ import annotations

import functools
import signal
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

import io_ark
import kaldi_compat
from kaldi_compat import list_presets
from kaldi_compat.errors import AudioError
from kaldi_compat.exact.sums import sum_in_order
from kaldi_compat.frontends import Preset
from kaldi_compat.frontends.base import count_columns
from kaldi_compat.frontends.numpy import Frontend as ArrayFrontend
from kaldi_compat.frontends.statistics import Statistics
from kaldi_compat.frontends.steps import Step
from kaldi_compat.functional.normalization import utterance_cmvn
from kaldi_compat.options.frontend import CenteredMeanOptions
from kaldi_compat.torch import kernels
from kaldi_compat.torch.features.engines import choose_engine
from tests.support.dump_data import make_data
from tests.support.frontend_audio import mean_and_deviation
from tests.support.native import computing, needs_c

Array = npt.NDArray[Any]
LENGTHS = (24001, 9000, 16000, 400)
STREAMED = [name for name in list_presets() if not Preset.of(name).why_no_stream]
pytestmark = needs_c  # without it, torch's own operations compute tensors


@functools.cache
def audio() -> Array:
    """Return utterances with an offset, of other numbers than those of 16-bit files: (B, T), zero past LENGTHS."""
    rng = np.random.default_rng(0)
    batch = np.zeros((len(LENGTHS), max(LENGTHS)), np.float32)
    for row, length in zip(batch, LENGTHS, strict=True):
        row[:length] = 0.3 * np.sin(np.cumsum(rng.uniform(0, 1, length))) + rng.normal(0.02, 0.03, length)
    return batch


def preset_and_statistics(name: str) -> tuple[Preset, Statistics | None]:
    preset = Preset.of(name)
    if not preset.statistics:
        return preset, None
    before = next(number for number, step in enumerate(preset.steps) if step.statistics)
    return preset, Statistics.of(mean_and_deviation(count_columns(preset.options, preset.steps[:before])))


@functools.cache
def on_arrays(name: str) -> ArrayFrontend:
    preset, statistics = preset_and_statistics(name)
    return ArrayFrontend(preset, statistics=statistics)


@functools.cache
def on_tensors(name: str) -> kaldi_compat.Frontend:
    preset, statistics = preset_and_statistics(name)
    return kaldi_compat.Frontend(preset, statistics=statistics)


@functools.cache
def expected(name: str) -> list[Array]:
    """Return the model's input of each utterance alone, computed on arrays in C."""
    return [on_arrays(name)(row[:length]) for row, length in zip(audio(), LENGTHS, strict=True)]


def assert_same_bytes(found: Any, wanted: Array) -> None:
    found = np.asarray(found)
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    different = found.view(np.int32) != wanted.view(np.int32)
    assert not different.any(), f"{different.sum()} of {different.size} numbers, by {np.abs(found - wanted).max():.2g}"


def assert_rows_alone(name: str, features: Any, counts: Any) -> None:
    """Assert that the rows of a batch are what the utterances give alone."""
    fixed = any(getattr(step.options, "length", 0) for step in Preset.of(name).steps)
    for row, count, wanted in zip(np.asarray(features), counts.tolist(), expected(name), strict=True):
        # The last stack of zeros and frames is not counted in a batch.
        assert count <= len(wanted) or fixed
        assert_same_bytes(row[:count], wanted[:count])


@pytest.mark.parametrize("name", list_presets())
def test_tensors_alone_have_the_bits_of_arrays(name: str) -> None:
    for row, length, wanted in zip(audio(), LENGTHS, expected(name), strict=True):
        assert_same_bytes(on_tensors(name)(torch.from_numpy(row[:length])), wanted)


@pytest.mark.parametrize("name", list_presets())
def test_rows_of_a_padded_batch_have_the_bits_of_each_utterance_alone(name: str) -> None:
    assert_rows_alone(name, *on_arrays(name)(audio(), LENGTHS))
    assert_rows_alone(name, *on_tensors(name)(torch.from_numpy(audio()), torch.tensor(LENGTHS)))


@pytest.mark.parametrize("name", list_presets())
def test_resampled_audio_has_the_same_bits(name: str) -> None:
    arrays, tensors = on_arrays(name), on_tensors(name)
    wanted = arrays(audio()[0, :16001], sampling_rate=22050)
    assert_same_bytes(tensors(torch.from_numpy(audio()[0, :16001]), sampling_rate=22050), wanted)
    batch, lengths = audio()[:2], [16001, 9000]
    for frontend, samples in ((arrays, batch), (tensors, torch.from_numpy(batch))):
        features, counts = frontend(samples, lengths, sampling_rate=22050)
        assert_same_bytes(features[0][: counts[0]], wanted[: counts[0]])


@pytest.mark.parametrize("name", list_presets())
def test_arrays_without_c_have_the_bits_of_c(name: str) -> None:
    with computing(None):
        for row, length, wanted in list(zip(audio(), LENGTHS, expected(name), strict=True))[1:]:
            assert_same_bytes(on_arrays(name)(row[:length]), wanted)


@pytest.mark.parametrize("rate", [16000, 22050])
@pytest.mark.parametrize("name", ["campplus", "audiomae", "seamless-m4t", "voxceleb-xvector"])
def test_one_utterance_with_a_length_has_the_same_bits(name: str, rate: int) -> None:
    on_array, own_count = on_arrays(name)(audio()[0], np.array(9000), sampling_rate=rate)
    features, count = on_tensors(name)(torch.from_numpy(audio()[0]), torch.tensor(9000), sampling_rate=rate)
    assert int(count) == int(own_count)
    assert_same_bytes(features, on_array)


@pytest.mark.parametrize("name", STREAMED)
def test_streams_have_the_bits_of_the_whole_utterance(name: str) -> None:
    whole, wanted = audio()[0], expected(name)[0]
    chunks = np.split(whole, [1, 700, 5000, 5001, 17000])
    stream = on_arrays(name).stream()
    assert_same_bytes(np.concatenate([*map(stream, chunks), stream.flush()]), wanted)
    on_tensor = on_tensors(name).stream()
    parts = [on_tensor(torch.from_numpy(chunk)) for chunk in chunks]
    assert_same_bytes(torch.cat([*parts, on_tensor.flush()]), wanted)
    slots = on_tensors(name).stream(2)
    both = [slots(torch.from_numpy(np.stack((chunk, chunk[::-1]))))[0] for chunk in chunks]
    assert_same_bytes(torch.cat([*both, slots.flush()[0]], 1)[0], wanted)


@pytest.mark.filterwarnings("ignore:the preset .* normalizes by statistics")
@pytest.mark.parametrize("engine", ["auto", "exact"])
@pytest.mark.parametrize("name", ["campplus", "medasr", "hubert-mfcc", "telespeech", "sre16-xvector", "audiomae"])
def test_dumps_have_the_bits_of_arrays(name: str, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = make_data(tmp_path, 3, samples=(9000, 30001))
    assert kaldi_compat.dump(data, name, nj=1, engine=engine).utterances == 3
    for key, features in io_ark.read(f"{data}/feats.scp"):
        waveform = io_ark.load(f"{data}/wav/{key}.wav").samples[0].astype(np.int16)
        assert_same_bytes(features, on_arrays(name)(waveform, sampling_rate=16000))


def test_a_running_mean_has_one_set_of_bits() -> None:
    preset = Preset.of("pyannote-wespeaker")
    step = Step("centered_mean", CenteredMeanOptions(context=24))
    changed = Preset(preset.name, preset.feature, preset.options, steps=(step,))
    whole = audio()[0]
    assert_same_bytes(kaldi_compat.Frontend(changed)(torch.from_numpy(whole)), ArrayFrontend(changed)(whole))


@pytest.mark.parametrize("dim", [1, 2, 80])
def test_frames_are_added_one_after_the_other_whatever_their_layout(dim: int) -> None:
    rng = np.random.default_rng(dim)
    # Sums of numbers of one magnitude are exact in double precision, in any order.
    frames = (rng.normal(0, 1, (3, 501, dim)) * 10.0 ** rng.uniform(-15, 3, (3, 501, dim))).astype(np.float32)
    totals = np.zeros((3, 1, dim))
    for number in range(frames.shape[1]):
        totals += frames[:, number : number + 1]
    transposed = np.ascontiguousarray(frames.swapaxes(1, 2)).swapaxes(1, 2)
    for given in (frames, transposed, np.asfortranarray(frames)):
        np.testing.assert_array_equal(sum_in_order(given, -2), totals)
        np.testing.assert_array_equal(sum_in_order(given.swapaxes(1, 2), -1), totals.swapaxes(1, 2))
        np.testing.assert_array_equal(utterance_cmvn(given, norm_vars=True), utterance_cmvn(frames, norm_vars=True))
    assert not sum_in_order(frames[:, :0], -2).any()


def test_kernels_do_not_compute_what_models_compute_in_double_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "DEVICE_TYPE", "meta")
    monkeypatch.setattr(kernels, "explain_unsupported", lambda *arguments: "")
    audio_on_device = torch.zeros(2, 16000, device="meta")
    assert choose_engine(kaldi_compat.Frontend("zipformer").feature, audio_on_device, None) == "triton"
    assert choose_engine(kaldi_compat.Frontend("medasr").feature, audio_on_device, None) == "torch"


def _interrupt(*_: Any) -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("name", ["beats", "fsmn-vad", "medasr", "sensevoice"])
def test_interrupted_streams_take_no_chunk_before_a_reset(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The audio is a part of the utterance already, so that another call with the chunk would repeat it."""
    stream = on_arrays(name).stream()
    stream(audio()[0])
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(stream._steps[-1], "_compute_frames", _interrupt)
        stream(audio()[0])
    for call in (lambda: stream(audio()[0]), stream.flush):
        with pytest.raises(AudioError, match=r"call reset\(\)"):
            call()
    stream.reset()
    assert_same_bytes(stream(audio()[0], final=True), expected(name)[0])


@pytest.mark.parametrize("name", STREAMED)
def test_interrupted_steps_take_the_frames_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = np.random.default_rng(1).normal(size=(90, on_arrays(name).feature.dim)).astype(np.float32)
    for step, twin in zip(on_arrays(name).stream()._steps[:1], on_arrays(name).stream()._steps[:1], strict=True):
        for number, chunk in enumerate(np.split(frames, [2, 31])):
            with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
                patch.setattr(step, "_compute_frames", _interrupt)
                step(chunk, False)
            assert_same_bytes(step(chunk, number == 2), twin(chunk, number == 2))
