"""The C half of the exact engine against the NumPy half, byte for byte, with every instruction set of the processor."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kaldi_compat import native
from kaldi_compat.errors import AudioError, OptionError
from kaldi_compat.exact import compiled as spectral
from kaldi_compat.exact.batch import AudioBatch
from kaldi_compat.exact.engine import compute_batch_features, make_batch, make_chunk_batch, select_implementation
from kaldi_compat.exact.plan import Plan, make_plan
from kaldi_compat.exact.rand import KaldiRandom
from kaldi_compat.native import library
from kaldi_compat.options.spectral import (
    WINDOW_TYPES,
    FbankOptions,
    MfccOptions,
    PlpOptions,
    SpectrogramOptions,
)
from tests.support.native import LEVELS, computing

pytestmark = pytest.mark.skipif(not library(), reason=library().reason)

FRAMES = {
    "sample_frequency": st.sampled_from([8000.0, 16000.0, 11025.0, 44100.0]),
    "frame_length": st.sampled_from([10.0, 17.3, 25.0, 64.0]) | st.integers(90, 700).map(lambda size: size / 16),
    "frame_shift": st.sampled_from([3.7, 10.0, 30.0]),
    "preemphasis_coefficient": st.sampled_from([0.0, 0.5, 0.97, 1.0]),
    "remove_dc_offset": st.booleans(),
    "dither": st.sampled_from([0.0, 0.1, 1.0]),
    "window_type": st.sampled_from(WINDOW_TYPES),
    "round_to_power_of_two": st.booleans(),
    "snip_edges": st.booleans(),
    "waveform_scale": st.sampled_from([1.0, 0.5, 2.0, 32768.0]),
    "energy_floor": st.sampled_from([0.0, 0.1, 1e6]),
    "raw_energy": st.booleans(),
}
MEL = FRAMES | {
    "num_mel_bins": st.integers(3, 40),
    "low_freq": st.sampled_from([0.0, 20.0, 125.5]),
    "high_freq": st.sampled_from([0.0, -400.0, 3700.0]),
    "htk_compat": st.booleans(),
    "use_energy": st.booleans(),
}
KINDS = {
    FbankOptions: MEL | {"use_log_fbank": st.booleans(), "use_power": st.booleans()},
    MfccOptions: MEL | {"num_ceps": st.integers(1, 20), "cepstral_lifter": st.sampled_from([0.0, 10.5, 22.0])},
    PlpOptions: MEL
    | {
        "lpc_order": st.integers(1, 20),
        "num_ceps": st.integers(1, 20),
        "compress_factor": st.sampled_from([0.2, 0.33333, 0.5]),
        "cepstral_scale": st.sampled_from([0.0, 0.1, 1.0]),
    },
    SpectrogramOptions: FRAMES | {"return_raw_fft": st.booleans()},
}


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Draw options of one of the features."""
    kind = draw(st.sampled_from(list(KINDS)))
    values: dict[str, Any] = draw(st.fixed_dictionaries({}, optional=KINDS[kind]))
    try:
        options = kind(**values)
        points = options.padded_window_size
        assume(points % 2 == 0)
        plan = make_plan(options, accurate_fft=points & (points - 1) == 0 and draw(st.booleans()))
    except OptionError:
        assume(False)
        raise
    if kind is SpectrogramOptions and draw(st.booleans()):  # the frames themselves
        plan = dataclasses.replace(plan, kind="frames", dim=plan.size, use_energy=False)
    return plan


def batch_of(plan: Plan, seed: int, lengths: list[int], warps: list[float], as_float: bool) -> AudioBatch:
    """Return a batch of noise, silence between, with noise for dithering."""
    rng = np.random.default_rng(seed)
    samples = (rng.standard_normal(sum(lengths)) * 10.0 ** rng.uniform(0, 4)).clip(-32768, 32767).astype(np.int16)
    samples[len(samples) // 3 : len(samples) // 2] = 0
    batch = make_batch(plan, samples.astype(np.float32) if as_float else samples, lengths, vtln_warp=warps)
    return batch.with_seeds(KaldiRandom(seed).frame_seeds(int(batch.rows[-1])))


@settings(deadline=None, max_examples=150)
@given(
    plan=plans(),
    seed=st.integers(0, 1000),
    utterances=st.lists(st.tuples(st.integers(0, 9000), st.sampled_from([1.0, 0.9, 1.1])), min_size=1, max_size=4),
    as_float=st.booleans(),
)
def test_same_bytes_as_numpy(plan: Plan, seed: int, utterances: list[tuple[int, float]], as_float: bool) -> None:
    lengths, warps = [length for length, _ in utterances], [warp for _, warp in utterances]
    try:
        batch = batch_of(plan, seed, lengths, warps, as_float)
        with computing(None):
            expected = compute_batch_features(plan, batch)
    except OptionError:  # a VTLN factor that the mel range has no room for
        assume(False)
        raise
    for level in LEVELS:
        ours = np.full_like(expected, 7.0)
        with computing(level):
            spectral.compute_batch_features(plan, batch, 0, len(ours), ours)
        assert ours.tobytes() == expected.tobytes(), f"{level}: rows {np.flatnonzero((ours != expected).any(1))[:9]}"


@pytest.mark.parametrize(("threads", "how"), [*((n, how) for how in LEVELS[:1] for n in (1, 3)), (3, None)])
def test_utterance_alone_and_in_a_batch_are_the_same(threads: int, how: str | None) -> None:
    plan = make_plan(MfccOptions(snip_edges=False))
    lengths = [4000, 100, 0, 16000, 30000]
    batch = batch_of(plan, 0, lengths, [1.0, 0.9, 1.0, 1.1, 0.9], as_float=False)
    with computing(how):
        together = compute_batch_features(plan, batch, threads=threads)
    assert batch.seeds is not None
    for start, length, warp, begin, end in zip(
        batch.starts, lengths, [1.0, 0.9, 1.0, 1.1, 0.9], batch.rows[:-1], batch.rows[1:], strict=True
    ):
        part = batch.samples[start : start + length]
        alone = compute_batch_features(plan, make_batch(plan, part, vtln_warp=warp).with_seeds(batch.seeds[begin:end]))
        assert alone.tobytes() == together[begin:end].tobytes()


def test_chunks_of_a_stream_are_the_frames_of_the_whole() -> None:
    plan = make_plan(FbankOptions(num_mel_bins=40))
    samples = batch_of(plan, 3, [16000], [1.0], as_float=False).samples
    whole = compute_batch_features(plan, make_batch(plan, samples))
    start = 40 * plan.shift
    chunk = make_chunk_batch(samples[start - 7 : start + 20 * plan.shift + plan.size], first=7, count=21)
    assert compute_batch_features(plan, chunk).tobytes() == whole[40:61].tobytes()


@pytest.mark.parametrize(
    ("changes", "accurate_fft", "is_in_c"),
    [({}, False, True), ({}, True, True), ({"round_to_power_of_two": False}, False, True),
     ({"round_to_power_of_two": False}, True, False), ({"debug_mel": True}, False, False)],
)  # fmt: skip
def test_plan_that_c_computes_is_left_to_numpy(changes: dict[str, Any], accurate_fft: bool, is_in_c: bool) -> None:
    plan = make_plan(FbankOptions(**changes), accurate_fft=accurate_fft)
    assert (select_implementation(plan) is spectral) == is_in_c


def test_utterance_outside_of_the_buffer_is_refused() -> None:
    plan = make_plan(FbankOptions())
    with pytest.raises(AudioError, match="beyond the 1000 samples"):
        make_batch(plan, np.zeros(1000, np.int16), [600], starts=[500])
    with pytest.raises(AudioError, match="without samples"):
        make_chunk_batch(np.zeros(0, np.int16), 0, 1)


@pytest.mark.skipif(not native.library(), reason="needs the C library")
def test_new_options_in_two_threads_keep_their_tables() -> None:
    samples = np.random.default_rng(0).normal(0, 1000, 48000).astype(np.int16)
    for size in range(20, 80):
        plan = make_plan(PlpOptions(frame_length=float(size), dither=0.0))
        batch = make_batch(plan, samples)
        np.testing.assert_array_equal(
            compute_batch_features(plan, batch, threads=2), compute_batch_features(plan, batch, threads=1)
        )
