"""Dumps and conversions that are killed at random moments leave each output whole, and nothing after the next run."""

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
from io_ark.cli.ark import main as ark
from kaldi_compat.dump.cli import main as dump
from tests.support.dump_data import make_data

pytestmark = pytest.mark.sweep

MAIN = "import sys; from kaldi_compat.dump.entry_point import main; sys.exit(main())"
ARK = "import sys; from io_ark.cli.ark import main; sys.exit(main(sys.argv[1:]))"
SIGNALS = [signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
MODULE = """
import numpy as np


def two(audio):
    return {{"wide": [np.float32(each[:4000].reshape(-1, 4)) * {0} for each in audio],
             "narrow": [np.float32(each[:3]) * {0} for each in audio]}}
"""
CONVERTED = ("o.npz", "o/", "o.tar", "o.safetensors")


class Job:
    """A command with an older and a newer result."""

    def __init__(self, root: Path, kind: str) -> None:
        self.root, self.kind = root, kind
        self.data = make_data(root, 12, samples=(6000, 7000))
        if kind in CONVERTED:
            for name, factor in (("0", 1.0), ("1", 2.0)):
                with io_ark.writer(f"ark:{root}/{name}.ark") as writer:
                    for i in range(300):
                        writer[f"utt{i:03d}"] = np.full((40, 20), factor * i, np.float32)
        for version in 0, 1:
            (root / f"two{version}.py").write_text(MODULE.format(version + 1))

    def command(self, version: int) -> list[str]:
        """Return the command line of the older (0) or newer (1) result."""
        if self.kind in CONVERTED:
            return [sys.executable, "-c", ARK, "convert", f"{self.root}/{version}.ark", f"{self.data}/{self.kind}"]
        source = [f"--module={self.root}/two{version}.py:two"]
        if not self.kind.startswith("module"):
            source = ["fbank", "--dither=0", f"--num-mel-bins={20 + version}", f"--format={self.kind}"]
        more = ["--format=npy", f"--report={self.root}/page.html"] if self.kind == "module" else []
        return [sys.executable, "-c", MAIN, "dump", *source, *more, "--shard-utterances=3", "--nj=1", str(self.data)]

    def run(self, version: int) -> None:
        """Run the command in this process."""
        _, _, _, *arguments = self.command(version)
        assert (ark if self.kind in CONVERTED else dump)(arguments) == 0

    def start(self, version: int) -> subprocess.Popen[bytes]:
        """Run the command in a process of its own."""
        return subprocess.Popen(
            self.command(version), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )

    def list_files(self) -> dict[str, dict[str, bytes]]:
        """Return the content of the files of each output: folders of arrays are one output."""
        found: dict[str, dict[str, bytes]] = {}
        for path in sorted(self.data.rglob("*")):
            name = path.relative_to(self.data)
            is_ours = name.parts[0] not in ("wav", "wav.scp", "utt2spk", "log", ".backup")
            if path.is_file() and is_ours and "unfinished" not in str(path):
                folder = name.parts[0] if name.parts[0] in ("o", "feats", "wide", "narrow") else str(name)
                found.setdefault(folder, {})[str(name)] = path.read_bytes()
        return found


KILLED = """
import os, signal
rename, count = os.rename, 0


def killed(source, target):
    global count
    count += os.path.isdir(source)
    if count == {0}:
        os.kill(os.getpid(), signal.SIGKILL)
    rename(source, target)


os.rename = killed
""" + MAIN.replace("; ", "\n")


@pytest.mark.parametrize("is_link", [False, True])
@pytest.mark.parametrize("rename", [1, 2])
def test_killed_between_the_renames_of_a_folder(
    tmp_path: Path, rename: int, is_link: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Job(tmp_path, "npy")
    if is_link:
        (tmp_path / "disk").mkdir()
        (job.data / "feats").symlink_to(tmp_path / "disk")
    job.run(0)
    older = {path.name: path.read_bytes() for path in (job.data / "feats").iterdir()}
    arguments = job.command(1)[3:]
    process = subprocess.run(
        [sys.executable, "-c", KILLED.format(rename), *arguments], capture_output=True, check=False
    )
    assert process.returncode == -signal.SIGKILL and list(tmp_path.rglob("*unfinished*"))
    capsys.readouterr()
    assert dump([argument for argument in arguments if not argument.startswith("--format")]) == 0
    assert f"removed {rename} unfinished file" in capsys.readouterr().err
    assert not list(tmp_path.rglob("*unfinished*"))
    assert {path.name: path.read_bytes() for path in (job.data / "feats").iterdir()} == older


@pytest.mark.parametrize("kills", [6, pytest.param(100, marks=pytest.mark.slow)])
def test_killed_at_random_moments(tmp_path: Path, kills: int) -> None:
    chance = random.Random(kills)
    kinds = ["npy", "webdataset", "safetensors", "module", *CONVERTED]
    jobs, states, durations = {}, {}, {}
    for kind in ["npy", "module", "o/"] if kills < 10 else kinds:
        jobs[kind] = job = Job(tmp_path / kind.strip("/").replace(".", "_"), kind)
        results = []
        for version in 0, 1:
            job.run(version)
            results.append(job.list_files())
        began = time.monotonic()
        assert job.start(1).wait(60) == 0
        durations[kind] = time.monotonic() - began
        states[kind] = results
    for number in range(kills):
        kind = list(jobs)[number % len(jobs)]
        job, (older, newer) = jobs[kind], states[kind]
        job.run(0)
        assert job.list_files() == older
        process = job.start(1)
        time.sleep(chance.uniform(0.3, 1.1) * durations[kind])
        sent = chance.choice(SIGNALS)
        process.send_signal(sent)
        process.wait(60)
        when = f"{kind}, after kill {number} by {sent.name}"
        for output, content in job.list_files().items():
            assert content in (older.get(output), newer.get(output)), f"{when}: {output} is neither old nor new"
        if process.returncode:
            left = list(job.root.rglob("*unfinished*"))
            assert sent == signal.SIGKILL or kind in CONVERTED or not left, when
        job.run(1)
        assert job.list_files() == newer, when
        assert not list(job.root.rglob("*unfinished*")), when
        if job.root.joinpath("page.html").exists():
            assert job.root.joinpath("page.html").read_text().endswith("</html>\n")
