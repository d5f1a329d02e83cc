"""Front ends on tensors and arrays: batches, lists, sampling rates, chunks, and audio that is refused."""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kaldi_compat import Frontend, list_presets
from kaldi_compat.errors import AudioError, FeatureError, OptionError
from kaldi_compat.exact.resample import resample_waveform
from kaldi_compat.frontends import Preset
from kaldi_compat.frontends.numpy import Frontend as ArrayFrontend
from kaldi_compat.functional import checks
from kaldi_compat.torch.export import export_frontend
from tests.support.frontend_audio import am_mvn, clips
from tests.support.processes import output_of

STREAMED = [name for name in list_presets() if not Preset.of(name).why_no_stream]
KINDS = ("tensors", "arrays")
pytestmark = pytest.mark.filterwarnings("ignore:the preset .* normalizes by statistics")


def made(kind: str, name: Any, **arguments: Any) -> Any:
    """Return a front end as a function of arrays that returns arrays."""
    if kind == "arrays":
        return ArrayFrontend.from_preset(name, **arguments)
    frontend = Frontend.from_preset(name, **arguments)

    def compute(samples: Any, *others: Any, **more: Any) -> Any:
        given = [torch.from_numpy(x) for x in samples] if isinstance(samples, list) else torch.from_numpy(samples)
        result = frontend(given, *others, **more)
        if isinstance(result, list):
            return [each.numpy() for each in result]
        return tuple(each.numpy() for each in result) if isinstance(result, tuple) else result.numpy()

    return compute


def speech() -> Any:
    return clips()["speech"].astype(np.float32) / 32768


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", list_presets())
def test_rows_of_a_padded_batch_are_those_of_each_utterance_alone(kind: str, name: str) -> None:
    frontend, audio = made(kind, name), speech()
    lengths = [len(audio), 9000, 300]
    batch = np.full((3, len(audio)), np.nan, np.float32)
    for row, length in zip(batch, lengths, strict=True):
        row[:length] = audio[:length]
    features, counts = frontend(batch, lengths)
    for row, length, count in zip(features, lengths, counts.tolist(), strict=True):
        alone, (own,) = frontend(audio[None, :length], [length])
        assert own == count
        np.testing.assert_allclose(row[:count], alone[0][:count], rtol=1e-5, atol=1e-4)
    whole = frontend([audio, audio[:9000]])
    np.testing.assert_array_equal(whole[1], frontend(audio[:9000]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["paraformer", "campplus", "zipformer"])
def test_int16_and_float_audio_are_the_same(kind: str, name: str) -> None:
    frontend = made(kind, name)
    np.testing.assert_array_equal(frontend(clips()["speech"]), frontend(speech()))


@pytest.mark.parametrize("kind", KINDS)
def test_audio_of_another_rate_is_resampled_as_in_kaldi(kind: str) -> None:
    frontend, audio = made(kind, "wenet"), speech()[:8000]
    expected = ArrayFrontend("wenet")(resample_waveform(audio, 8000, 16000))
    close: Any = {"rtol": 0, "atol": 2e-2}  # above 4 kHz there is little more than rounding error
    np.testing.assert_allclose(frontend(audio, sampling_rate=8000), expected, **close)
    features, counts = frontend(np.stack((audio, audio)), [8000, 4000], sampling_rate=8000)
    assert counts.tolist() == [98, 48]
    half = ArrayFrontend("wenet")(resample_waveform(audio[:4000], 8000, 16000))
    np.testing.assert_allclose(features[1, :48], half, **close)


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_rate_is_refused_without_resampling(kind: str) -> None:
    frontend = made(kind, "wenet", resample=False)
    with pytest.raises(AudioError, match="sampled at 8000 Hz, but the preset 'wenet' takes 16000 Hz"):
        frontend(speech(), sampling_rate=8000)
    assert frontend(speech(), sampling_rate=16000).shape == (158, 80)
    with pytest.raises(OptionError, match=r"positive whole number of Hz below 1e\+09, not 0"):
        frontend(speech(), sampling_rate=0)
    with pytest.raises(OptionError, match=r"below .*, not an integer of 1329 bits"):
        frontend(speech(), sampling_rate=10**400)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["wenet", "paraformer"])
def test_channels_are_refused_before_they_are_resampled(kind: str, name: str) -> None:
    with pytest.raises(AudioError, match=r"samples of shape \(16000, 2\) are 16000 utterances of 2 samples"):
        made(kind, name)(np.zeros((16000, 2), np.float32), sampling_rate=8000)


@pytest.mark.parametrize("kind", KINDS)
def test_bad_audio_is_refused_with_one_line(kind: str) -> None:
    frontend = made(kind, "paraformer")
    audio = speech()
    audio[5] = np.nan
    for samples, message in [
        (np.zeros(0, np.float32), "the audio is empty"),
        (np.zeros((16000, 2), np.float32), "transpose audio of shape"),
        (np.zeros((1, 2, 16000), np.float32), "take one channel"),
        (audio, "1 of the samples are NaN or infinite"),
        (np.full(500, np.inf, np.float32), "500 of the samples"),
        (np.zeros(16000, np.int64), "must be int16, or floating point"),
    ]:
        with pytest.raises(AudioError, match=message) as caught:
            frontend(samples)
        assert "\n" not in str(caught.value)
    with pytest.raises(AudioError, match="lengths"):
        frontend([speech()], [5])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rate", [8000, 16000])
def test_empty_batch_has_no_rows(kind: str, rate: int) -> None:
    for dtype in (np.int16, np.float32, np.float64):
        features, counts = made(kind, "wenet")(np.zeros((0, rate), dtype), [], sampling_rate=rate)
        assert features.shape == (0, 98, 80)
        assert counts.shape == (0,)


def test_audio_of_an_unusual_form_is_refused_with_one_line() -> None:
    masked = np.ma.masked_array(speech(), speech() > 0)
    for arrays in (masked, [masked]):
        with pytest.raises(AudioError, match="not one that is masked"):
            ArrayFrontend("paraformer")(arrays)
    sparse = torch.zeros(16000).to_sparse()
    for tensors in (sparse, [sparse]):
        with pytest.raises(AudioError, match="not one that is sparse"):
            Frontend("paraformer")(tensors)


@pytest.mark.parametrize("kind", KINDS)
def test_float_audio_on_the_scale_of_integers_is_noticed(kind: str) -> None:
    checks._warned.discard("frontend scale")
    with pytest.warns(UserWarning, match="divide it by 32768, or pass int16"):
        made(kind, "wenet")(speech() * 32768)


@pytest.mark.parametrize("kind", KINDS)
def test_stereo_audio_is_noticed_and_a_batch_is_not(kind: str) -> None:
    frontend, channel = made(kind, "wenet"), speech()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checks._warned.discard("frontend channels")
        frontend(np.stack([channel, -channel]))
        frontend(np.stack([channel, channel * 0]))
        frontend(np.stack([channel] * 3))
        frontend(np.stack([channel, channel]), [len(channel), len(channel)])
    with pytest.warns(UserWarning, match=r"channels of one recording, take one of them or their mean"):
        frontend(np.stack([channel, channel * 0.5]))


@pytest.mark.parametrize("name", list_presets())
def test_the_scale_of_a_preset_causes_no_warning(name: str) -> None:
    checks._warned.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="the preset .* normalizes by statistics")
        Frontend.from_preset(name)(torch.from_numpy(speech()))
        ArrayFrontend.from_preset(name)(speech())


@settings(max_examples=8)
@given(cuts=st.lists(st.integers(0, 24000), max_size=6).map(sorted), name=st.sampled_from(STREAMED))
def test_chunks_give_the_frames_of_the_whole(cuts: list[int], name: str) -> None:
    audio = speech()[:24000]
    chunks = np.split(audio, cuts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        by_torch, by_numpy = Frontend.from_preset(name), ArrayFrontend.from_preset(name)
    whole = by_torch(torch.from_numpy(audio)).numpy()
    stream, other = by_torch.stream(), by_numpy.stream()
    for again in range(2):  # a flushed stream starts anew
        frames = [stream(torch.from_numpy(chunk)) for chunk in chunks]
        np.testing.assert_allclose(torch.cat([*frames, stream.flush()]), whole, rtol=0, atol=1e-4, err_msg=str(again))
        arrays = [other(chunk) for chunk in chunks]
        np.testing.assert_allclose(np.concatenate([*arrays, other.flush()]), by_numpy(audio), rtol=0, atol=1e-4)


def test_streams_of_a_batch_are_those_of_each() -> None:
    frontend = Frontend.from_preset("paraformer")
    audio = torch.from_numpy(speech())
    batch = torch.stack((audio, audio.flip(0)))
    stream = frontend.stream(2)
    start = batch[:, :9000].clone()
    start[1, 5000:] = torch.nan  # Samples after the end of a row are not used.
    first, counts = stream(start, [9000, 5000])
    second, more = stream(batch[:, 9000:], final=True)
    joined = torch.cat((first[0, : counts[0]], second[0, : more[0]]))
    torch.testing.assert_close(joined, frontend(audio), rtol=0, atol=1e-4)
    other = torch.cat((batch[1, :5000], batch[1, 9000:]))
    joined = torch.cat((first[1, : counts[1]], second[1, : more[1]]))
    torch.testing.assert_close(joined, frontend(other), rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["campplus", "ast", "imagebind"])
def test_presets_that_need_the_whole_utterance_have_no_stream(name: str) -> None:
    for frontend in (Frontend.from_preset(name), ArrayFrontend.from_preset(name)):
        with pytest.raises(OptionError, match=f"'{name}' cannot be computed in chunks, because "):
            frontend.stream()


def test_streams_refuse_nan() -> None:
    with pytest.raises(AudioError, match="NaN"):
        Frontend.from_preset("wenet").stream()(torch.full((5,), torch.nan))
    with pytest.raises(AudioError, match="NaN"):
        ArrayFrontend.from_preset("wenet").stream()(np.full(5, np.nan, np.float32))


@pytest.mark.parametrize("frontend", [Frontend, ArrayFrontend])
def test_missing_statistics_leave_their_step_out_with_a_warning(frontend: Any, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"statistics that the model ships \(am.mvn\)"):
        without = frontend.from_preset("paraformer")
    assert [step.kind for step in without.preset.steps] == ["low_frame_rate"]
    file = tmp_path / "am.mvn"
    file.write_text(am_mvn(560))
    with_them = frontend.from_preset("paraformer", statistics=file)
    assert [step.kind for step in with_them.preset.steps] == ["low_frame_rate", "global_cmvn"]
    file.write_text(am_mvn(80))
    with pytest.raises(FeatureError, match="80 columns, but the features of the preset 'paraformer' have 560"):
        frontend.from_preset("paraformer", statistics=file)
    with pytest.raises(OptionError, match="'ast' takes no statistics"):
        frontend.from_preset("ast", statistics=file)


@pytest.mark.parametrize("name", list_presets())
@pytest.mark.parametrize("frontend", [Frontend, ArrayFrontend])
def test_front_ends_can_be_sent_to_processes(frontend: Any, name: str) -> None:
    made = frontend.from_preset(name)
    assert repr(pickle.loads(pickle.dumps(made))) == repr(copy.deepcopy(made)) == repr(made)


def test_gradients_flow_to_the_audio() -> None:
    audio = torch.from_numpy(speech()[:4000]).requires_grad_()
    Frontend.from_preset("speech2text")(audio).square().sum().backward()  # type: ignore[no-untyped-call]
    assert audio.grad is not None and torch.isfinite(audio.grad).all() and audio.grad.abs().sum() > 0


@pytest.mark.costly
@pytest.mark.skipif(
    not hasattr(getattr(torch.export, "Dim", None), "AUTO"), reason="this PyTorch exports fixed sizes only"
)
@pytest.mark.parametrize(
    "name", ["seamless-m4t", *(pytest.param(name, marks=pytest.mark.slow) for name in ("paraformer", "imagebind"))]
)
def test_front_ends_can_be_exported_with_any_length(name: str) -> None:
    frontend = Frontend.from_preset(name)
    example, other = torch.from_numpy(np.stack([speech()[:8000]] * 2)), torch.from_numpy(speech()[None])
    batch, time = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("time", min=1600, max=10**6)
    lengths = torch.tensor([8000, 6000])
    program = torch.export.export(
        frontend, (example, lengths), dynamic_shapes=({0: batch, 1: time}, {0: batch}), strict=False
    )
    features, counts = program.module()(other, torch.tensor([20000]))
    expected, expected_counts = frontend(other, [20000])
    count = int(expected_counts[0])
    assert counts.tolist() == expected_counts.tolist()
    torch.testing.assert_close(features[0, :count], expected[0, :count], rtol=0, atol=1e-3)


@pytest.mark.costly
@pytest.mark.skipif(
    not hasattr(torch.compiler, "is_compiling"), reason="PyTorch 2.3 is the first that says that it compiles"
)
@pytest.mark.parametrize("name", ["paraformer", "seamless-m4t", "imagebind", "campplus", "phi4-multimodal"])
def test_front_ends_compile_to_one_graph(name: str) -> None:
    torch.compiler.reset()
    audio = torch.from_numpy(np.stack([speech()[:8000]] * 2))
    statistics = ([1.0] * 560, [2.0] * 560) if name == "paraformer" else None
    frontend = Frontend.from_preset(name, statistics=statistics)
    compiled = torch.compile(frontend, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(audio), frontend(audio), rtol=0, atol=1e-3)
    features, counts = compiled(audio, torch.tensor([8000, 5000]))
    expected, expected_counts = frontend(audio, [8000, 5000])
    assert torch.equal(counts, expected_counts)
    torch.testing.assert_close(features, expected, rtol=0, atol=1e-3)


def test_half_precision_models_keep_the_front_end_in_single_precision() -> None:
    frontend = Frontend.from_preset("paraformer", statistics=([1.0] * 560, [2.0] * 560)).half()
    assert all(buffer.dtype == torch.float32 for buffer in frontend.buffers() if buffer.is_floating_point())


NUMPY_ONLY = """
import sys, warnings
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "torchaudio", "scipy"):
            raise ImportError(f"{name} is not to be imported")
sys.meta_path.insert(0, Refuse())
warnings.simplefilter("ignore")
import numpy as np
from kaldi_compat import list_presets
from kaldi_compat.frontends.numpy import Frontend
for name in list_presets():
    features = Frontend.from_preset(name)(np.sin(np.arange(16000, dtype=np.float32)) / 8)
    assert len(features) and np.isfinite(features).all(), name
try:
    from kaldi_compat import Frontend
except ImportError as error:
    print(len(list_presets()), error)
"""


def test_every_preset_runs_without_torch() -> None:
    assert output_of(NUMPY_ONLY).startswith(f"{len(list_presets())} ")


def test_a_preset_of_your_own(tmp_path: Path) -> None:
    description = {
        "name": "mine",
        "feature": "fbank",
        "sampling_rate": 8000,
        "sample_scale": 1,
        "options": {"num_mel_bins": 40},
        "steps": [{"stack_frames": {"size": 4}}, {"global_cmvn": {"mean": -3.0, "std": 2.0}}],
    }
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(description))
    audio = speech()[:8000]
    computed = ArrayFrontend.from_preset(str(file))(audio)
    assert computed.shape == (25, 160)
    np.testing.assert_allclose(Frontend.from_preset(file)(torch.from_numpy(audio)), computed, rtol=0, atol=1e-3)


def test_a_torch_that_cannot_export_is_refused_with_both_versions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(torch, "__version__", "2.1.2")
    monkeypatch.delattr(torch.export, "Dim", raising=False)
    with pytest.raises(FeatureError) as caught:
        export_frontend("campplus", str(tmp_path / "campplus.onnx"))
    assert str(caught.value) == "export needs PyTorch 2.6 or later, but 2.1.2 is installed"
    assert not list(tmp_path.iterdir())
