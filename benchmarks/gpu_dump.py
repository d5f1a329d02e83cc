"""Dump audio from memory on a GPU, with the kernels and without them, and compare the archives with those of the CPU.

    python benchmarks/gpu_dump.py [--device cuda] [--hours 100] [--jobs 16] [--work DIR]

Each dump writes compressed archives of 80 mel bins. Prints a line of JSON for each dump: its whole time, and the time
of the slowest worker without its start. `dump_ratio` compares the workers' times with the kernels and without them,
and is the difference between a dump of all hours and a dump of a fifth, so that compiling and first calls cancel out.
Ends with status 1 if features differ by more than a compression step. With --device cpu, the kernels are not there, and
both ways are the same.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from corpus import make

import io_ark
from kaldi_compat.torch.kernels import SWITCH

CODE = "import sys; from kaldi_compat.dump.cli import main; sys.exit(main(sys.argv[1:]))"
OPTIONS = ("fbank", "--num-mel-bins=80", "--dither=0")
# Folders of audio, written in parallel.
PARTS = 16
# Largest step of a compressed column, as a share of its range, and the rounding of the GPU.
MAX_STEP, MAX_ROUNDING = 1 / 64, 2e-3


def parse_options(text: str | None, hours: float, jobs: int) -> argparse.Namespace:
    """Return the options of the command line. ``hours`` of audio and ``jobs`` processes are defaults."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--hours", type=float, default=hours)
    parser.add_argument("--jobs", type=int, default=jobs)
    parser.add_argument("--work", type=Path, help="folder for the audio and the archives; by default a temporary one")
    return parser.parse_args()


def report(**values: object) -> None:
    """Print a measurement."""
    print(json.dumps(values), flush=True)


def in_memory() -> str | None:
    """Return a folder in memory; None if there is none."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def make_part(work: Path, part: int, seconds: float) -> list[str]:
    """Write a part of the audio, and return its lines of wav.scp."""
    script = make(work / f"part{part:02d}", files=max(1, round(seconds / 12)), seconds=seconds)
    return [f"{part:02d}-{line}\n" for line in script.read_text().splitlines()]


def make_corpus(work: Path, seconds: float) -> list[str]:
    """Write the audio in parts that are made in parallel, and return the lines of wav.scp."""
    work.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(min(PARTS, os.cpu_count() or 1)) as pool:
        parts = pool.map(make_part, [work] * PARTS, range(PARTS), [seconds / PARTS] * PARTS)
        return [line for part in parts for line in part]


def run_dump(data: Path, lines: list[str], arguments: list[str], *, kernels: bool = True) -> tuple[float, float]:
    """Dump a data directory with these lines of wav.scp; return the seconds of the whole and of the slowest worker."""
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir(parents=True)
    (data / "wav.scp").write_text("".join(lines))
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", CODE, "dump", *arguments, str(data)],
        env=os.environ | {SWITCH: str(int(kernels))},
        capture_output=True,
        text=True,
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        sys.exit(done.stderr[-3000:])
    print(done.stderr, file=sys.stderr, flush=True)
    return seconds, find_slowest_worker(data)


def find_slowest_worker(data: Path) -> float:
    """Return the longest time that an archive of a dump took."""
    manifests = (data / "log").glob("dump_*.[0-9]*.json")
    return max(float(json.loads(path.read_text().splitlines()[0])["work"]["wall"]) for path in manifests)


def compare(gpu: Path, cpu: Path) -> tuple[float, float]:
    """Return the share of utterances with equal features, and the largest difference in compression steps."""
    with io_ark.SequentialReader(f"scp:{gpu / 'feats.scp'}", kind="matrix") as reader:
        features = {key: np.array(value) for key, value in reader}
    equal, largest = [], 0.0
    with io_ark.SequentialReader(f"scp:{cpu / 'feats.scp'}", kind="matrix") as reader:
        for key, value in reader:
            expected = np.array(value)
            equal.append(np.array_equal(features[key], expected))
            step = np.ptp(expected, axis=0) * MAX_STEP + MAX_ROUNDING
            largest = max(largest, float((np.abs(features[key] - expected) / step).max()))
    return float(np.mean(equal)), largest


def main() -> None:
    """Dump and compare."""
    options = parse_options(__doc__, hours=100.0, jobs=16)
    with tempfile.TemporaryDirectory(dir=in_memory()) as scratch:
        work = (options.work or Path(scratch)).absolute()
        seconds = min(3600.0, 3600 * options.hours / 5)
        lines = make_corpus(work / "corpus", seconds)
        on_gpu = [*OPTIONS, f"--device={options.device}", f"--nj={options.jobs}"]
        copies = round(3600 * options.hours / seconds)
        steady = {}
        for name, kernels in (("kernels", True), ("torch operations", False)):
            workers = []
            for count in (copies // 5, copies):
                repeated = [f"{copy:04d}-{line}" for copy in range(count) for line in lines]
                taken, worker = run_dump(work / "data", repeated, on_gpu, kernels=kernels)
                workers.append(worker)
                report(dump=name, hours=round(count * seconds / 3600, 2), seconds=round(taken, 2),
                       seconds_of_slowest_worker=round(worker, 2))  # fmt: skip
            steady[name] = max(workers[1] - workers[0], 1e-3)
            speed = (copies - copies // 5) * seconds / steady[name]
            report(dump=name, steady_times_real_time=round(speed))
        run_dump(work / "gpu", lines, on_gpu)
        run_dump(work / "cpu", lines, [*OPTIONS, f"--nj={options.jobs}"])
        equal, largest = compare(work / "gpu", work / "cpu")
        report(dump_ratio=round(steady["torch operations"] / steady["kernels"], 2), equal_utterances=round(equal, 4),
               largest_difference_in_steps=round(largest, 4))  # fmt: skip
    sys.exit(not largest <= 1)


if __name__ == "__main__":
    main()
