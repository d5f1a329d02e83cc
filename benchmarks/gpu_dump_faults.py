"""Dumps on a GPU with faults: too little memory for a batch, and a worker that is killed.

    python benchmarks/gpu_dump_faults.py [--device cuda] [--work DIR]

Each dump has VTLN factors, dithering and statistics, and has to give the features of an undisturbed dump. Prints a line
of JSON for each fault, and ends with status 1 if the features differ, if no batch was halved, or if no worker was
killed. With --device cpu, memory is not limited.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from corpus import make

import io_ark

CODE = "import sys; from kaldi_compat.dump.cli import main; sys.exit(main(sys.argv[1:]))"
OPTIONS = ("--num-mel-bins=80", "--cmvn=global")
IN_SHARDS = ("--nj=2", "--shard-utterances=10")
# GiB of device memory. Two batches in flight need about 0.1 GiB.
LITTLE_MEMORY = 0.06


def prepare(data: Path, script: Path) -> None:
    """Make a data directory in which every utterance has a VTLN factor."""
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir(parents=True)
    (data / "wav.scp").write_text(script.read_text())
    keys = [line.split()[0] for line in script.read_text().splitlines()]
    (data / "utt2warp").write_text("".join(f"{key} {0.85 + 0.01 * (i % 30):.2f}\n" for i, key in enumerate(keys)))


def start(data: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a dump of a data directory."""
    command = [sys.executable, "-c", CODE, "dump", "fbank", str(data), *OPTIONS, *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def wait_for_features(process: subprocess.Popen[str], data: Path) -> dict[str, np.ndarray]:
    """Wait for a dump, and return its features."""
    messages = process.communicate()[1]
    if process.returncode:
        sys.exit(f"status {process.returncode}: {messages[-2000:]}")
    with io_ark.SequentialReader(f"scp:{data / 'feats.scp'}", kind="matrix") as reader:
        return {key: np.array(value) for key, value in reader}


def list_children(parent: int) -> list[int]:
    """Return the processes that a process started, in ascending order."""
    children = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == parent:
                children.append(int(path.parent.name))
    return sorted(children)


def kill_worker(process: subprocess.Popen[str], data: Path) -> bool:
    """Kill a worker of a dump as soon as an archive exists. Return False if the dump ends before."""
    while process.poll() is None:
        time.sleep(0.01)
        if any(data.rglob("raw_*")):
            with contextlib.suppress(OSError, IndexError):
                os.kill(list_children(process.pid)[-1], signal.SIGKILL)
                return True
    return False


def count_halvings(data: Path) -> int:
    """Return the number of batches of a dump that did not fit and were halved."""
    manifests = (json.loads(path.read_text().splitlines()[0]) for path in (data / "log").glob("dump_*.[0-9]*.json"))
    return int(sum(manifest["work"].get("halved", 0) for manifest in manifests))


def find_largest_difference(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> float:
    """Return the largest difference between the features of two dumps; infinity if their utterances differ."""
    if list(one) != list(other) or any(one[key].shape != other[key].shape for key in one):
        return float("inf")
    return max(float(np.abs(one[key] - other[key]).max()) for key in one)


def main() -> None:
    """Run the dumps and compare their features."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--work", type=Path)
    options = parser.parse_args()
    on_gpu = options.device != "cpu"
    device = f"--device={options.device}"
    agrees = True
    with tempfile.TemporaryDirectory() as scratch:
        work = (options.work or Path(scratch)).absolute()
        script = make(work / "corpus", files=60, seconds=600.0 if on_gpu else 60.0)
        data = work / "data"
        prepare(data, script)
        expected = wait_for_features(start(data, device), data)
        prepare(data, script)
        found = wait_for_features(start(data, device, *([f"--max-device-memory={LITTLE_MEMORY}"] * on_gpu)), data)
        # Smaller batches may round differently, and compression turns such differences into whole steps.
        difference, halvings = find_largest_difference(found, expected), count_halvings(data)
        agrees &= difference <= 1.0 and (halvings > 0 or not on_gpu)
        print(json.dumps({"fault": "too little memory", "largest_difference": difference, "halvings": halvings}))
        prepare(data, script)
        process = start(data, device, *IN_SHARDS)
        killed = kill_worker(process, data)
        difference = find_largest_difference(wait_for_features(process, data), expected)
        agrees &= killed and difference <= 1.0
        print(json.dumps({"fault": "worker killed", "killed": killed, "largest_difference": difference}))
    sys.exit(not agrees)


if __name__ == "__main__":
    main()
