"""Train a small recognizer of vowels: from audio on disk to a model, in under a minute on a CPU.

    python docs/examples/train_example.py [folder]

The corpus is generated: utterances of a few vowels each, by speakers of different pitch and vocal tract. It is written
as a Kaldi data directory (wav.scp, utt2dur, alignments), and from there on all is as with a corpus of your own: workers
read and pad the audio, features are computed in batches on the model's device, a sampler keeps batches of one length
together, and at the end the model follows an utterance that arrives in chunks.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import io_ark
from kaldi_compat import (
    Fbank,
    FeaturesOnDevice,
    SlidingCmvn,
    StreamChain,
    WaveDataset,
)
from kaldi_compat.options.postprocessing import SlidingCmvnOptions
from kaldi_compat.torch.data.batching import ALIGNMENT_PADDING, collate
from kaldi_compat.torch.data.sampling import BucketBatchSampler

RATE = 16000
FRAME = RATE // 100
# The first three formants of each vowel in Hz (a textbook's averages for men).
VOWELS = {
    "a": (730, 1090, 2440),
    "e": (530, 1840, 2480),
    "i": (270, 2290, 3010),
    "o": (570, 840, 2410),
    "u": (300, 870, 2240),
}
WINDOW = SlidingCmvnOptions(cmn_window=100, center=True)


def vowel(formants: np.ndarray, pitch: float, frames: int) -> np.ndarray:
    """Return a vowel: harmonics of a pitch, whose loudness depends on the nearest formants."""
    harmonics = np.arange(1, int(3800 / pitch)) * pitch
    loudness = (1 / (1 + ((harmonics[:, None] - formants) / 80) ** 2)).sum(1)
    time = np.arange(frames * FRAME) / RATE
    return loudness @ np.sin(2 * np.pi * harmonics[:, None] * time)


def make_corpus(folder: Path, utterances: int, seed: int) -> None:
    """Write a data directory of generated utterances, with an alignment: the vowel's number for each frame."""
    rng = np.random.default_rng(seed)
    durations = []
    with (
        io_ark.Writer(f"ark,scp:{folder}/wav.ark,{folder}/wav.scp", kind="wave") as wav,
        io_ark.Writer(f"ark,scp:{folder}/ali.ark,{folder}/ali.scp", kind="int-vector") as alignments,
    ):
        for number in range(utterances):
            pitch, tract = rng.uniform(90, 230), rng.uniform(0.9, 1.15)
            spoken = rng.integers(len(VOWELS), size=rng.integers(2, 6))
            frames = rng.integers(12, 30, size=len(spoken))
            formants = np.array(list(VOWELS.values())) * tract
            audio = np.concatenate([vowel(formants[v], pitch, n) for v, n in zip(spoken, frames, strict=True)])
            audio = 3000 * audio / np.abs(audio).max() + rng.normal(0, 60, len(audio))
            key = f"utt{number:04}"
            wav[key] = io_ark.Wave(float(RATE), audio.astype(np.int16)[None])
            alignments[key] = np.repeat(spoken, frames).astype(np.int32)
            durations.append(f"{key} {len(audio) / RATE}\n")
    (folder / "utt2dur").write_text("".join(durations))


def loader(folder: Path, feature: Fbank, device: str, *, workers: int = 2) -> FeaturesOnDevice:
    """Return batches of features with their alignments."""
    data = WaveDataset(folder / "wav.scp", sample_frequency=RATE, alignments=f"scp:{folder}/ali.scp")
    batches = BucketBatchSampler(data.lengths(folder / "utt2dur"), max_seconds=20, sample_frequency=RATE, seed=0)
    audio = DataLoader(
        data, batch_sampler=batches, collate_fn=collate, num_workers=workers, persistent_workers=workers > 0
    )
    return FeaturesOnDevice(audio, feature, device)


def model_of(dim: int) -> nn.Module:
    """Return a network that classifies the vowel of a frame from eleven frames around it."""
    return nn.Sequential(
        nn.Conv1d(dim, 64, 7, padding=3), nn.ReLU(), nn.Conv1d(64, 64, 5, padding=2), nn.ReLU(), nn.Conv1d(64, 5, 1)
    )


def accuracy(model: nn.Module, normalize: SlidingCmvn, batches: FeaturesOnDevice) -> float:
    """Return the fraction of the frames whose vowel is recognized."""
    right = total = 0
    with torch.no_grad():
        for batch in batches:
            features, _ = normalize(batch.inputs, batch.lengths)
            found = model(features.mT).argmax(1)
            assert batch.alignments is not None
            counted = batch.alignments != ALIGNMENT_PADDING
            right += int((found == batch.alignments)[counted].sum())
            total += int(counted.sum())
    return right / total


def follow(model: nn.Module, feature: Fbank, samples: Tensor) -> str:
    """Return the vowels of an utterance that arrives in chunks of a tenth of a second."""
    stream = StreamChain(feature.stream(), SlidingCmvn(WINDOW).stream())
    chunks = samples.split(RATE // 10)
    frames = [stream(chunk, final=i == len(chunks) - 1) for i, chunk in enumerate(chunks)]
    found = model(torch.cat(frames).mT[None]).argmax(1)[0]
    vowels, counts = torch.unique_consecutive(found, return_counts=True)
    return "".join("aeiou"[v] for v, n in zip(vowels.tolist(), counts.tolist(), strict=True) if n > 4)


def main(folder: Path, epochs: int = 3, utterances: int = 160) -> float:
    """Make the corpus, train, and return the accuracy on held-out utterances."""
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for name, count, seed in (("train", utterances, 1), ("test", utterances // 6, 2)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        make_corpus(folder / name, count, seed)
    # snip_edges=False gives a frame for every 10 ms, like the alignments.
    feature = Fbank(num_mel_bins=40, dither=0.0, snip_edges=False)
    normalize = SlidingCmvn(WINDOW)
    model = model_of(40).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    training, test = loader(folder / "train", feature, device), loader(folder / "test", feature, device, workers=0)
    for epoch in range(epochs):
        for batch in training:
            features, _ = normalize(batch.inputs, batch.lengths)
            loss = nn.functional.cross_entropy(model(features.mT), batch.alignments, ignore_index=ALIGNMENT_PADDING)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}, {accuracy(model, normalize, test):.1%} of the test frames right")
    with torch.no_grad():
        last = WaveDataset(folder / "test" / "wav.scp")[0].input
        print("the first test utterance, in chunks:", follow(model.cpu(), feature.cpu(), last))
    return accuracy(model.to(device), normalize, test)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
