"""The example of training from Kaldi's alignments and model runs and learns."""

from __future__ import annotations

import gzip
from pathlib import Path

import io_ark
from io_ark.models import read_transition_model
from tests.support.examples import example

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "reference_data" / "inputs" / "models"


def make_kaldi_folders(folder: Path) -> tuple[Path, Path]:
    """Write a data directory and an alignment directory as Kaldi's recipes leave them; return both."""
    data, alignments = folder / "data", folder / "ali"
    data.mkdir()
    alignments.mkdir()
    with io_ark.Writer("matrix", f"ark,scp:{data}/feats.ark,{data}/feats.scp") as writer:
        for key, feats in io_ark.read(f"ark:{MODELS}/feats.ark"):
            writer[key] = feats
    (alignments / "ali.1.gz").write_bytes(gzip.compress((MODELS / "ali.ark").read_bytes()))
    for name, copy in (("mono.mdl", "final.mdl"), ("mono.tree", "tree")):
        (alignments / copy).write_bytes((MODELS / name).read_bytes())
    return data, alignments


def test_example_learns_pdfs_from_a_kaldi_directory(tmp_path: Path) -> None:
    shares = example("train_hybrid").main(*make_kaldi_folders(tmp_path), tmp_path / "network")
    assert shares["pdfs"] > 0.2 and shares["phones"] > 0.4  # by chance 0.05 of the pdfs
    pdfs = read_transition_model(MODELS / "mono.mdl").num_pdfs
    loglikes = dict(io_ark.read(f"ark:{tmp_path}/network/loglikes.ark"))
    assert loglikes and all(matrix.shape[1] == pdfs for matrix in loglikes.values())
