"""The torch-free features: Kaldi's bits, batches, lists and streams."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import io_ark
import kaldi_compat
from kaldi_compat import AudioError, KaldiRandom, OptionError
from kaldi_compat.numpy import ArrayFeature, Fbank, Mfcc, Plp, Spectrogram
from tests.support.native import LEVELS, computing
from tests.support.processes import output_of
from tests.support.reference import audio, cases_of, expected, flags_of, name_of, options_of

CLASSES = {"fbank": Fbank, "mfcc": Mfcc, "plp": Plp, "spectrogram": Spectrogram}
SPEECH = next(samples[0] for key, _, samples in audio("main.scp") if key.startswith("speech"))


def plain_cases() -> list[dict[str, Any]]:
    """Cases that change nothing but options of the feature and the VTLN factor."""
    groups = [*CLASSES, *(f"{name}-dither" for name in CLASSES)]
    words = ("subtract-mean", "sample", "channel", "len_empty", "vtln-map", "min-duration", "|", "--config")
    return [c for c in cases_of(*groups) if c["exit"] == 0 and not any(word in c["cmd"] for word in words)][::5]


@pytest.mark.parametrize("case", plain_cases(), ids=name_of)
def test_list_of_utterances_has_kaldis_bits(case: dict[str, Any]) -> None:
    kind = CLASSES[case["group"].partition("-")[0]]
    flags, arguments = flags_of(case)
    utterances = {key: samples[0] for key, rate, samples in audio(arguments[0])}
    feature = kind(options_of(kind.Options, flags))
    warp = float(flags.get("vtln-warp", "1"))
    features = feature(list(utterances.values()), vtln_warp=warp, generator=KaldiRandom())
    kaldis = expected(case)
    for key, found in zip(utterances, features, strict=True):
        if key in kaldis and kaldis[key].size:
            np.testing.assert_array_equal(found, kaldis[key], err_msg=key)


@pytest.mark.parametrize("name", CLASSES)
def test_padded_batch_equals_single_utterances(name: str) -> None:
    feature: ArrayFeature = CLASSES[name](dither=0.0, snip_edges=False)
    batch = np.stack((SPEECH[:8000], SPEECH[4000:12000], SPEECH[2000:10000]))
    features, counts = feature(batch, [8000, 300, 0], vtln_warp=[1.0, 0.9, 1.1])
    assert counts.tolist() == [50, 2, 0]
    np.testing.assert_array_equal(features[0], feature(batch[0]))
    np.testing.assert_array_equal(features[1, :2], feature(batch[1, :300], vtln_warp=0.9))
    assert not features[1, 2:].any() and not features[2].any()
    np.testing.assert_array_equal(feature(batch), np.stack([feature(row) for row in batch]))


@pytest.mark.parametrize("name", CLASSES)
def test_torch_module_gives_the_same_bits(name: str) -> None:
    module = getattr(kaldi_compat, name.capitalize())(dither=0.5, engine="exact")
    found = CLASSES[name](dither=0.5)(SPEECH, generator=KaldiRandom())
    np.testing.assert_array_equal(module(torch.from_numpy(SPEECH), generator=KaldiRandom()).numpy(), found)


@settings(max_examples=40)
@given(
    cuts=st.lists(st.integers(0, 3000), max_size=8),
    snip_edges=st.booleans(),
    length=st.integers(0, 3000),
    frame_length=st.sampled_from([25.0, 10.0, 6.0]),
)
def test_stream_gives_the_frames_of_the_whole(
    cuts: list[int], snip_edges: bool, length: int, frame_length: float
) -> None:
    feature = Mfcc(dither=0.0, snip_edges=snip_edges, frame_length=frame_length, low_freq=300.0)
    whole = SPEECH[:length]
    stream, parts, at = feature.stream(), [], 0
    for cut in sorted(min(cut, length) for cut in cuts):
        parts.append(stream(whole[at:cut]))
        at = cut
    parts += [stream(whole[at:]), stream.flush()]
    np.testing.assert_array_equal(np.concatenate(parts), feature(whole))
    np.testing.assert_array_equal(stream(whole, final=True), feature(whole))


def test_flush_takes_the_warp_factor_and_the_generator_of_the_chunks() -> None:
    feature = Mfcc(dither=1.0, snip_edges=False)
    whole = feature(SPEECH[:2000], vtln_warp=1.1, generator=KaldiRandom())
    stream, random = feature.stream(), KaldiRandom()
    parts = [stream(SPEECH[:2000], vtln_warp=1.1, generator=random), stream.flush(vtln_warp=1.1, generator=random)]
    assert len(parts[1])
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_stream_keeps_no_more_audio_than_frames_need() -> None:
    stream = Fbank(dither=0.0, snip_edges=False).stream()
    chunk = np.ones(1600, np.int16)
    for _ in range(100):
        stream(chunk)
    assert len(stream._chunks.history.samples) < 1600


def test_chunks_may_be_strided_reused_and_streams_copied() -> None:
    feature = Fbank(dither=0.0, snip_edges=False)
    whole = (np.random.default_rng(2).standard_normal(4000) * 1000).astype(np.float32)
    stream, parts = feature.stream(), []
    for at in range(0, 4000, 500):
        step = 1 + at // 500 % 2
        reused = np.empty(500 * step, np.float32)
        reused[::step] = whole[at : at + 500]
        parts.append(stream(reused[::step]))
        reused[:] = np.nan
        stream = pickle.loads(pickle.dumps(copy.deepcopy(stream)))
    parts.append(stream.flush())
    np.testing.assert_array_equal(np.concatenate(parts), feature(whole))


@pytest.mark.parametrize("how", [None, *LEVELS[-1:]])
def test_warp_factors_of_a_stream_may_change(how: str | None) -> None:
    feature = Fbank(dither=0.0)
    whole = (np.random.default_rng(3).standard_normal(1200) * 1000).astype(np.float32)
    with computing(how):
        stream, done = feature.stream(), 0
        for at, warp in ((0, 1.1), (400, 0.9), (800, 1.0)):
            frames = stream(whole[at : at + 400], vtln_warp=warp)
            np.testing.assert_array_equal(frames, feature(whole, vtln_warp=warp)[done : done + len(frames)])
            done += len(frames)
    assert done == 6


def test_does_not_import_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import numpy as np\n"
        "from kaldi_compat.numpy import Fbank\n"
        "from kaldi_compat import KaldiRandom\n"
        "print(Fbank()(np.zeros(16000, np.int16), generator=KaldiRandom()).shape)"
    )
    assert output_of(code) == "(98, 23)\n"


def test_dithering_is_repeated_by_the_same_generator() -> None:
    fbank = Fbank()
    first, second, other = (fbank(SPEECH, generator=np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: f(np.zeros((16000, 2), np.float32)), "the last axis is time"),
        (lambda f: f(np.zeros(800, complex)), "real numbers"),
        (lambda f: f(np.array(1.0)), "are a single number"),
        (lambda f: f(np.zeros((2, 800)), [800]), "lengths of shape .1,. do not match a batch of shape .2, 800."),
        (lambda f: f(np.zeros((2, 800)), [800, 801]), "lengths must be from 0 to 800, not from 800 to 801"),
        (lambda f: f([np.zeros((2, 800))]), r"an item has the shape \(2, 800\)"),
        (lambda f: f([np.zeros(800)], [800]), "lengths describe a padded batch"),
        (lambda f: f(np.zeros(800), vtln_warp=[1.0, 1.0]), "but the audio is one utterance: pass a number"),
        (lambda f: f.stream()(np.zeros((1, 800))), "a chunk must be an array"),
        (lambda f: f.stream()(bytes(800)), r"not bytes: convert it with np.frombuffer\(data, np.int16\)"),
        (lambda f: f(bytes(800)), r"not bytes: convert the input with np.frombuffer\(data, np.int16\)"),
        (lambda f: f("a.wav"), r"expected an array, or a list with an array .* not str: .* with io_ark.load"),
        *[((lambda f, empty=empty: f(empty)), f"not {type(empty).__name__}: ") for empty in (b"", "", {}, bytearray())],
        (lambda f: f({"a": np.zeros(800)}), "not dict: convert the input"),
        (lambda f: f([[0] * 800, [0] * 900]), "not list: convert each item with np.asarray"),
        (lambda f: f([0] * 800), "not int: convert the input with np.asarray"),
        (lambda f: f([np.zeros(800), bytes(800)]), "not bytes: convert each item with np.frombuffer"),
        (
            lambda f: f(io_ark.Wave(8000.0, np.zeros((1, 800), np.int16))),
            "the sampling rate of the audio is 8000 Hz, but sample_frequency=16",
        ),
        (
            lambda f: f([io_ark.Wave(8000.0, np.zeros((1, 800), np.int16))]),
            "resample the audio, or pass sample_frequency=8000",
        ),
        (lambda f: f(np.full(800, 1 << 20)), "integers up to 1.05e[+]06"),
        (lambda f: f(np.full(800, -(2**31), np.int32)), "pass samples >> 16"),
        (lambda f: f.stream()(np.full(800, 1 << 20, np.int32)), "16-bit"),
    ],
)
def test_invalid_input_is_refused(call: Any, message: str) -> None:
    with pytest.raises(AudioError, match=message):
        call(Fbank(dither=0.0))


def test_audio_of_a_file_and_integers_on_kaldis_scale_are_taken() -> None:
    wanted = Fbank(dither=0.0)(SPEECH)
    wave = io_ark.Wave(16000.0, np.stack((SPEECH, SPEECH[::-1])))
    for feature in (Fbank(dither=0.0), kaldi_compat.Fbank(dither=0.0, engine="exact")):
        one, both = feature(wave._replace(samples=wave.samples[:1])), feature(wave)
        np.testing.assert_array_equal(np.asarray(one), wanted)
        np.testing.assert_array_equal(np.asarray(both)[0], wanted)
        assert len(both) == 2
    np.testing.assert_array_equal(Fbank(dither=0.0)([wave._replace(samples=wave.samples[:1])])[0], wanted)
    np.testing.assert_array_equal(Fbank(dither=0.0)(SPEECH.astype(np.int64)), wanted)
    scaled = Fbank(dither=0.0, waveform_scale=2**-16)
    np.testing.assert_array_equal(scaled(SPEECH.astype(np.int32) << 16), wanted)
    with pytest.raises(AudioError, match="16-bit"):
        kaldi_compat.Fbank(dither=0.0)(torch.full((800,), 1 << 20, dtype=torch.int32))


def test_engine_for_tensors_is_refused() -> None:
    with pytest.raises(OptionError, match=r"pass tensors to kaldi_compat\.Fbank"):
        Fbank(engine="torch")


def test_import_leaves_slow_modules_to_those_who_need_them() -> None:
    code = "import sys, numpy; before = set(sys.modules); import kaldi_compat.numpy; print(*set(sys.modules) - before)"
    imported = output_of(code).split()
    assert "kaldi_compat.options.spectral" in imported
    assert not {"logging", "numpy.random", "hashlib", "inspect", "kaldi_compat.functional.cmvn"} & set(imported)
