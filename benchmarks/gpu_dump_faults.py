"""Run dumps on a GPU under faults and unusual settings: a killed worker, too little memory, deterministic algorithms,
VTLN.

    python benchmarks/gpu_dump_faults.py [--device cuda] [--work DIR]

Each dump must give the archives of an undisturbed dump, as far as a GPU promises that. The script prints a line of JSON
for each dump, and ends with status 1 if a dump differs. With --device cpu, the script itself can be tried.
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

CODE = """
import sys, torch
torch.use_deterministic_algorithms("--deterministic" in sys.argv)
from kaldi_compat.dump.cli import main
sys.exit(main([each for each in sys.argv[1:] if each != "--deterministic"]))
"""


def start(data: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a dump of a data directory."""
    environment = os.environ | {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    command = [sys.executable, "-c", CODE, "dump", "fbank", str(data), "--num-mel-bins=80", *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)


def finished(process: subprocess.Popen[str], data: Path) -> dict[str, np.ndarray]:
    """Wait for a dump, and return its features."""
    messages = process.communicate()[1]
    if process.returncode:
        raise RuntimeError(f"status {process.returncode}: {messages[-2000:]}")
    with io_ark.SequentialReader(f"scp:{data / 'feats.scp'}", kind="matrix") as reader:
        return {key: np.array(value) for key, value in reader}


def killed(process: subprocess.Popen[str], data: Path) -> bool:
    """Kill one of the workers of a dump once an archive is begun; return False if the dump ends before."""
    started = time.time()
    while process.poll() is None:
        time.sleep(0.01)
        with contextlib.suppress(OSError, IndexError):  # The file or the worker may have disappeared.
            if any(path.stat().st_mtime >= started for path in data.rglob("raw_*")):
                children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True)
                os.kill(int(children.stdout.split()[-1]), signal.SIGKILL)
                return True
    return False


def halvings(data: Path) -> int:
    """Return how many batches of a dump did not fit and were halved."""
    manifests = (json.loads(path.read_text().splitlines()[0]) for path in (data / "log").glob("dump_*.[0-9]*.json"))
    return int(sum(manifest["work"].get("halved", 0) for manifest in manifests))


def largest_difference(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> float:
    """Return the largest difference of the features of two dumps; infinity if other utterances have them."""
    if list(one) != list(other) or any(one[key].shape != other[key].shape for key in one):
        return float("inf")
    return max(float(np.abs(one[key] - other[key]).max()) for key in one)


def main() -> None:
    """Run all dumps and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--work", type=Path)
    chosen = parser.parse_args()
    on_gpu = chosen.device != "cpu"
    # Little memory makes smaller batches, whose products round differently; compression makes steps of that.
    limits = {"deterministic": 0.0, "worker killed": 0.0, "too little memory": 1.0}
    ways = {
        "deterministic": ["--deterministic"],
        "worker killed": ["--nj=2", "--shard-utterances=10"],
        "too little memory": ["--max-device-memory=0.06"] if on_gpu else [],
    }
    good = True
    with tempfile.TemporaryDirectory() as scratch:
        work = (chosen.work or Path(scratch)).absolute()
        script = make(work / "corpus")
        data = work / "data"
        for extra in ([], ["--cmvn=global"]):
            for name, arguments in ways.items():
                shutil.rmtree(data, ignore_errors=True)
                data.mkdir(parents=True)
                (data / "wav.scp").write_text(script.read_text())
                keys = [line.split()[0] for line in script.read_text().splitlines()]
                if extra:  # with a VTLN factor for each
                    lines = [f"{key} {0.85 + 0.01 * (i % 30):.2f}\n" for i, key in enumerate(keys)]
                    (data / "utt2warp").write_text("".join(lines))
                base = [*extra, f"--device={chosen.device}"]
                usual = [argument for argument in arguments if argument.startswith(("--nj", "--shard"))]
                expected = finished(start(data, *base, *usual), data)
                process = start(data, *base, *arguments)
                begun = time.perf_counter()
                if name == "worker killed" and not killed(process, data):
                    good = False
                    print(json.dumps({"dump": name, "options": extra, "killed": False}), flush=True)
                difference = largest_difference(finished(process, data), expected)
                good &= difference <= limits[name]
                if name == "too little memory" and on_gpu:  # or it would show nothing
                    good &= (halved := halvings(data)) > 0
                    print(json.dumps({"dump": name, "halvings": halved}), flush=True)
                print(json.dumps({"dump": name, "options": extra, "largest_difference": difference,
                                  "seconds": round(time.perf_counter() - begun, 1)}), flush=True)  # fmt: skip
    sys.exit(not good)


if __name__ == "__main__":
    main()
