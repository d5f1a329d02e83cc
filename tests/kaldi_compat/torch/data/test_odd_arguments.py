"""Arguments that no data set, sampler or step can use are refused in one line, and never change numbers in silence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from io_ark.errors import ArkError
from kaldi_compat import Fbank
from kaldi_compat.errors import KaldiCompatError
from kaldi_compat.torch.data.archives import ArchiveDataset
from kaldi_compat.torch.data.batching import ALIGNMENT_PADDING, Utterance, collate, pad, unpad
from kaldi_compat.torch.data.datasets import FeatureDataset, WaveDataset
from kaldi_compat.torch.data.on_device import FeaturesOnDevice
from kaldi_compat.torch.data.reverberation import NoiseAndReverberation
from kaldi_compat.torch.data.sampling import BucketBatchSampler
from kaldi_compat.torch.data.spec_augment import SpecAugment
from tests.support.data_directory import KEYS

NAN = float("nan")
MASKED: Any = np.ma.masked_array([1, 2], [False, True])
SAMPLER: Any = BucketBatchSampler([1, 2, 3, 4, 5], batch_size=2)
STATE: Any = SAMPLER.state_dict()


def refused(make: Callable[[], object], says: str) -> None:
    with pytest.raises((ArkError, KaldiCompatError), match=says) as caught:
        make()
    assert "\n" not in str(caught.value)


def feats(**options: Any) -> Any:
    return FeatureDataset("feats.scp", **options)


def waves(**options: Any) -> Any:
    return WaveDataset("wav.scp", **options)


def batches(**options: Any) -> Any:
    return list(BucketBatchSampler(**{"lengths": [1, 2, 3], "batch_size": 2, **options}))


def resumed(**changes: Any) -> None:
    BucketBatchSampler([1, 2, 3, 4, 5], batch_size=2).load_state_dict({**STATE, **changes})


def item(value: Any, **targets: Any) -> Utterance:
    return Utterance("a", value, **targets)


def lengths_by(value: str) -> list[int]:
    Path("lengths").write_text("".join(f"{key} {value}\n" for key in KEYS))
    return waves(sample_frequency=16000).lengths("lengths") + feats().lengths("lengths")


def words_of(line: str) -> Any:
    Path("odd.ctm").write_text(f"{KEYS[0]} {line}\n")
    return feats(ctm="odd.ctm")[0].words


def tokenized(tokens: Any) -> Any:
    return feats(text={KEYS[0]: "a"}, tokenizer=lambda _: tokens)[0]


ODD: list[tuple[Callable[[], object], str]] = [
    (lambda: feats(seed=-1), "seed=-1 must be at least 0"),
    (lambda: ArchiveDataset("scp:feats.scp", seed=None), "seed=None must be a whole number"),  # type: ignore[arg-type]
    (lambda: ArchiveDataset("scp:feats.scp", shuffle_buffer=-1), "shuffle_buffer=-1 must be at least 0"),
    (lambda: ArchiveDataset("scp:feats.scp", rank=0, world_size=1.5), "world_size=1.5 must be a whole number"),  # type: ignore[arg-type]
    (lambda: feats().set_epoch(1.5), "epoch=1.5 must be a whole number"),
    (lambda: feats(length_tolerance=NAN), "length_tolerance=nan must be a whole number"),
    (lambda: feats(length_tolerance=-1), "length_tolerance=-1 must be at least 0"),
    (lambda: FeaturesOnDevice([], abs, "cpu", length_tolerance=NAN), "length_tolerance=nan"),  # type: ignore[arg-type]
    (lambda: waves(channel=-1), "channel=-1 must be at least 0"),
    (lambda: waves(channel="0"), "channel='0' must be a whole number"),
    (lambda: waves(sample_frequency=NAN), "sample_frequency=nan must be a positive, finite number"),
    (lambda: waves(sample_frequency="16000"), "sample_frequency='16000' must be a positive, finite number"),
    (lambda: waves(sample_frequency=1e300)[0], "cannot resample from 16000 to 1e.300 Hz, .* common divisor"),
    (lambda: waves(speeds=[NAN]), "speeds=nan must be a positive, finite number"),
    (lambda: waves(speeds=[1e9]), "factors from 0.01 to 100"),
    (lambda: waves(transform=lambda _: None)[0], f"{KEYS[0]}: .* must return tensors, not NoneType"),
    (lambda: waves(transform=torch.nn.Identity), r"transform=Identity is a class: pass Identity\(\.\.\.\)"),
    (lambda: waves(transform="mask"), "transform must be a function, not str"),
    (lambda: waves(feature=Fbank), r"feature=Fbank is a class: pass Fbank\(\.\.\.\)"),
    (lambda: waves(augment="noise"), "augment must be a function, not str"),
    (lambda: feats(text="text", tokenizer="bpe.model"), "tokenizer must be a function, not str"),
    (lambda: waves(feature=lambda audio: audio.numpy())[0], f"{KEYS[0]}: .* must return tensors, not ndarray"),
    (lambda: lengths_by("nan"), f"lengths: {KEYS[0]}: expected the length of the utterance, found 'nan'"),
    (lambda: lengths_by("-1"), "found '-1'"),
    (lambda: lengths_by("0.5"), "found '0.5'"),
    (lambda: feats(utt2spk="head -2 utt2spk; exit 3 |"), "exit status 3.*the table may be incomplete"),
    (lambda: FeatureDataset("cat /nosuch 2> /dev/null |"), "exit status 1.*the table may be incomplete"),
    (lambda: WaveDataset("wav.scp", "head -1 segments; exit 3 |"), "exit status 3.*the table may be incomplete"),
    (lambda: feats(text={KEYS[0]: None})[0], "the text None in the mapping is invalid"),
    (lambda: words_of("1 nan 1 a"), "found '1 nan 1 a'"),
    (lambda: words_of("1 0 -1 a"), "found '1 0 -1 a'"),
    (lambda: tokenized(MASKED), "must return a list of integers, not masked_array"),
    (lambda: tokenized([2**63]), "must return a list of integers"),
    (lambda: tokenized([[1], [2, 3]]), "must return a list of integers"),
    (lambda: collate([item(torch.zeros(3, 2)), item(torch.zeros(3, 2).double())]), "cannot pad .*float32.*float64"),
    (lambda: collate([item(torch.zeros(3)), item(torch.zeros(3).short())]), "cannot pad .*float32.*int16"),
    (lambda: collate([item(torch.zeros(3, 2)), item(torch.zeros(3, 4))]), "float32, 2.*float32, 4"),
    (lambda: collate([item(np.zeros(3))]), "cannot pad .*ndarray"),
    (lambda: pad([torch.zeros(3)], 10**400), "value must be a number below 1.8e308, not an integer of 1329 bits"),
    (lambda: pad([torch.zeros(3)], 1e308), r"value=1e\+308 cannot be stored in torch.float32"),
    (
        lambda: pad([torch.zeros(3).half(), torch.zeros(2).half()], 1e10),
        r"value=1e\+10 cannot be stored in torch.float16",
    ),
    (lambda: SAMPLER.load_state_dict({"epoch": 10**5000}), "a dict with an integer .* is not a state of a sampler"),  # type: ignore[typeddict-item]
    (lambda: resumed(batches=10**5000), "batches=an integer of 16610 bits must be at most 3"),
    (lambda: unpad(torch.zeros(2, 3), None), "lengths must not be None"),  # type: ignore[arg-type]
    (lambda: SpecAugment(fill=10**400), "fill must be a number below 1.8e308, not an integer of 1329 bits"),
    (
        lambda: SpecAugment(time_mask_ratio=10**5000),
        "time_mask_ratio must be a number below 1.8e308, not an integer of 16610 bits",
    ),
    (lambda: batches(batch_size=-(10**5000)), "batch_size=an integer of 16610 bits must be at least 1"),
    (lambda: batches(max_frames=[10**5000]), "max_frames=a list with an integer that is too large to be shown must"),
    (lambda: batches(min_length=10**400), "min_length must be a number below 1.8e308, not an integer of 1329 bits"),
    (lambda: batches(max_length="a"), "max_length must be a number, not 'a'"),
    (lambda: feats(on_error=10**5000), "on_error=an integer of 16610 bits must be 'raise' or 'skip'"),
    (lambda: SpecAugment(frequency_mask=10**5000), "frequency_mask must be below 2147483648"),
    (lambda: SpecAugment(time_mask=2**63), "time_mask must be below"),
    (lambda: SpecAugment(time_warp=2**31), "time_warp must be below"),
    (lambda: collate([]), "cannot pad nothing"),
    (lambda: collate([np.zeros(3)]), "collate takes a list of Utterance.*not of ndarray: .* pad"),  # type: ignore[list-item]
    (lambda: collate([item(torch.zeros(3)), torch.zeros(3)]), "not of Tensor"),  # type: ignore[list-item]
    (lambda: collate([item(torch.zeros(3), label=MASKED)]), "one that is masked"),
    (lambda: pad([torch.tensor(1.0)]), "cannot pad .*Tensor"),
    (lambda: unpad(torch.zeros(2, 3), torch.tensor([9, 1])), "lengths must be from 0 to 3, not from 1 to 9"),
    (lambda: unpad(torch.zeros(2, 3), torch.tensor([-1, 1])), "not from -1 to 1"),
    (lambda: batches(lengths=MASKED), "one that is masked"),
    (lambda: batches(lengths=torch.eye(2)[0].to_sparse()), "one that is sparse"),
    (lambda: batches(batch_size=1.5), "batch_size=1.5 must be a whole number"),
    (lambda: batches(batch_size=np.float64(1.5)), "batch_size=1.5 must be a whole number"),
    (lambda: batches(max_frames=np.float32(-1)), "max_frames=-1.0 must be a positive, finite number"),
    (lambda: batches(lengths=[[1], [2, 3]]), "a list of numbers, not of lists"),
    (lambda: batches(batch_size=None, max_frames=float("inf")), "max_frames=inf must be a positive, finite number"),
    (lambda: batches(max_seconds="2"), "max_seconds='2' must be a positive, finite number"),
    (lambda: batches(sample_frequency=NAN), "sample_frequency=nan must be a positive, finite number"),
    (lambda: batches(num_buckets=NAN), "num_buckets=nan must be a whole number"),
    (lambda: batches(seed=-1), "seed=-1 must be at least 0"),
    (lambda: batches(rank=0, world_size=0), "world_size=0 must be at least 1"),
    (lambda: SAMPLER.set_epoch(-1), "epoch=-1 must be at least 0"),
    (lambda: SAMPLER.state_dict(-1), "batches=-1 must be at least 0"),
    (lambda: SAMPLER.load_state_dict({}), "is not a state of a sampler"),
    (lambda: resumed(batches=-1), "batches=-1 must be at least 0"),
    (lambda: resumed(batches=99), "batches=99 must be at most 3"),
    (lambda: resumed(epoch="1"), "epoch='1' must be a whole number"),
    (lambda: SpecAugment(time_mask=NAN), "time_mask=nan must be a whole number"),  # type: ignore[arg-type]
    (lambda: SpecAugment(time_mask_ratio=NAN), "time_mask_ratio=nan must be from 0 to 1"),
    (lambda: SpecAugment()(torch.ones(9, 3).int()), "must be floating-point numbers, not torch.int32"),
    (lambda: SpecAugment()(torch.ones(2, 9, 3), torch.tensor([3])), "do not match a batch of shape"),
    (lambda: SpecAugment()(torch.ones(2, 9, 3), torch.tensor([-1, 3])), "not from -1 to 3"),
    (lambda: NoiseAndReverberation("wav.scp")(torch.ones(9), 16000.0), "16-bit integers .* not torch.float32"),
    (lambda: NoiseAndReverberation("wav.scp")(torch.ones(2, 9).short(), 16000.0), r"of shape \(2, 9\)"),
]


@pytest.mark.parametrize(("make", "says"), ODD, ids=[says for _, says in ODD])
def test_an_odd_argument_is_refused_in_one_line(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[], object], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for file in corpus.iterdir():
        (tmp_path / file.name).symlink_to(file)
    refused(make, says)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.bool_])
def test_sequences_of_labels_of_any_integers_are_padded(dtype: Any) -> None:
    labels = [np.array([1, 0, 1], dtype), np.array([1], dtype), [0]]
    stacked: Any = collate([item(torch.zeros(3), label=label) for label in labels]).labels
    assert stacked.tolist() == [[1, 0, 1], [1, -100, -100], [0, -100, -100]]


@pytest.mark.parametrize(("labels", "shape"), [
    ([[1, 2], []], (2, 2)), ([[], ()], (2, 0)), ([[], ["a"]], None), ([[1, 2], np.array([])], (2, 2)),
    ([np.array([1]), torch.tensor([])], (2, 1)),
])  # fmt: skip
def test_an_empty_list_is_a_sequence_of_integers(labels: list[Any], shape: tuple[int, int] | None) -> None:
    collated: Any = collate([item(torch.zeros(3), label=label) for label in labels]).labels
    if shape is None:
        assert collated == labels
    else:
        assert collated.dtype == torch.int64 and collated.shape == shape
        assert (collated[1] == ALIGNMENT_PADDING).all()


@pytest.mark.parametrize(
    "label", [["a", "b"], ("x", 1), [None], [[1], [2, 3]], [1, "a"], [{}], [1.5], [2**63], 2**63, -(2**63) - 1]
)
def test_other_labels_are_a_list(label: Any) -> None:
    assert collate([item(torch.zeros(3), label=label), item(torch.zeros(2), label=label)]).labels == [label, label]


@pytest.mark.parametrize("kind", [np.uint16, np.uint32, np.uint64, np.ulonglong])
@pytest.mark.parametrize("other", [5, True, np.int8(5), np.uint8(5), np.uint64(5)])
def test_unsigned_numpy_labels_become_int64(kind: type[Any], other: Any) -> None:
    labels = collate([item(torch.zeros(3), label=label) for label in (other, kind(7))]).labels
    assert isinstance(labels, torch.Tensor) and labels.dtype == torch.int64
    assert labels.tolist() == [int(other), 7]


@pytest.mark.skipif(not hasattr(torch, "uint64"), reason="needs unsigned tensors")
def test_labels_beyond_int64_do_not_wrap() -> None:
    label = torch.tensor([2**63], dtype=torch.uint64)
    batch = collate([item(torch.zeros(3), label=label), item(torch.zeros(2), label=label)])
    assert isinstance(batch.labels, list)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.uint8, torch.int32])
def test_lengths_may_be_tensors_of_any_type(dtype: torch.dtype) -> None:
    lengths = torch.tensor([4, 1, 3, 2], dtype=dtype).requires_grad_(dtype.is_floating_point)
    assert list(BucketBatchSampler(lengths, max_frames=70000, batch_size=2, shuffle=False)) == [[0, 2], [3, 1]]


def test_padding_that_fails_for_another_reason_keeps_its_error() -> None:
    with pytest.raises(RuntimeError, match="memory"):
        pad([torch.zeros(1).expand(1 << 45), torch.zeros(1)])
