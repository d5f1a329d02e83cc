"""Features of audio in chunks equal those of the whole utterance, for any split, number of slots and framing."""

from __future__ import annotations

import pickle
import signal
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kaldi_compat.errors import AudioError, FeatureError, KaldiCompatError, OptionError
from kaldi_compat.exact.rand import KaldiRandom
from kaldi_compat.functional import checks
from kaldi_compat.functional.cmvn import cmvn_statistics, sliding_cmvn
from kaldi_compat.functional.deltas import add_deltas, add_shifted_deltas
from kaldi_compat.functional.splice import splice
from kaldi_compat.options.postprocessing import DeltaOptions, ShiftedDeltaOptions, SlidingCmvnOptions, SpliceOptions
from kaldi_compat.torch.features.fbank import Fbank
from kaldi_compat.torch.features.mfcc import Mfcc
from kaldi_compat.torch.features.model_input import LowFrameRate, RepeatedDeltas, StackFrames
from kaldi_compat.torch.features.pitch import Pitch, ProcessPitch
from kaldi_compat.torch.features.plp import Plp
from kaldi_compat.torch.features.postprocessing import Cmvn, Deltas, OnlineCmvn, ShiftedDeltas, SlidingCmvn, Splice
from kaldi_compat.torch.features.spectrogram import Spectrogram
from kaldi_compat.torch.streaming.base import Stream, StreamChain
from kaldi_compat.torch.streaming.features import FeatureStream
from kaldi_compat.torch.streaming.pitch import PitchStream, ProcessPitchStream
from kaldi_compat.torch.streaming.postprocessing import DeltaStream, ShiftedDeltaStream, SlidingCmvnStream, SpliceStream
from kaldi_compat.torch.streaming.stacking import LowFrameRateStream, StackFramesStream

FEATURES = (Fbank, Mfcc, Plp, Spectrogram)


def noise(length: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(length, generator=torch.Generator().manual_seed(seed)) * 1000


def cut(length: int, sizes: list[int]) -> list[int]:
    """Return chunk lengths that add up to ``length``, cycling through ``sizes``; at least one chunk."""
    chunks, left, i = [], length, 0
    while left > 0:
        size = min(sizes[i % len(sizes)], left)
        chunks.append(size)
        left, i = left - size, i + 1
    return chunks or [0]


def stream_all(stream: Stream[Any] | StreamChain, items: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    chunks = cut(len(items), sizes)
    outputs = [
        stream(chunk, final=i == len(chunks) - 1)
        for i, chunk in enumerate(torch.split(items, chunks) if len(items) else [items])
    ]
    return torch.cat(outputs)


def assert_same(streamed: torch.Tensor, whole: torch.Tensor) -> None:
    assert streamed.shape == whole.shape
    torch.testing.assert_close(streamed, whole, rtol=2e-5, atol=2e-4)


@st.composite
def framings(draw: st.DrawFn) -> dict[str, object]:
    return {
        "frame_length": draw(st.sampled_from([25.0, 10.0, 32.0, 7.3, 2.0])),
        "frame_shift": draw(st.sampled_from([10.0, 12.5, 5.0, 1.1, 40.0, 33.3])),
        "snip_edges": draw(st.booleans()),
        "round_to_power_of_two": draw(st.booleans()),
        "sample_frequency": draw(st.sampled_from([8000.0, 16000.0, 11025.0])),
        "dither": 0.0,
    }


@given(
    length=st.one_of(st.integers(0, 1200), st.integers(0, 5 * 16000)),
    sizes=st.lists(st.one_of(st.integers(1, 500), st.integers(1, 20000)), min_size=1, max_size=8),
    framing=framings(),
)
@settings(max_examples=60, deadline=None)
def test_any_cut_and_framing_gives_the_whole_utterances_frames(
    length: int, sizes: list[int], framing: dict[str, object]
) -> None:
    if sum(sizes) * 400 < length * len(sizes):  # at most some 400 calls: smaller chunks have a test of their own
        sizes = [max(1, length // 400), *sizes]
    options = Spectrogram.Options(**framing)  # type: ignore[arg-type]
    if options.padded_window_size % 2:
        framing["round_to_power_of_two"] = True
    feature = Spectrogram(**framing)
    samples = noise(length)
    assert_same(stream_all(FeatureStream(feature), samples, sizes), feature(samples))


@pytest.mark.parametrize("snip_edges", [True, False])
@pytest.mark.parametrize("kind", FEATURES)
def test_one_sample_at_a_time(kind: type[Fbank], snip_edges: bool) -> None:
    feature = kind(snip_edges=snip_edges, dither=0.0)
    samples = noise(1000)
    assert_same(stream_all(FeatureStream(feature), samples, [1]), feature(samples))


@given(
    lengths=st.lists(st.integers(0, 3000), min_size=2, max_size=4),
    step=st.integers(60, 1500),
    snip_edges=st.booleans(),
    seed=st.integers(0, 1000),
)
@settings(max_examples=25, deadline=None)
def test_slots_fill_and_end_each_on_its_own(lengths: list[int], step: int, snip_edges: bool, seed: int) -> None:
    """Slots get chunks of different sizes, some none; each ends where its audio does, and then takes another."""
    feature = Mfcc(snip_edges=snip_edges, dither=0.0)
    stream = FeatureStream(feature, slots=len(lengths))
    rng = np.random.default_rng(seed)
    audio = [noise(n, i) for i, n in enumerate(lengths)]
    for _ in range(2):  # the second time with slots that have ended before
        outputs: list[list[torch.Tensor]] = [[] for _ in lengths]
        position, over = np.zeros(len(lengths), int), np.zeros(len(lengths), bool)
        while not over.all():
            left = np.array(lengths) - position
            sizes = np.minimum(left, rng.integers(0, step + 1, len(lengths)))
            if (left > 0).any() and not sizes.any():
                sizes = np.minimum(left, step)
            ended = ~over & (position + sizes == lengths)
            chunk = torch.full((len(lengths), int(sizes.max(initial=0)) + 3), float("nan"))  # what lies past a length
            for i, size in enumerate(sizes):
                chunk[i, :size] = audio[i][position[i] : position[i] + size]
            frames, counts = stream(chunk, sizes.tolist(), final=ended.tolist())
            for i, count in enumerate(counts.tolist()):
                if not over[i]:
                    outputs[i].append(frames[i, :count])
                else:
                    assert count == 0
            position, over = position + sizes, over | ended
        for parts, samples in zip(outputs, audio, strict=True):
            assert_same(torch.cat(parts), feature(samples))


@given(
    frames=st.integers(0, 80),
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=5),
    options=st.builds(
        SlidingCmvnOptions,
        center=st.booleans(),
        norm_vars=st.booleans(),
        cmn_window=st.integers(1, 40),
        min_cmn_window=st.integers(0, 50),
    ),
)
@settings(max_examples=150, deadline=None)
def test_sliding_cmvn(frames: int, sizes: list[int], options: SlidingCmvnOptions) -> None:
    features = noise(frames * 3).reshape(frames, 3)
    assert_same(stream_all(SlidingCmvnStream(SlidingCmvn(options)), features, sizes), sliding_cmvn(features, options))


ORDERS, WINDOWS = st.integers(0, 3), st.integers(1, 4)


@given(
    frames=st.integers(0, 60),
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=5),
    deltas=st.builds(DeltaOptions, delta_order=ORDERS, delta_window=WINDOWS),
    shifted=st.builds(ShiftedDeltaOptions, delta_window=WINDOWS, num_blocks=ORDERS, block_shift=st.integers(-3, 4)),
    splicing=st.builds(SpliceOptions, left_context=st.integers(0, 6), right_context=st.integers(0, 6)),
)
@settings(max_examples=100, deadline=None)
def test_deltas_shifted_deltas_and_splicing(
    frames: int, sizes: list[int], deltas: DeltaOptions, shifted: ShiftedDeltaOptions, splicing: SpliceOptions
) -> None:
    features = noise(frames * 2).reshape(frames, 2)
    assert_same(stream_all(DeltaStream(Deltas(deltas)), features, sizes), add_deltas(features, deltas))
    assert_same(stream_all(ShiftedDeltas(shifted).stream(), features, sizes), add_shifted_deltas(features, shifted))
    assert_same(stream_all(SpliceStream(Splice(splicing)), features, sizes), splice(features, splicing))


def test_a_chain_of_streams_on_a_batch() -> None:
    feature = Mfcc(dither=0.0, snip_edges=False)
    cmvn = SlidingCmvnOptions(center=True, cmn_window=50)
    chain = StreamChain(FeatureStream(feature, 2), SlidingCmvn(cmvn).stream(2), Deltas().stream(2))
    audio = [noise(16000, 1), noise(9000, 2)]
    outputs: list[list[torch.Tensor]] = [[], []]
    for start in range(0, 16000, 1600):
        chunks = [samples[start : start + 1600] for samples in audio]
        batch = torch.nn.utils.rnn.pad_sequence(chunks, batch_first=True)
        final = [start <= len(samples) - 1 < start + 1600 for samples in audio]
        frames, counts = chain(batch, [len(chunk) for chunk in chunks], final=final)
        for parts, part, count in zip(outputs, frames, counts.tolist(), strict=True):
            parts.append(part[:count])
    for parts, samples in zip(outputs, audio, strict=True):
        assert_same(torch.cat(parts), add_deltas(sliding_cmvn(feature(samples), cmvn)))


def test_vtln_factors_apply_to_their_chunk() -> None:
    feature = Fbank(dither=0.0)
    samples = noise(8000)
    stream = FeatureStream(feature, slots=2)
    warps = torch.tensor([0.9, 1.1])
    parts = [stream(samples[i : i + 2000].expand(2, -1), vtln_warp=warps)[0] for i in range(0, 8000, 2000)]
    assert_same(torch.cat(parts, 1)[1], feature(samples, vtln_warp=1.1))


def test_dithering_with_kaldis_numbers_is_that_of_the_whole() -> None:
    feature = Fbank()
    samples = noise(8000)
    stream, random = FeatureStream(feature), KaldiRandom()
    parts = [stream(samples[i : i + 700], generator=random) for i in range(0, 8000, 700)]
    assert_same(torch.cat(parts), feature(samples, generator=KaldiRandom()))


def test_memory_is_bounded_by_window_and_chunk() -> None:
    stream = FeatureStream(Fbank(dither=0.0, snip_edges=False, engine="torch"))
    for _ in range(200):
        stream(noise(800))
        assert stream.history._items is not None and stream.history._items.shape[1] <= 2 * 400 + 800


@pytest.mark.parametrize("snip_edges", [True, False])
@pytest.mark.parametrize("change", ["gradient", "float64", "lengths", "batch"])
def test_chunks_of_another_kind_continue_an_utterance(change: str, snip_edges: bool) -> None:
    """Plain chunks of one stream are computed by the exact engine alone; others need the history of samples."""
    feature = Fbank(dither=0.0, snip_edges=snip_edges)
    samples = noise(6000)
    changed = {
        "gradient": lambda x: ((x.clone().requires_grad_(),), {}),
        "float64": lambda x: ((x.double(),), {}),
        "lengths": lambda x: ((x[None],), {"lengths": [len(x)]}),
        "batch": lambda x: ((x[None],), {"vtln_warp": [1.0]}),
    }[change]
    stream = FeatureStream(feature)
    for _ in range(2):  # the second utterance starts anew
        parts = []
        for number, chunk in enumerate(samples.split(700)):
            arguments, options = changed(chunk) if number in (3, 4, 7) else ((chunk,), {})
            result = stream(*arguments, **options)
            parts.append(result[0][0] if isinstance(result, tuple) else result)
        flushed = stream.flush()
        parts.append(flushed[0][0] if isinstance(flushed, tuple) else flushed)
        whole = torch.cat([part.detach().float() for part in parts])
        torch.testing.assert_close(whole, feature(samples), rtol=1e-5, atol=1e-4)
    assert parts[3].requires_grad == (change == "gradient")


@pytest.mark.parametrize("chunk", [np.zeros(500, np.float32), [0.0, 0.0], None])
def test_chunk_must_be_a_tensor(chunk: object) -> None:
    with pytest.raises(AudioError, match="a chunk must be a tensor"):
        FeatureStream(Fbank(dither=0.0))(chunk)  # type: ignore[arg-type]


def test_error_for_bytes_names_the_conversion() -> None:
    with pytest.raises(AudioError, match=r"torch.frombuffer\(bytearray\(data\), dtype=torch.int16\)"):
        FeatureStream(Fbank(dither=0.0))(bytes(320))  # type: ignore[call-overload]


def test_wrong_shapes_are_refused() -> None:
    stream = FeatureStream(Fbank(dither=0.0), slots=2)
    with pytest.raises(AudioError, match=r"2 slots must have the shape \(2, T\)"):
        stream(torch.zeros(3, 100))
    with pytest.raises(AudioError, match="lengths must be from 0 to 100, not from 50 to 101"):
        stream(torch.zeros(2, 100), [50, 101])
    with pytest.raises(AudioError, match="lengths must be integers, not float64"):
        stream(torch.zeros(2, 100), [1.0, 0.5])  # type: ignore[list-item]
    for final in ([True] * 3, None, "all"):
        with pytest.raises(AudioError, match=r"one bool for each slot, not .* for 2 slots"):
            stream(torch.zeros(2, 100), final=final)  # type: ignore[arg-type]
    with pytest.raises(AudioError, match="same number of slots"):
        StreamChain(stream, Deltas().stream())


@pytest.mark.parametrize(
    ("stream", "items"),
    [
        (FeatureStream(Mfcc(dither=0.0, snip_edges=False)), noise(4000)),
        (FeatureStream(Fbank(dither=0.0, snip_edges=False)), noise(4000).double()),
        (Deltas().stream(), noise(600).reshape(30, 20)),
        (SlidingCmvn(center=True).stream(), noise(600).reshape(30, 20)),
        (StreamChain(FeatureStream(Mfcc(dither=0.0, snip_edges=False)), Deltas().stream()), noise(4000)),
    ],
    ids=["mfcc", "float64", "deltas", "cmvn", "chain"],
)
def test_flush_returns_the_last_frames_and_resets(stream: Stream[Any] | StreamChain, items: torch.Tensor) -> None:
    final = stream(items, final=True)
    for _ in range(2):  # the second round shows that the stream was reset
        before = stream(items)
        assert len(before) < len(final)
        assert_same(torch.cat((before, stream.flush())), final)


@pytest.mark.parametrize("stream", [each().stream() for each in (Deltas, ShiftedDeltas, Splice, SlidingCmvn)])
def test_copy_in_another_process_continues_the_utterance(stream: Stream[Any]) -> None:
    chain = StreamChain(FeatureStream(Mfcc(dither=0.0)), stream)
    chain(noise(8000))
    copied = pickle.loads(pickle.dumps(chain))
    assert torch.equal(copied(noise(4000), final=True), chain(noise(4000), final=True))


def test_flush_of_many_slots_keeps_their_axis() -> None:
    chain = StreamChain(FeatureStream(Fbank(dither=0.0), slots=2), Deltas().stream(2))
    chain(torch.stack((noise(4000), noise(4000, 1))), [4000, 1000])
    frames, counts = chain.flush()
    assert frames.shape == (2, 4, 69)
    assert counts.tolist() == [4, 4]


def test_flush_passes_parameters_on() -> None:
    stream = FeatureStream(Fbank(dither=0.0, snip_edges=False))
    stream(noise(1000))
    default = stream.flush()
    stream(noise(1000))
    assert not torch.equal(stream.flush(vtln_warp=1.1), default)


@pytest.mark.parametrize(
    ("stream", "module"),
    [
        (DeltaStream, Deltas(delta_order=1)),
        (ShiftedDeltaStream, ShiftedDeltas(num_blocks=3)),
        (SpliceStream, Splice(left_context=1)),
        (SlidingCmvnStream, SlidingCmvn(min_cmn_window=3)),
        (LowFrameRateStream, LowFrameRate(stack=3)),
        (StackFramesStream, StackFrames(size=3)),
        (PitchStream, Pitch(nccf_ballast_online=True)),
        (ProcessPitchStream, ProcessPitch(add_delta_pitch=False)),
    ],
)
def test_module_makes_its_stream_which_takes_no_other(stream: Any, module: Any) -> None:
    items = noise(400).reshape(10, -1).abs() + 1 if stream.item_axes else noise(8000)
    if stream is ProcessPitchStream:
        items = items[:, :2]
    for made in (stream(module), module.stream()):
        assert type(made) is stream
        assert_same(made(items, final=True), module(items))
    assert module.stream(3).slots == 3
    message = f"^{stream.__name__} takes a module such as {type(module).__name__}.*, not Fbank"
    with pytest.raises(OptionError, match=message):
        stream(Fbank(dither=0.0))
    with pytest.raises(
        OptionError, match=rf"^FeatureStream takes a module such as Fbank\(dither=0.0\), not {stream.__name__[:3]}"
    ):
        FeatureStream(module.options)


def test_module_that_repeats_the_edges_of_each_order_has_no_stream() -> None:
    with pytest.raises(OptionError, match=r"^RepeatedDeltas needs whole utterances and has no stream"):
        RepeatedDeltas().stream()
    with pytest.raises(OptionError, match=r"^DeltaStream takes a module such as Deltas\(\), not RepeatedDeltas"):
        DeltaStream(RepeatedDeltas())


def test_normalization_by_given_statistics_streams_and_by_own_does_not() -> None:
    features = noise(600).reshape(30, 20)
    module = Cmvn(cmvn_statistics(features[:10]), norm_vars=True)
    assert_same(stream_all(module.stream(), features, [7]), module(features))
    with pytest.raises(OptionError, match=r"^Cmvn needs whole utterances and has no stream"):
        Cmvn().stream()


def test_reflected_edges_are_computed_by_the_feature_itself() -> None:
    """The copy without reflection that a stream computes with keeps what a subclass and its objects have."""
    extractor = {"feature_extractor_type": "SeamlessM4TFeatureExtractor"}
    floored = Fbank.from_feature_extractor(extractor, snip_edges=False)
    floored.floor = 1e6

    class Small(Fbank):
        """A feature with a constructor of its own."""

        def __init__(self, bins: int) -> None:
            super().__init__(num_mel_bins=bins, dither=0.0, snip_edges=False)

    for feature, scale in ((floored, 1 / 32768), (Small(10), 1.0)):
        samples = noise(4000) * scale
        assert_same(stream_all(feature.stream(), samples, [700]), feature(samples))


@pytest.mark.parametrize(("window", "behind"), [(10, 4), (11, 5), (1, 0)])
def test_centered_cmvn_gives_a_frame_as_soon_as_its_window_is_complete(window: int, behind: int) -> None:
    stream = SlidingCmvn(cmn_window=window, center=True).stream()
    given = [len(stream(frames)) for frames in noise(60).reshape(30, 1, 2)]
    assert np.cumsum(given).tolist() == [0 if n < window else n - behind for n in range(1, 31)]


def test_flush_of_an_empty_stream_returns_no_frames() -> None:
    assert FeatureStream(Fbank(dither=0.0)).flush().shape == (0, 23)
    assert FeatureStream(Fbank(dither=0.0), slots=2).flush()[0].shape == (2, 0, 23)
    assert len(StreamChain(FeatureStream(Fbank(dither=0.0)), Deltas().stream()).flush()) == 0


def test_repr_names_the_feature_and_the_slots() -> None:
    chain = StreamChain(FeatureStream(Fbank(dither=0.0), slots=3), Deltas().stream(3))
    parts = "<FeatureStream of Fbank(dither=0.0), 3 slots> -> <DeltaStream of Deltas(), 3 slots>"
    assert repr(chain) == f"<StreamChain {parts}>"
    assert repr(SlidingCmvn().stream()).endswith(", 1 slot>")


def test_stream_uses_the_engine_of_its_feature() -> None:
    stream = FeatureStream(Fbank(dither=0.0, snip_edges=False, engine="torch"))
    assert stream._feature.engine == "torch"


@pytest.mark.gpu
def test_streams_on_a_gpu() -> None:
    feature = Mfcc(dither=0.0, snip_edges=False)
    samples = noise(9000)
    whole = add_deltas(sliding_cmvn(feature(samples)))
    chain = StreamChain(FeatureStream(feature.cuda(), 3), SlidingCmvn().stream(3), Deltas().stream(3))
    chunks = samples.cuda().expand(3, -1).split(1000, 1)
    parts = [chain(chunk, final=i == len(chunks) - 1)[0] for i, chunk in enumerate(chunks)]
    for row in torch.cat(parts, 1):
        assert_same(row.cpu(), whole)


def chain() -> StreamChain:
    return StreamChain(Mfcc(dither=0.0).stream(2), Deltas().stream(2))


REFUSED: dict[str, tuple[Callable[[], Any], tuple[int, ...], Callable[[Any, torch.Tensor], Any]]] = {
    "shape before the exact engine": (Fbank(dither=0.0).stream, (), lambda s, x: s(x[None, None])),
    "lengths before the exact engine": (Fbank(dither=0.0).stream, (), lambda s, x: s(x, [9999])),
    "factor in the exact engine": (Fbank(dither=0.0).stream, (), lambda s, x: s(x, vtln_warp=-1.0)),
    "factors of a module": (Fbank(dither=0.0).stream, (), lambda s, x: s(x, vtln_warp=[1.0, 2.0])),
    "factor with slots": (lambda: Fbank(dither=0.0).stream(2), (2,), lambda s, x: s(x, vtln_warp=-1.0)),
    "type of a frame": (StackFrames(size=4).stream, (13,), lambda s, x: s(x.long())),
    "columns": (lambda: Deltas().stream(2), (2, 13), lambda s, x: s(x[..., :5])),
    "factor of a chain": (chain, (2,), lambda s, x: s(x, vtln_warp=-1.0)),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refused_chunk_changes_no_later_frame(kind: str) -> None:
    make, shape, refuse = REFUSED[kind]
    is_audio, axis = 13 not in shape, int(2 in shape)
    size = (*(shape[:1] if axis else ()), 5000 if is_audio else 20, *(() if is_audio else (13,)))
    chunks = torch.randn(size, generator=torch.Generator().manual_seed(3)).mul(1000).chunk(5, axis)
    undisturbed, disturbed = ([], [])  # type: ignore[var-annotated]
    for parts in (undisturbed, disturbed):
        stream = make()
        for number, chunk in enumerate(chunks):
            if parts is disturbed and number == 2:
                with pytest.raises(KaldiCompatError):
                    refuse(stream, chunk)
            result = stream(chunk, final=number == 4)
            parts.append(result[0] if isinstance(result, tuple) else result)
    assert all(map(torch.equal, undisturbed, disturbed))


def test_chain_that_has_failed_in_the_middle_takes_no_chunk_before_a_reset() -> None:
    """The first stream has taken the chunk, so that another call with the chunk would repeat its audio."""
    stream, chunk = StreamChain(Mfcc(dither=0.0).stream(), OnlineCmvn(torch.ones(2, 5)).stream()), noise(3000)
    with pytest.raises(FeatureError, match="pass statistics of the same features"):
        stream(chunk)
    with pytest.raises(AudioError, match=r"call reset\(\)"):
        stream(chunk)
    with pytest.raises(AudioError, match=r"call reset\(\)"):
        stream.flush()
    stream.reset()
    stream.streams = stream.streams[:1]
    assert torch.equal(stream(chunk), Mfcc(dither=0.0)(chunk))


def test_frames_with_other_columns_are_refused() -> None:
    stream = Deltas().stream()
    stream(torch.ones(9, 13))
    with pytest.raises(AudioError, match="have 5 columns, but earlier frames of the utterance have 13 columns"):
        stream(torch.ones(9, 5))


@pytest.mark.parametrize("norm_vars", [True, False])
@pytest.mark.parametrize("center", [True, False])
def test_sliding_cmvn_of_slots_that_wait(center: bool, norm_vars: bool) -> None:
    """A slot without new frames gets rows of padding, whose windows may have been discarded."""
    module = SlidingCmvn(cmn_window=3, min_cmn_window=1, center=center, norm_vars=norm_vars)
    frames = torch.randn(2, 60, 5, generator=torch.Generator().manual_seed(4))
    stream, rng = module.stream(2), np.random.default_rng(1)
    parts: list[list[torch.Tensor]] = [[], []]
    position = np.zeros(2, int)
    while (position < 60).any():
        sizes = np.minimum(rng.integers(0, 7, 2) * rng.integers(0, 2, 2), 60 - position)
        chunk = torch.full((2, 7, 5), float("nan"))
        for slot, size in enumerate(sizes):
            chunk[slot, :size] = frames[slot, position[slot] : position[slot] + size]
        computed, counts = stream(chunk, sizes.tolist())
        position += sizes
        for slot, count in enumerate(counts.tolist()):
            parts[slot].append(computed[slot, :count])
    last, counts = stream.flush()
    for slot, count in enumerate(counts.tolist()):
        whole = torch.cat((*parts[slot], last[slot, :count]))
        torch.testing.assert_close(whole, module(frames[slot]), rtol=1e-4, atol=1e-4)


def test_scale_is_checked_after_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_warned", set())
    stream = Fbank(dither=0.0).stream()
    stream(torch.zeros(800))
    with pytest.warns(UserWarning, match="scale"):
        stream(noise(800) / 32768)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream(noise(800) / 32768)


FRAME_STREAMS: dict[str, tuple[Callable[[], Any], int]] = {
    "deltas": (lambda: Deltas().stream(), 13),
    "splice": (lambda: Splice().stream(), 13),
    "sliding": (lambda: SlidingCmvn(cmn_window=9, center=False, min_cmn_window=3).stream(), 13),
    "online": (lambda: OnlineCmvn(torch.ones(2, 14), cmn_window=9).stream(), 13),
    "low frame rate": (lambda: LowFrameRate().stream(), 13),
    "pitch": (lambda: ProcessPitch(delta_pitch_noise_stddev=0.0).stream(), 2),
}


@pytest.mark.parametrize("kind", FRAME_STREAMS)
def test_flush_after_a_refused_chunk_is_of_the_kind_of_the_chunk_before(kind: str) -> None:
    make, dim = FRAME_STREAMS[kind]
    frames = 1 + torch.rand(30, dim, generator=torch.Generator().manual_seed(3))
    undisturbed, disturbed = make(), make()
    assert torch.equal(undisturbed(frames), disturbed(frames))
    with pytest.raises(KaldiCompatError, match=r"column|dimension"):
        disturbed(frames[None, :, :1].double())
    assert torch.equal(undisturbed.flush(), disturbed.flush())


def test_flush_after_a_refused_batch_of_audio_has_the_axes_of_the_chunk_before() -> None:
    stream = Fbank(dither=0.0, snip_edges=False).stream()
    stream(noise(1000))
    with pytest.raises(OptionError, match="vtln_warp"):
        stream(noise(1000)[None], vtln_warp=-1.0)
    assert stream.flush().shape == (1, 23)


@pytest.mark.parametrize("kind", FRAME_STREAMS)
def test_flush_without_a_chunk_returns_no_frames(kind: str) -> None:
    make, dim = FRAME_STREAMS[kind]
    stream, frames = make(), torch.ones(30, dim)
    assert len(stream.flush()) == 0
    assert torch.equal(stream(frames, final=True), make()(frames, final=True))


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool, torch.complex64])
@pytest.mark.parametrize("kind", FRAME_STREAMS)
def test_frames_that_are_not_floats_are_refused_as_in_the_module(kind: str, dtype: torch.dtype) -> None:
    """Deltas of integers would be truncated, and the imaginary part of complex numbers lost."""
    make, dim = FRAME_STREAMS[kind]
    with pytest.raises(FeatureError, match="must be floating-point numbers"):
        make()(torch.ones(30, dim).to(dtype))


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("kind", FRAME_STREAMS)
def test_interrupted_chunk_changes_no_later_frame(monkeypatch: pytest.MonkeyPatch, kind: str, final: bool) -> None:
    make, dim = FRAME_STREAMS[kind]
    frames = 1 + torch.rand(60, dim, generator=torch.Generator().manual_seed(3))
    undisturbed, disturbed = make(), make()
    for number, chunk in enumerate(frames.split(15)):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(disturbed, "_compute", lambda first, count: signal.raise_signal(signal.SIGINT))
            disturbed(5 * chunk, final=final)
        expected, computed = (stream(chunk, final=final and number == 2) for stream in (undisturbed, disturbed))
        assert torch.equal(expected, computed)
    assert torch.equal(undisturbed.flush(), disturbed.flush())
    assert torch.equal(undisturbed(frames), disturbed(frames))  # The stream may remember the speaker.
