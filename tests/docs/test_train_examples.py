"""The examples of training on the pages learn; one resumes where it was interrupted, and runs on several ranks."""

from __future__ import annotations

import gzip
import multiprocessing
import socket
from pathlib import Path
from typing import Any

import pytest
import torch

import io_ark
from kaldi_compat import track_pitch
from tests.support.examples import example


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with audio, alignments, noises and stored pitch."""
    folder = tmp_path_factory.mktemp("corpus")
    example("train_example").make_corpus(folder, 36, seed=1)
    with io_ark.writer(f"ark,scp:{folder}/feats.ark,{folder}/feats.scp") as writer:
        for key, wave in io_ark.read(f"scp:{folder}/wav.scp"):
            writer[key] = track_pitch(wave.samples[0].astype("f4"))
    return folder


def train(corpus: Path, folder: Path) -> list[torch.Tensor]:
    """Train for two epochs of several batches; return the parameters."""
    options = {"noises": corpus / "wav.scp", "epochs": 2, "max_seconds": 4, "workers": 0}
    return list(example("train_both").main(corpus, f"scp:{corpus}/ali.scp", folder, **options).parameters())


@pytest.mark.costly
def test_an_interrupted_run_ends_like_an_undisturbed_one(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = train(corpus, tmp_path / "whole")
    losses = [float(line.rpartition(" ")[2]) for line in capsys.readouterr().out.splitlines()]
    assert losses[-1] < 0.8 * losses[0]
    step, steps = torch.optim.Adam.step, 0

    def interrupted(self: Any, *arguments: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps == 8:
            raise KeyboardInterrupt
        return step(self, *arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(torch.optim.Adam, "step", interrupted)
        train(corpus, tmp_path / "resumed")
    resumed = train(corpus, tmp_path / "resumed")
    assert all(map(torch.equal, resumed, expected))


def run_rank(rank: int, port: int, corpus: Path, folder: Path, results: Any) -> None:
    torch.set_num_threads(1)  # threads of the parent are not there
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}.items():
            patch.setenv(name, str(value))
        results.put([value.tolist() for value in train(corpus, folder)])
        torch.distributed.destroy_process_group()


@pytest.mark.costly
@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch was built without torch.distributed")
def test_ranks_end_with_the_same_network(corpus: Path, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    ranks = [context.Process(target=run_rank, args=(rank, port, corpus, tmp_path, results)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    first, second = results.get(timeout=60), results.get(timeout=60)
    for rank in ranks:
        rank.join(60)
    assert [rank.exitcode for rank in ranks] == [0, 0]
    assert first == second
    assert (tmp_path / "network.pt").exists()


def test_example_learns_to_distinguish_vowels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert example("train_example").main(tmp_path) > 0.85
    assert "epoch 2" in capsys.readouterr().out


MODELS = Path(__file__).parents[2] / "reference_data" / "inputs" / "models"


def make_kaldi_folders(folder: Path) -> tuple[Path, Path]:
    """Write a data directory and an alignment directory as Kaldi's recipes leave them; return both."""
    data, alignments = folder / "data", folder / "ali"
    data.mkdir()
    alignments.mkdir()
    with io_ark.Writer(f"ark,scp:{data}/feats.ark,{data}/feats.scp", kind="matrix") as writer:
        for key, feats in io_ark.read(f"ark:{MODELS}/feats.ark"):
            writer[key] = feats
    (alignments / "ali.1.gz").write_bytes(gzip.compress((MODELS / "ali.ark").read_bytes()))
    for name, copy in (("mono.mdl", "final.mdl"), ("mono.tree", "tree")):
        (alignments / copy).write_bytes((MODELS / name).read_bytes())
    return data, alignments


def test_example_learns_pdfs_from_a_kaldi_directory(tmp_path: Path) -> None:
    shares = example("train_hybrid").main(*make_kaldi_folders(tmp_path), tmp_path / "network")
    assert shares["pdfs"] > 0.2 and shares["phones"] > 0.4  # by chance 0.05 of the pdfs
    pdfs = io_ark.load(MODELS / "mono.mdl", kind="transition-model").num_pdfs
    loglikes = dict(io_ark.read(f"ark:{tmp_path}/network/loglikes.ark"))
    assert loglikes and all(matrix.shape[1] == pdfs for matrix in loglikes.values())
