"""A dump of a model that is killed at random moments and resumed has the bytes of an undisturbed one."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import io_ark
from tests.support.dump_data import archive_bytes, keys_of

MAIN = "import sys; from kaldi_compat.dump.entry_point import main; sys.exit(main())"
MODEL = '''
import torch


class Tiny(torch.nn.Module):
    """A convolution with a mask, a vector and the nearest of some codes."""

    takes = "padded"

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.Conv1d(1, 8, 400, 160)

    def forward(self, audio, lengths):
        counts = (lengths - 400) // 160 + 1
        states = self.layers(audio[:, None]).transpose(1, 2).tanh()
        mask = torch.arange(states.shape[1]) < counts[:, None]
        mean = (states * mask[..., None]).sum(1) / counts[:, None]
        return {"layer": (states, counts), "mean": mean, "tokens": (states.argmax(2), counts)}
'''


def start(root: Path, *arguments: str, nj: int) -> subprocess.Popen[str]:
    """Start a dump in a process of its own."""
    line = [sys.executable, "-c", MAIN, "dump", "--module=tiny.py:Tiny", "data", "--shard-utterances=50", f"--nj={nj}"]
    return subprocess.Popen([*line, *arguments], cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("utterances, kills", [(200, 2), pytest.param(5000, 20, marks=pytest.mark.slow)])
def test_killed_at_random_moments_and_resumed(tmp_path: Path, utterances: int, kills: int) -> None:
    (tmp_path / "tiny.py").write_text(MODEL)
    data, rng = tmp_path / "data", np.random.default_rng(0)
    data.mkdir()
    with io_ark.writer(f"ark,scp:{tmp_path}/wav.ark,{data}/wav.scp") as writer:
        for i in range(utterances):
            samples = rng.normal(0, 2000, (1, 1600 + 16 * int(rng.integers(100)))).astype(np.int16)
            writer[f"utt{i:06d}"] = io_ark.Wave(16000.0, samples)
    process = start(tmp_path, nj=2)
    assert process.wait(500) == 0
    undisturbed, outputs = archive_bytes(data), ("layer", "mean", "tokens")
    scripts = {name: (data / f"{name}.scp").read_bytes() for name in outputs}
    for path in [*(data / "data").iterdir(), *(data / "log").iterdir()]:
        path.unlink()
    chance, done = random.Random(3), 0
    while done < kills:
        before = set((data / "log").glob("*.json"))
        process = start(tmp_path, "--resume", nj=chance.choice([1, 2]))
        while process.poll() is None and not set((data / "log").glob("*.json")) - before:
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.2))
        process.send_signal(chance.choice([signal.SIGKILL, signal.SIGTERM]))
        process.communicate(timeout=60)
        if process.returncode == 0:  # it was done before
            for path in (data / "log").glob("*.json"):
                path.unlink()
        done += process.returncode != 0
        there = {name: content for name, content in archive_bytes(data).items() if "unfinished" not in name}
        assert all(undisturbed[name] == content for name, content in there.items()), f"after {done} kills"
    assert start(tmp_path, "--resume", nj=2).wait(500) == 0
    assert archive_bytes(data) == undisturbed
    assert {name: (data / f"{name}.scp").read_bytes() for name in outputs} == scripts
    for name in outputs:
        keys = keys_of(data / f"{name}.scp")
        assert len(keys) == len(set(keys)) == utterances
    assert not list(data.glob("**/*unfinished*"))
