"""Train a network on audio and stored features together, on one device or many, and resume it where it stopped.

    python docs/examples/train_both.py data/train scp:exp/ali/pdfs.scp exp/my_network
    torchrun --nproc-per-node=4 docs/examples/train_both.py data/train scp:exp/ali/pdfs.scp exp/my_network

Reads ``wav.scp`` of the data directory, and its ``feats.scp`` with further features of the same frames, such as pitch.
The targets are a table of integers, one for each frame. Workers compute filter banks of the audio and mask them. The
checkpoint ``network.pt`` is written every few batches: run the command again to continue after an interruption.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, StackDataset

import io_ark
from kaldi_compat import (
    Batch,
    BucketBatchSampler,
    Fbank,
    FeatureDataset,
    NoiseAndReverberation,
    SpecAugment,
    WaveDataset,
)
from kaldi_compat.torch.data.batching import ALIGNMENT_PADDING

RATE = 16000


def data_of(data_dir: Path, alignments: str, noises: Path | None) -> tuple[WaveDataset, FeatureDataset]:
    """Return the audio with its targets, and the stored features of the same utterances."""
    audio = WaveDataset(
        data_dir / "wav.scp",
        sample_frequency=RATE,
        augment=None if noises is None else NoiseAndReverberation(noises, snrs=(20, 15, 10)),
        feature=Fbank(num_mel_bins=40),
        transform=SpecAugment(frequency_mask=6, time_mask=10, time_mask_ratio=0.2),
        alignments=alignments,
        length_tolerance=2,
        drop_incomplete=True,
    )
    stored = FeatureDataset(data_dir / "feats.scp", alignments=alignments, drop_incomplete=True)
    assert audio.keys == stored.keys, "wav.scp and feats.scp have different utterances"
    return audio, stored


def loss_of(network: nn.Module, audio: Batch, stored: Batch) -> Tensor:
    """Return the mean cross-entropy of the frames of a batch."""
    assert audio.alignments is not None
    frames = min(audio.alignments.shape[1], stored.inputs.shape[1])
    inputs = torch.cat([batch.inputs[:, :frames] for batch in (audio, stored)], -1)
    return nn.functional.cross_entropy(network(inputs.mT), audio.alignments[:, :frames], ignore_index=ALIGNMENT_PADDING)


def main(
    data_dir: Path,
    alignments: str,
    folder: Path,
    noises: Path | None = None,
    epochs: int = 3,
    max_seconds: float = 200,
    workers: int = 2,
) -> nn.Module:
    """Train, and return the network."""
    distributed = "RANK" in os.environ  # torchrun sets it
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if torch.cuda.is_available() else "cpu"
    if distributed and not torch.distributed.is_initialized():
        torch.distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    torch.manual_seed(0)
    audio, stored = data_of(data_dir, alignments, noises)
    classes = 1 + max(int(targets.max()) for _, targets in io_ark.read(alignments, kind="int-vector"))
    dim = 40 + stored[0].input.shape[1]
    network: nn.Module = nn.Sequential(
        nn.BatchNorm1d(dim), nn.Conv1d(dim, 64, 7, padding=3), nn.ReLU(), nn.Conv1d(64, classes, 1)
    ).to(device)
    network = DistributedDataParallel(network) if distributed else network
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    batches = BucketBatchSampler(
        audio.lengths(), max_seconds=max_seconds, sample_frequency=RATE
    )  # This rank's batches.

    folder.mkdir(parents=True, exist_ok=True)
    checkpoint = folder / "network.pt"
    first_epoch = done = 0
    if checkpoint.exists():
        saved = torch.load(checkpoint, map_location=device)
        network.load_state_dict(saved["network"])
        optimizer.load_state_dict(saved["optimizer"])
        batches.load_state_dict(saved["batches"])
        first_epoch, done = saved["batches"]["epoch"], saved["batches"]["batches"]
    loader = DataLoader(
        StackDataset(audio, stored), batch_sampler=batches, num_workers=workers, persistent_workers=workers > 0
    )
    for epoch in range(first_epoch, epochs):
        batches.set_epoch(epoch)  # the order of the batches
        audio.set_epoch(epoch)  # noise, dithering and masks
        for pair in loader:
            loss = loss_of(network, *(batch.to(device) for batch in pair))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            done += 1
            if (done % 5 == 0 or done == len(batches)) and os.environ.get("RANK", "0") == "0":
                print(f"epoch {epoch}, {done} of {len(batches)} batches: loss {loss.item():.3f}")
                states = {"network": network.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save({**states, "batches": batches.state_dict(done)}, folder / "next.pt")
                os.replace(folder / "next.pt", checkpoint)
        done = 0
    return network


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
