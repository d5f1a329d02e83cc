"""Random changes of audio and features repeat with the seed, the epoch and the utterance, whatever reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader

import io_ark
from io_ark.codecs.wave import Wave
from kaldi_compat import (
    ArchiveDataset,
    Fbank,
    FeatureDataset,
    FeaturesOnDevice,
    NoiseAndReverberation,
    SpecAugment,
    WaveDataset,
)
from kaldi_compat.errors import AudioError, OptionError
from kaldi_compat.programs import wav_reverberate
from kaldi_compat.torch.data.seeds import Seeds
from tests.support.data_directory import KEYS

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Noises, shorter and longer than the audio, and rooms."""
    folder = tmp_path_factory.mktemp("lists")
    rng = np.random.default_rng(1)
    for name, lengths in (("noise", (300, 5000, 9000)), ("rir", (50, 700))):
        with io_ark.Writer(f"ark,scp:{folder}/{name}.ark,{folder}/{name}.scp", kind="wave") as writer:
            for i, length in enumerate(lengths):
                decay = np.exp(-np.arange(length) / 60) if name == "rir" else 0.1
                samples = rng.uniform(-30000, 30000, length) * decay
                writer[f"{name}{i}"] = Wave(16000.0, samples.astype(np.int16)[None])
    return folder


def augmented(corpus: Path, lists: Path, **changes: Any) -> WaveDataset:
    options: dict[str, Any] = {
        "speeds": (0.8, 0.9, 1.0),  # the shortest utterance has one frame
        "augment": NoiseAndReverberation(
            lists / "noise.scp", lists / "rir.scp", noise_probability=0.7, reverberation_probability=0.5
        ),
        "feature": Fbank(num_mel_bins=20),  # dithered
        "transform": SpecAugment(2, 4, 2, 10),
        "seed": 3,
    }
    return WaveDataset(corpus / "wav.scp", **{**options, **changes})


def inputs(loader: Any) -> dict[str, Tensor]:
    return {utterance.key: utterance.input for utterance in loader}


def equal(a: dict[str, Tensor], b: dict[str, Tensor]) -> list[bool]:
    return [torch.equal(value, b[key]) for key, value in a.items()]


@pytest.mark.parametrize(("workers", "shuffle"), [(1, False), (3, True)])
def test_a_run_repeats_with_any_number_of_workers(corpus: Path, lists: Path, workers: int, shuffle: bool) -> None:
    data, alone = augmented(corpus, lists), augmented(corpus, lists)
    loader = DataLoader(
        data, None, shuffle, num_workers=workers, persistent_workers=True, multiprocessing_context="fork"
    )
    epochs = []
    for epoch in (0, 1):
        data.set_epoch(epoch)
        alone.set_epoch(epoch)
        before = torch.get_rng_state()
        epochs.append({key: alone[i].input for i, key in enumerate(KEYS)})
        assert torch.equal(torch.get_rng_state(), before)  # a model's own random numbers are left alone
        assert all(equal(inputs(loader), epochs[-1]))
    assert not any(equal(*epochs))
    assert not any(equal(epochs[0], inputs(augmented(corpus, lists, seed=4))))


@pytest.mark.parametrize("left", ["speeds", "augment", "feature", "transform"])
def test_each_random_step_repeats_and_changes_with_the_epoch(corpus: Path, lists: Path, left: str) -> None:
    off: dict[str, Any] = {"speeds": (), "augment": None, "feature": None, "transform": None}
    off.pop(left)
    if left == "transform":
        off["feature"] = Fbank(dither=0.0)
    data = augmented(corpus, lists, **off)
    first = inputs(data)
    assert all(equal(first, inputs(data)))
    data.set_epoch(1)
    assert sum(equal(first, inputs(data))) < 18


def test_seeds_differ_by_seed_epoch_and_key() -> None:
    found = set()
    for seed in (1, 11, 111):
        seeds = Seeds(seed)
        for epoch in (1, 11, 111):
            seeds.epoch = epoch
            found |= {seeds.derive(key) for key in ("1", "11", " 1", "\udcff")}
    assert len(found) == 36 and all(0 <= seed < 2**63 for seed in found)


def test_data_sets_of_features_seed_their_transform(corpus: Path) -> None:
    def transform(features: Tensor) -> Tensor:
        return features + torch.rand(())

    by_number = FeatureDataset(corpus / "feats.scp", transform=transform, seed=5)
    in_order = ArchiveDataset(f"ark:{corpus}/feats.ark", transform=transform, seed=5)
    first = inputs(by_number)
    assert all(equal(first, inputs(in_order)))
    assert len({float(value[0, 0] % 1) for value in first.values()}) == len(KEYS)
    for data in (by_number, in_order):
        data.set_epoch(2)
    assert all(equal(inputs(by_number), inputs(in_order))) and not any(equal(first, inputs(by_number)))


def test_features_on_a_device_repeat_with_any_number_of_workers(corpus: Path) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    found = []
    for workers, epoch in ((0, 0), (2, 0), (0, 1)):
        waves = WaveDataset(corpus / "wav.scp", seed=1)
        waves.set_epoch(epoch)
        loader = DataLoader(
            waves, batch_size=6, num_workers=workers, multiprocessing_context="fork" if workers else None
        )
        features = FeaturesOnDevice(loader, Fbank(num_mel_bins=20), device, SpecAugment(2, 4, 2, 10, fill=0.0))
        batches = list(features)
        found.append([batch.inputs for batch in batches])
        assert all((batch.inputs == 0).any() for batch in batches)
    assert all(torch.equal(a, b) for a, b in zip(found[0], found[1], strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(found[0], found[2], strict=True))


def test_noise_and_reverberation_are_those_of_wav_reverberate(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    files = {name: str(tmp_path / f"{name}.wav") for name in ("speech", "noise", "rir", "out")}
    for name, length in (("speech", 4000), ("noise", 4000), ("rir", 600)):
        samples = rng.uniform(-9000, 9000, length) * (np.exp(-np.arange(length) / 90) if name == "rir" else 1)
        io_ark.save(files[name], Wave(16000.0, samples.astype(np.int16)[None]), kind="wave")
        (tmp_path / f"{name}.scp").write_text(f"{name} {files[name]}\n")
    noise, room = f"--additive-signals={files['noise']}", f"--impulse-response={files['rir']}"
    for noises, rooms, flags in (
        (tmp_path / "noise.scp", tmp_path / "rir.scp", [noise, room]),
        (tmp_path / "noise.scp", None, [noise]),
        (None, tmp_path / "rir.scp", [room]),
    ):
        snrs = ["--snrs=7.5", "--start-times=0"] if noise in flags else []
        assert wav_reverberate.main(["--print-args=false", *flags, *snrs, files["speech"], files["out"]]) == 0
        data = WaveDataset(tmp_path / "speech.scp", augment=NoiseAndReverberation(noises, rooms, snrs=[7.5]))
        assert np.array_equal(data[0].input, io_ark.load(files["out"], kind="wave").samples[0])


def test_noises_are_cut_anywhere_and_repeated(tmp_path: Path) -> None:
    ramp = np.arange(1, 101, dtype=np.int16)
    (tmp_path / "noise.scp").write_text(f"ramp {tmp_path}/ramp.wav\n")
    io_ark.save(f"{tmp_path}/ramp.wav", Wave(8000.0, ramp[None]), kind="wave")
    augment = NoiseAndReverberation(tmp_path / "noise.scp", snrs=[-60.0])  # almost nothing but noise
    for size, starts in ((90, 11), (250, 100)):
        speech = torch.ones(size, dtype=torch.int16) * 10000
        found = set()
        for seed in range(250):
            torch.manual_seed(seed)
            steps = np.sign(np.diff(augment(speech, 8000.0).int().numpy()))
            falls = np.flatnonzero(steps < 0)
            assert (np.diff(falls) == 100).all() and len(falls) == (0 if size == 90 else len(falls))
            found.add(int(falls[0]) if len(falls) else int(augment(speech, 8000.0)[0]))
        assert len(found) > 0.8 * starts
    with pytest.raises(AudioError, match="ramp has a rate of 8000 Hz, but the audio has 16000 Hz"):
        augment(torch.ones(100, dtype=torch.int16), 16000.0)


def test_audio_is_augmented_at_the_rate_of_the_data_set(corpus: Path) -> None:
    def augment(audio: Tensor, sample_frequency: float) -> Tensor:
        return torch.full_like(audio, int(sample_frequency))

    for options, rate in (({}, 16000), ({"sample_frequency": 8000}, 8000), ({"speeds": [0.5]}, 16000)):
        assert WaveDataset(corpus / "wav.scp", augment=augment, **options)[0].input.unique().tolist() == [rate]


def test_recordings_ratios_and_probabilities_are_drawn(lists: Path, tmp_path: Path) -> None:
    speech = torch.from_numpy(np.random.default_rng(0).integers(-3000, 3000, 800, np.int16))
    for samples in (speech, speech.flip(0)):
        io_ark.save(f"{tmp_path}/{samples[0]}.wav", Wave(16000.0, samples.numpy()[None]), kind="wave")
    files = sorted(tmp_path.glob("*.wav"))
    (tmp_path / "noise.scp").write_text("".join(f"{file.stem} {file}\n" for file in files))
    augment = NoiseAndReverberation(tmp_path / "noise.scp", snrs=(20, 10, 0))  # as long as the speech
    assert len({tuple(augment(speech, 16000.0).tolist()) for _ in range(60)}) == 6
    rate = {}
    for name, noisy, in_room in (("never", 0.0, 0.0), ("noise", 0.3, 0.0), ("room", 0.0, 0.6), ("both", 1.0, 1.0)):
        augment = NoiseAndReverberation(
            lists / "noise.scp", lists / "rir.scp", noise_probability=noisy, reverberation_probability=in_room
        )
        torch.manual_seed(0)
        rate[name] = np.mean([augment(speech, 16000.0) is not speech for _ in range(200)])
    assert rate["never"] == 0 and rate["both"] == 1
    assert abs(rate["noise"] - 0.3) < 0.12 and abs(rate["room"] - 0.6) < 0.12
    assert repr(augment) == (
        f"<NoiseAndReverberation: 100% noise at 15|10|5|0 dB of 3 recordings of {lists}/noise.scp, "
        f"100% reverberation of 2 recordings of {lists}/rir.scp>"
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [({}, "pass noises="), ({"noises": "n"}, "snrs is empty"), ({"impulse_responses": "n", "snrs": [1.0],
      "noise_probability": 1.5}, "noise_probability=1.5 must be from 0 to 1")],
)  # fmt: skip
def test_lists_and_probabilities_are_checked(options: dict[str, Any], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        NoiseAndReverberation(**{"snrs": (), **options})


def test_an_empty_list_of_noises_is_refused(tmp_path: Path) -> None:
    (tmp_path / "noise.scp").touch()
    with pytest.raises(OptionError, match="lists no recordings"):
        NoiseAndReverberation(tmp_path / "noise.scp")
