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
from kaldi_compat.dump.cli import main
from tests.support.dump_data import archive_bytes, keys_of

pytestmark = pytest.mark.sweep

MAIN = "import sys; from kaldi_compat.dump.entry_point import main; sys.exit(main())"
MODEL = '''
import numpy as np

KERNEL = np.random.default_rng(0).normal(size=(400, 8)).astype(np.float32)


def tiny(audio):
    """A convolution, its mean and the largest of its channels."""
    windows = [np.lib.stride_tricks.sliding_window_view(each, 400)[::160] for each in audio]
    states = [np.tanh(np.einsum("td,dc->tc", each, KERNEL)) for each in windows]
    return {"layer": states, "mean": [each.mean(0) for each in states], "tokens": [each.argmax(1) for each in states]}
'''


def arguments_of(size: int, nj: int, *more: str) -> list[str]:
    """Return the arguments of a dump with archives of this many utterances."""
    return ["dump", "--module=tiny.py:tiny", "data", f"--shard-utterances={size}", f"--nj={nj}", *more]


@pytest.mark.parametrize("utterances, kills", [(200, 2), pytest.param(100_000, 20, marks=pytest.mark.slow)])
def test_killed_at_random_moments_and_resumed(
    tmp_path: Path, utterances: int, kills: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.py").write_text(MODEL)
    data, rng = tmp_path / "data", np.random.default_rng(0)
    data.mkdir()
    with io_ark.writer(f"ark,scp:{tmp_path}/wav.ark,{data}/wav.scp") as writer:
        for i in range(utterances):
            samples = rng.normal(0, 2000, (1, 1200 + 16 * int(rng.integers(50)))).astype(np.int16)
            writer[f"utt{i:06d}"] = io_ark.Wave(16000.0, samples)
    began, size, nj = time.monotonic(), max(50, utterances // 400), 1 + (utterances > 1000)
    assert main(arguments_of(size, nj)) == 0
    longest = 2 * (time.monotonic() - began) / kills
    undisturbed, outputs = archive_bytes(data), ("layer", "mean", "tokens")
    scripts = {name: (data / f"{name}.scp").read_bytes() for name in outputs}
    for path in [*(data / "data").iterdir(), *(data / "log").iterdir()]:
        path.unlink()
    chance, done = random.Random(3), 0
    while done < kills:
        before = set((data / "log").glob("*.json"))
        line = [sys.executable, "-c", MAIN, *arguments_of(size, chance.choice([1, nj]), "--resume")]
        process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while process.poll() is None and not set((data / "log").glob("*.json")) - before:
            time.sleep(0.01)
        time.sleep(chance.uniform(0, longest))
        process.send_signal(chance.choice([signal.SIGKILL, signal.SIGTERM]))
        process.communicate(timeout=60)
        if process.returncode == 0:  # it was done before
            for path in (data / "log").glob("*.json"):
                path.unlink()
        done += process.returncode != 0
        there = {name: content for name, content in archive_bytes(data).items() if "unfinished" not in name}
        assert all(undisturbed[name] == content for name, content in there.items()), f"after {done} kills"
    assert main(arguments_of(size, nj, "--resume")) == 0
    assert archive_bytes(data) == undisturbed
    assert {name: (data / f"{name}.scp").read_bytes() for name in outputs} == scripts
    for name in outputs:
        keys = keys_of(data / f"{name}.scp")
        assert len(keys) == len(set(keys)) == utterances
    assert not list(data.glob("**/*unfinished*"))
