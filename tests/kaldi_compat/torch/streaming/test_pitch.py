"""Pitch of audio in chunks equals that of the whole utterance."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kaldi_compat.errors import AudioError, FeatureError, OptionError
from kaldi_compat.exact.rand import KaldiRandom
from kaldi_compat.options.pitch import PitchOptions, ProcessPitchOptions
from kaldi_compat.torch.features.pitch import Pitch, ProcessPitch
from kaldi_compat.torch.streaming.base import Stream, StreamChain


def speech(length: int, seed: int = 0) -> torch.Tensor:
    """Voiced stretches of moving pitch between noise and silence."""
    rng = np.random.default_rng(seed)
    time = np.arange(length) / 16000
    phase = 2 * np.pi * np.cumsum(150 + 50 * np.sin(2 * np.pi * 1.3 * time)) / 16000
    voiced = sum(np.sin(k * phase) / k for k in range(1, 6)) * (np.sin(2 * np.pi * 2.1 * time) > -0.3)
    return torch.from_numpy((3000 * voiced + 100 * rng.standard_normal(length)).astype(np.float32))


def stream_all(stream: Stream | StreamChain, samples: torch.Tensor, size: int) -> torch.Tensor:
    chunks = samples.split(size)
    return torch.cat([stream(chunk, final=i == len(chunks) - 1) for i, chunk in enumerate(chunks)])


@example(24000, 100, PitchOptions(nccf_ballast_online=True, sample_frequency=8000.0, frame_shift=100.0))
@given(
    length=st.integers(0, 24000),
    size=st.integers(50, 9000),
    options=st.builds(
        PitchOptions,
        nccf_ballast_online=st.just(True),
        snip_edges=st.booleans(),
        preemphasis_coefficient=st.sampled_from([0.0, 0.9]),
        sample_frequency=st.sampled_from([16000.0, 8000.0, 11025.0]),
        frame_shift=st.sampled_from([10.0, 10.0, 100.0]),  # audio between frames counts for the energy
    ),
)
@settings(max_examples=40, deadline=None)
def test_any_cut_gives_the_whole_utterances_track(length: int, size: int, options: PitchOptions) -> None:
    samples = speech(length)
    whole = Pitch(options)(samples)
    streamed = stream_all(Pitch(options).stream(), samples, size)
    assert streamed.shape == whole.shape
    torch.testing.assert_close(streamed, whole, rtol=1e-5, atol=1e-4)


@given(
    frames=st.integers(1, 120),
    size=st.integers(1, 50),
    options=st.builds(
        ProcessPitchOptions,
        normalization_left_context=st.integers(0, 40),
        normalization_right_context=st.integers(0, 40),
        delay=st.integers(0, 7),
        add_raw_log_pitch=st.booleans(),
        delta_pitch_noise_stddev=st.just(0.0),
    ),
)
@settings(max_examples=60, deadline=None)
def test_processed_pitch_is_that_of_the_whole_track(frames: int, size: int, options: ProcessPitchOptions) -> None:
    rng = np.random.default_rng(frames)
    track = torch.from_numpy(np.stack((rng.uniform(-0.1, 1, frames), rng.uniform(60, 400, frames)), 1)).float()
    streamed = stream_all(ProcessPitch(options).stream(), track, size)
    whole = ProcessPitch(options)(track)
    assert streamed.shape == whole.shape
    torch.testing.assert_close(streamed, whole, rtol=1e-5, atol=1e-5)


def test_a_chain_from_audio_to_processed_pitch() -> None:
    options = ProcessPitchOptions(delta_pitch_noise_stddev=0.0)
    pitch = PitchOptions(nccf_ballast_online=True)
    chain = StreamChain(Pitch(pitch).stream(), ProcessPitch(options).stream())
    samples = speech(30000)
    # Processed is the streamed track, which a test above holds against the whole one's: near a correlation of 1, the
    # feature made of it shows the last digits of a matrix product a hundred times as large.
    track = stream_all(Pitch(pitch).stream(), samples, 1700)
    torch.testing.assert_close(stream_all(chain, samples, 1700), ProcessPitch(options)(track))


def test_copy_in_another_process_continues_the_utterance() -> None:
    options = ProcessPitchOptions(delta_pitch_noise_stddev=0.0)
    chain = StreamChain(Pitch(nccf_ballast_online=True).stream(), ProcessPitch(options).stream())
    chain(speech(8000))
    copied = pickle.loads(pickle.dumps(chain))
    given = [each(speech(4000), final=True) for each in (copied, chain)]
    assert len(given[0]) > 40 and torch.equal(*given)


@pytest.mark.parametrize("scale", [0.0, 0.005])
def test_noise_of_processed_pitch_is_that_of_the_whole_track(scale: float) -> None:
    module = ProcessPitch(delta_pitch_noise_stddev=scale, delay=3, normalization_right_context=5)
    track = torch.tensor([[0.9, 100.0]]).expand(40, 2)
    stream, random = module.stream(), KaldiRandom()
    parts = [stream(chunk, generator=random) for chunk in track.split(7)]
    whole = module(track, generator=KaldiRandom())
    torch.testing.assert_close(torch.cat([*parts, stream.flush(generator=random)]), whole, rtol=1e-5, atol=1e-5)


def test_frames_come_before_the_end_and_memory_is_bounded() -> None:
    stream = Pitch(nccf_ballast_online=True).stream()
    samples = speech(10 * 16000)
    given_before_the_end = sum(len(stream(chunk)) for chunk in samples.split(1600))
    assert given_before_the_end > 900
    [tracker] = stream._trackers
    assert len(tracker._paths) < 100 and len(tracker._signal) < 2000 and len(tracker._resampler._audio) < 2000


def test_memory_is_bounded_in_silence() -> None:
    stream = Pitch(nccf_ballast_online=True).stream(max_latency=50)
    frames = torch.cat([stream(torch.zeros(1600)) for _ in range(30)])
    assert len(frames) > 200 and torch.isfinite(frames).all()
    assert len(stream._trackers[0]._paths) <= 50


def test_slots_end_each_on_its_own_and_start_anew() -> None:
    options = PitchOptions(nccf_ballast_online=True)
    stream = Pitch(options).stream(2)
    audio = [speech(8000, 1), speech(5000, 2)]
    for _ in range(2):
        parts: list[list[torch.Tensor]] = [[], []]
        for start in range(0, 8000, 1000):
            chunks = [samples[start : start + 1000] for samples in audio]
            batch = torch.nn.utils.rnn.pad_sequence(chunks, batch_first=True)
            ended = [start < len(samples) <= start + 1000 for samples in audio]
            features, counts = stream(batch, [len(chunk) for chunk in chunks], final=ended)
            for slot, count in enumerate(counts.tolist()):
                parts[slot].append(features[slot, :count])
        for part, samples in zip(parts, audio, strict=True):
            torch.testing.assert_close(torch.cat(part), Pitch(options)(samples), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("changes", [{}, {"nccf_ballast_online": True, "frames_per_chunk": 10}])
def test_options_for_whole_utterances_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="stream"):
        Pitch(**changes).stream()


def test_infinite_and_nan_samples_are_refused() -> None:
    with pytest.raises(AudioError, match="NaN or infinity"):
        Pitch(nccf_ballast_online=True).stream()(torch.tensor([float("nan")] * 100))


def test_chunk_with_nan_changes_no_slot() -> None:
    options = PitchOptions(nccf_ballast_online=True)
    audio = torch.stack([speech(8000, 1), speech(8000, 2)])
    undisturbed, disturbed = Pitch(options).stream(2), Pitch(options).stream(2)
    for number, chunk in enumerate(audio.chunk(4, 1)):
        broken = chunk.clone()
        broken[1, 5] = float("nan")
        with pytest.raises(AudioError, match="NaN or infinity"):
            disturbed(broken)
        expected, computed = (stream(chunk, final=number == 3) for stream in (undisturbed, disturbed))
        assert all(map(torch.equal, expected, computed))
    disturbed(broken, [2000, 5])  # The NaN is in the padding.


def test_stream_that_has_failed_in_one_slot_takes_no_chunk_before_a_reset() -> None:
    stream = Pitch(nccf_ballast_online=True).stream(2)
    chunk = torch.stack([speech(8000, 1), 1e18 * speech(8000, 2)])
    with pytest.raises(AudioError, match="so loud"):
        stream(chunk)
    with pytest.raises(AudioError, match=r"call reset\(\)"):
        stream(chunk * 1e-18)
    stream.reset()
    features, _ = stream(speech(8000, 1).expand(2, -1), final=True)
    assert torch.equal(features[0], features[1]) and len(features[0]) == len(Pitch()(speech(8000, 1)))


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan")])
def test_pitches_without_a_logarithm_are_refused_as_in_the_module(value: float) -> None:
    module = ProcessPitch(delta_pitch_noise_stddev=0.0)
    stream, track = module.stream(2), torch.tensor([0.5, 100.0]).repeat(2, 30, 1)
    broken = track.clone()
    broken[1, 20, 1] = value
    with pytest.raises(FeatureError, match="a pitch is not positive"):
        stream(broken)
    features, counts = stream(broken, [30, 20], final=True)  # The value is in the padding.
    assert torch.equal(features[1, : counts[1]], module(track[1, :20]))


@pytest.mark.parametrize("columns", [1, 4])
def test_tracks_without_two_columns_are_refused_as_in_the_module(columns: int) -> None:
    with pytest.raises(FeatureError, match="have two columns"):
        ProcessPitch().stream()(torch.ones(9, columns))
