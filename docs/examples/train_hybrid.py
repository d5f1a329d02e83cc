"""Train the network of a hybrid recognizer from a Kaldi directory: features, alignments, model and tree.

    python docs/examples/train_hybrid.py data/train exp/tri3_ali exp/my_network

Reads ``feats.scp`` of the data directory, and ``ali.*.gz``, ``final.mdl`` and ``tree`` of the alignment directory. The
targets are the pdfs of the alignments. Writes ``loglikes.ark`` with the log-likelihoods of the pdfs for the utterances
that were not trained on. Kaldi's latgen-faster-mapped decodes this table with the same model.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset

import io_ark
from io_ark.models import TransitionModel
from kaldi_compat.torch.data.batching import ALIGNMENT_PADDING, Batch, collate
from kaldi_compat.torch.data.datasets import FeatureDataset
from kaldi_compat.torch.data.sampling import BucketBatchSampler


def write_targets(alignments: Path, folder: Path, model: TransitionModel) -> np.ndarray:
    """Write the pdf of each frame of all alignments to ``pdfs.scp``, and return how often each pdf occurs."""
    counts = np.zeros(model.num_pdfs)
    with io_ark.Writer(f"ark,scp:{folder}/pdfs.ark,{folder}/pdfs.scp", kind="int-vector") as writer:
        for job in sorted(alignments.glob("ali.*.gz")):
            for key, transition_ids in io_ark.read(f"ark:gunzip -c {job} |", kind="int-vector"):
                pdfs = model.pdfs(transition_ids)
                counts += np.bincount(pdfs, minlength=model.num_pdfs)
                writer[key] = pdfs
    return counts


def network_of(dim: int, num_pdfs: int) -> nn.Module:
    """Return a network that scores the pdfs of a frame from seven frames around it."""
    return nn.Sequential(
        nn.BatchNorm1d(dim), nn.Conv1d(dim, 128, 5, padding=2), nn.ReLU(), nn.Conv1d(128, 128, 3, padding=1), nn.ReLU(),
        nn.Conv1d(128, num_pdfs, 1),
    )  # fmt: skip


def loss_of(network: nn.Module, batch: Batch) -> Tensor:
    """Return the mean cross-entropy of the frames of a batch."""
    scores = network(batch.inputs.mT)
    return nn.functional.cross_entropy(scores, batch.alignments, ignore_index=ALIGNMENT_PADDING)


def evaluate(network: nn.Module, data: FeatureDataset, numbers: list[int], model: TransitionModel) -> dict[str, float]:
    """Return the fractions of frames whose pdf, and whose phone, has the best score."""
    phone_of = np.zeros(model.num_pdfs, np.int32)
    phone_of[model.tuples[:, 2:]] = model.tuples[:, :1]  # in a tree with shared pdfs, the last of their phones
    right = {"pdfs": 0, "phones": 0}
    frames = 0
    for number in numbers:
        utterance = data[number]
        assert utterance.alignment is not None
        found, wanted = network(utterance.input.mT[None])[0].argmax(0).numpy(), utterance.alignment.numpy()
        right["pdfs"] += int((found == wanted).sum())
        right["phones"] += int((phone_of[found] == phone_of[wanted]).sum())
        frames += len(wanted)
    return {name: count / frames for name, count in right.items()}


def write_loglikes(
    network: nn.Module, data: FeatureDataset, numbers: list[int], counts: np.ndarray, path: Path
) -> None:
    """Write log-likelihoods: log-posteriors minus the logs of the pdfs' relative frequencies in the alignments."""
    priors = torch.tensor(np.log(np.maximum(counts, 1) / counts.sum()), dtype=torch.float32)
    with io_ark.Writer(f"ark:{path}", kind="matrix") as writer:
        for number in numbers:
            utterance = data[number]
            scores = network(utterance.input.mT[None])[0].mT
            writer[utterance.key] = (scores.log_softmax(-1) - priors).numpy()


def main(data_dir: Path, alignment_dir: Path, folder: Path, epochs: int = 20) -> dict[str, float]:
    """Train, write log-likelihoods, and return the fractions of correct frames of held-out utterances."""
    torch.manual_seed(0)
    folder.mkdir(parents=True, exist_ok=True)
    model = io_ark.load(alignment_dir / "final.mdl", kind="transition-model")
    tree = io_ark.load(alignment_dir / "tree", kind="tree")
    assert model.num_pdfs == tree.num_pdfs, "final.mdl and tree are of different systems"
    counts = write_targets(alignment_dir, folder, model)
    data = FeatureDataset(data_dir / "feats.scp", alignments=f"scp:{folder}/pdfs.scp", drop_incomplete=True)
    held_out = list(range(0, len(data), 10))
    chosen = [number for number in range(len(data)) if number % 10]
    network = network_of(data[0].input.shape[1], model.num_pdfs)
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    lengths = np.array(data.lengths())[chosen]
    batches = BucketBatchSampler(lengths, max_frames=2000, seed=0)
    for epoch in range(epochs):
        batches.set_epoch(epoch)
        network.train()
        for batch in DataLoader(Subset(data, chosen), batch_sampler=batches, collate_fn=collate):
            loss = loss_of(network, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    network.eval()
    with torch.no_grad():
        shares = evaluate(network, data, held_out, model)
        write_loglikes(network, data, held_out, counts, folder / "loglikes.ark")
    print(f"loss {loss.item():.3f}; right: {shares['pdfs']:.1%} of the pdfs, {shares['phones']:.1%} of the phones")
    return shares


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
