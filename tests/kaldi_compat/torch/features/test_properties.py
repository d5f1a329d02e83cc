"""Expected properties of PyTorch modules, verified on every feature."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from kaldi_compat.errors import AudioError, FeatureError, OptionError
from kaldi_compat.exact.rand import KaldiRandom
from kaldi_compat.torch.features.fbank import Fbank
from kaldi_compat.torch.features.mfcc import Mfcc
from kaldi_compat.torch.features.pitch import Pitch
from kaldi_compat.torch.features.spectrogram import Spectrogram
from tests.support import supported
from tests.support.cases import ALL, DIM, PITCH, POST, SPECTRAL, STEPS, Case, cases

needs_cuda = pytest.mark.gpu
LENGTH = 4000

# Rounding of float32 where sums are taken in another order; a log of a small energy magnifies it.
CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-3}


def assert_close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, **CLOSE)


@pytest.fixture
def deterministic() -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(before)


@pytest.fixture
def reduced_precision() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    yield
    torch.set_float32_matmul_precision(before)


@cases("empty state_dict; pickle, deepcopy and repr")
def test_modules_have_no_state_and_survive_copies(case: Case) -> None:
    module = case.make()
    assert not module.state_dict() and not list(module.parameters())
    assert case.name in repr(module)
    x = case.input(LENGTH)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(other(x), module(x))


@cases("float32 and float64")
def test_precision(case: Case) -> None:
    module = case.make()
    x = case.input(LENGTH)
    single, double = module(x), module(x.double())
    assert (single.dtype, double.dtype) == (torch.float32, torch.float64)
    assert_close(single, double.float())
    assert torch.equal(module.double()(x.double()), double)


@cases("float32 computation in a half-precision model")
def test_half_precision_model(case: Case) -> None:
    x = case.input(LENGTH)
    assert torch.equal(case.make().half()(x), case.make()(x))


@cases("int16 audio", of=[*SPECTRAL, PITCH[0]])
def test_int16_audio_gives_the_features_of_float32(case: Case) -> None:
    module = case.make()
    x = case.input(LENGTH).short()
    assert torch.equal(module(x), module(x.float()))


@cases("batches (B, T), lengths, and lists of utterances")
def test_batches(case: Case) -> None:
    module = case.make()
    lengths = [case.length(n) for n in (4000, 0, 399, 2750)]
    batch = case.input(LENGTH, 4)
    alone = [module(x[:length]) for x, length in zip(batch, lengths, strict=True)]
    for i, length in enumerate(lengths):
        batch[i, length:] = float("nan")
    features, counts = module(batch, torch.tensor(lengths))
    listed = module([x[:length] for x, length in zip(batch, lengths, strict=True)])
    for row, count, item, expected in zip(features, counts.tolist(), listed, alone, strict=True):
        assert count == len(expected)
        assert_close(row[:count], expected)
        assert not row[count:].any()
        assert_close(item, expected)


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_lengths_may_be_a_list(case: Case) -> None:
    module, x = case.make(), case.input(LENGTH, 2)
    lengths = [x.shape[1], x.shape[1] // 2]
    features, counts = module(x, torch.tensor(lengths))
    for kind in (lengths, np.array(lengths), torch.tensor(lengths, dtype=torch.int16)):
        again, counts_again = module(x, kind)
        assert torch.equal(again, features) and torch.equal(counts_again, counts)
    short = module(case.input(32000, 1)[:, :200], torch.tensor([200], dtype=torch.uint8))[0]
    assert_close(short, module(case.input(32000, 1)[:, :200]))


@pytest.mark.parametrize("follow", [False, True], ids=["plain", "with gradients"])
@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_lengths_that_do_not_fit_are_refused(case: Case, follow: bool) -> None:
    module, x = case.make(), case.input(LENGTH, 2).requires_grad_(follow)
    most = x.shape[1]
    wrong: list[Any] = [
        [most, most + 1], [most, -1], [most], [most] * 3, [[most, most]], [1.0, 2.0], [True, False], "ab", most,
    ]  # fmt: skip
    for lengths in [*wrong, *(torch.tensor(numbers) for numbers in wrong if numbers != "ab")]:
        with pytest.raises((AudioError, FeatureError), match="lengths"):
            module(x, lengths)
    with pytest.raises((AudioError, FeatureError), match="lengths describe a padded batch"):
        module(list(x), [most, most])


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_input_other_than_a_tensor_is_refused(case: Case) -> None:
    x = case.input(LENGTH, 2).numpy()
    for data in (x, [x[0]], x.tolist(), None, 5):
        with pytest.raises((AudioError, FeatureError), match=r"a tensor, or a list with a tensor .*torch\.as_tensor"):
            case.make()(data)
    with pytest.raises((AudioError, FeatureError), match=r"a tensor, or a list with a tensor .*io_ark\.load"):
        case.make()("audio")


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_empty_batch(case: Case) -> None:
    module, x = case.make(), case.input(LENGTH, 2)
    expected = module(x).shape[1:]
    assert module(x[:0]).shape == (0, *expected)
    features, counts = module(x[:0], [])
    assert features.shape == (0, *expected) and counts.shape == (0,)


@cases("CUDA agrees with the CPU")
@needs_cuda
def test_cuda(case: Case) -> None:
    module = case.make()
    x = case.input(16000, 3)
    lengths = torch.tensor([x.shape[1], 0, x.shape[1] // 2])
    expected, counts = module(x, lengths)
    features, cuda_counts = module.cuda()(x.cuda(), lengths.cuda())
    assert torch.equal(cuda_counts.cpu(), counts)
    assert_close(features.cpu(), expected)


@cases("gradients (gradcheck in float64)")
def test_gradients(case: Case) -> None:
    tracks_pitch = case.name == "Pitch"
    x = case.input(960 if tracks_pitch else 1600 if case.of_features else 64)
    # By the fast mode, along random directions, where all directions would take minutes.
    assert torch.autograd.gradcheck(case.small(), (x.double().requires_grad_(),), fast_mode=tracks_pitch)


@cases("finite gradients at silence", of=[case for case in ALL if case.name != "ProcessPitch"])
def test_gradients_at_silence(case: Case) -> None:
    for value in (0.0, 3.0):
        x = torch.full_like(case.input(LENGTH), value).requires_grad_()
        case.small().float()(x).sum().backward() if case.name == "Pitch" else case.make()(x).sum().backward()
        assert x.grad is not None and torch.isfinite(x.grad).all()


@cases("gradients in a padded batch equal the gradients of single utterances")
def test_gradients_of_a_padded_batch(case: Case) -> None:
    module = (case.make() if case.name == "Pitch" else case.small()).double()
    # more than a window of the normalized pitch from the longest to the next one
    samples = (400, 200, 33, 0) if case in SPECTRAL else (40000, 16000, 500, 0)
    lengths = [case.length(n) for n in samples]
    batch = case.input(samples[0], len(lengths)).double()
    weights = torch.rand(batch.shape[1] + 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    def gradient(x: Tensor, lengths: Tensor | None = None) -> Tensor:
        x = x.clone().requires_grad_()
        features = module(x) if lengths is None else module(x, lengths)[0]
        if not features.requires_grad:  # there are no frames
            return torch.zeros_like(x)
        (features.sum(-1) * weights[: features.shape[-2]]).sum().backward()
        assert x.grad is not None
        return x.grad

    alone = [gradient(row[:length]) for row, length in zip(batch, lengths, strict=True)]
    for padding in (0.0, float("nan")):
        for row, length in zip(batch, lengths, strict=True):
            row[length:] = padding
        for found, expected in zip(gradient(batch, torch.tensor(lengths)), alone, strict=True):
            torch.testing.assert_close(found[: len(expected)], expected)
            assert not found[len(expected) :].any()


@cases("torch.vmap")
def test_vmap(case: Case) -> None:
    module = case.make()
    batch = case.input(LENGTH, 3)
    assert_close(torch.vmap(module)(batch), module(batch))


@cases("unaffected by autocast")
def test_autocast(case: Case) -> None:
    module = case.make()
    devices = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
    for device in devices:
        x = case.input(LENGTH).to(device)
        expected = module.to(device)(x)
        with torch.autocast(device, dtype=torch.bfloat16):
            features = module(x)
        assert features.dtype == torch.float32
        assert_close(features, expected)


@cases("unaffected by TF32 and bfloat16 settings")
@pytest.mark.usefixtures("reduced_precision")
def test_reduced_matmul_precision(case: Case) -> None:
    # The exact result shows what the reduced precision would do: both agree to float32's rounding.
    module = case.make()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = case.input(16000, 2).to(device)
    assert_close(module.to(device)(x), module(x.double()).float())


@cases("deterministic algorithms mode")
@pytest.mark.usefixtures("deterministic")
def test_deterministic(case: Case) -> None:
    module = case.make()
    x = case.input(LENGTH, 2)
    once, again = (x.clone().requires_grad_() for _ in range(2))
    for leaf in (once, again):
        module(leaf).sum().backward()
    assert torch.equal(once.grad, again.grad)  # type: ignore[arg-type]
    lengths = torch.tensor([case.length(LENGTH), case.length(2000)])
    assert torch.equal(module(x, lengths)[0], module(x, lengths)[0])


@cases("CUDA graph of fixed shapes")
@needs_cuda
def test_cuda_graph(case: Case) -> None:
    module = case.make().cuda()
    x = case.input(LENGTH, 2).cuda()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            module(x)
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        features = module(x)
    x.copy_(case.input(LENGTH, 2, seed=5))
    graph.replay()
    assert_close(features, module(x))


NO_STREAM = {
    "Cmvn": "The mean of an utterance is known only at its end. Use SlidingCmvn, or Cmvn with stored statistics.",
    "UtteranceCmvn": "The mean of an utterance is known only at its end. Use SlidingCmvn or GlobalCmvn.",
    "PadFrames": "The number of frames to add is known only at the end of the utterance.",
    "RepeatedDeltas": "Each order of deltas repeats its edge frames, which are known only at the end. Use Deltas.",
    "CenteredMean": "The mean needs later frames. Use SlidingCmvn.",
}


@cases("same output from chunks of audio or frames")
def test_streaming_equals_whole(case: Case) -> None:
    module: Any = case.make()
    if case.name in NO_STREAM:
        pytest.xfail(NO_STREAM[case.name])
    if case.name == "Pitch":  # whose energy, by default, is known at the end only
        module = Pitch(nccf_ballast_online=True)
    stream = module.stream()
    x = case.input(LENGTH)
    chunks = x.split(max(1, len(x) // 7))
    parts = [stream(chunk, final=i == len(chunks) - 1) for i, chunk in enumerate(chunks)]
    assert_close(torch.cat(parts), module(x))


@cases("dithering with torch.Generator or with Kaldi's generator", of=SPECTRAL)
def test_dithering(case: Case) -> None:
    module = type(case.make())()
    x = case.input(LENGTH)
    seeded = [module(x, generator=torch.Generator().manual_seed(3)) for _ in range(2)]
    assert torch.equal(*seeded)
    assert not torch.equal(seeded[0], module(x, generator=torch.Generator().manual_seed(4)))
    kaldis = [module(x, generator=KaldiRandom()) for _ in range(2)]
    assert torch.equal(*kaldis) and not torch.equal(kaldis[0], seeded[0])


@cases("VTLN factor of each utterance of a batch", of=SPECTRAL[:3])
def test_vtln(case: Case) -> None:
    module = case.make()
    batch = case.input(LENGTH, 3)
    warps = torch.tensor([0.9, 1.0, 1.15])
    together = module(batch, vtln_warp=warps)
    assert torch.equal(module(batch, vtln_warp=[0.9, 1.0, 1.15]), together)
    assert module(batch[:0], vtln_warp=[]).shape == (0, *together.shape[1:])
    for wrong in ("a", None, [[0.9] * 3], [0.9]):
        with pytest.raises((AudioError, OptionError), match="vtln_warp"):
            module(batch, vtln_warp=wrong)
    for row, x, warp in zip(together, batch, warps.tolist(), strict=True):
        assert_close(row, module(x, vtln_warp=warp))


@given(
    lengths=st.lists(st.one_of(st.integers(0, 1000), st.integers(0, 5 * 8000)), min_size=1, max_size=4),
    padding=st.integers(0, 700),
    options=st.fixed_dictionaries(
        {
            "dither": st.just(0.0),
            "sample_frequency": st.just(8000.0),
            "frame_length": st.sampled_from([25.0, 10.0, 32.5, 2.0]),
            "frame_shift": st.sampled_from([10.0, 12.5, 1.5, 40.0]),
            "snip_edges": st.booleans(),
            "round_to_power_of_two": st.booleans(),
        }
    ),
    kind=st.sampled_from([Fbank, Mfcc, Spectrogram]),
)
@settings(max_examples=30, deadline=None)
def test_features_are_the_same_alone_and_in_any_batch(
    lengths: list[int], padding: int, options: dict[str, Any], kind: Any
) -> None:
    if kind is not Spectrogram:  # each mel bin holds one of the FFT's
        options |= {"num_mel_bins": 15, "frame_length": max(10.0, options["frame_length"])}
    feature = kind(**options)
    audio = [torch.randn(n, generator=torch.Generator().manual_seed(n)) * 1000 for n in lengths]
    batch = torch.full((len(lengths), max(lengths) + padding), float("nan"))
    for row, x in zip(batch, audio, strict=True):
        row[: len(x)] = x
    features, counts = feature(batch, torch.tensor(lengths))
    for row, count, x in zip(features, counts.tolist(), audio, strict=True):
        assert_close(row[:count], feature(x))
        assert not row[count:].any()


@given(
    frames=st.lists(st.integers(0, 60), min_size=1, max_size=4),
    padding=st.integers(0, 9),
    case=st.sampled_from(POST + STEPS),
)
@settings(max_examples=30, deadline=None)
def test_post_processing_is_the_same_alone_and_in_any_batch(frames: list[int], padding: int, case: Case) -> None:
    module = case.make()
    batch = torch.full((len(frames), max(frames) + padding, DIM), float("nan"))
    alone = [torch.randn(n, DIM, generator=torch.Generator().manual_seed(n)) for n in frames]
    for row, x in zip(batch, alone, strict=True):
        row[: len(x)] = x
    features, _ = module(batch, torch.tensor(frames))
    for row, x in zip(features, alone, strict=True):
        expected = module(x)
        assert_close(row[: len(expected)], expected)
        assert not row[len(expected) :].any()


def test_table_of_supported_properties_is_current(request: pytest.FixtureRequest) -> None:
    """Each cell of the committed table has its test, and each test its cell. Some cells have slow tests."""
    folder = request.config.rootpath / "tests"
    collected = {item.path.name for item in request.session.items}
    if not {"test_properties.py", "test_export.py"} <= collected:
        pytest.skip(f"needs all the tests of {folder} that write the table")
    written = supported.cells_in_document()
    cells, collected_cells = (
        {(name, feature) for name, feature, _ in written},
        supported.cells_of(request.session.items),
    )
    assert collected_cells == cells if not request.config.option.markexpr else collected_cells < cells
    assert {entry for *_, entry in written} <= {supported.YES, supported.NO, supported.UNTRIED}
