"""Processor time that a dump on a GPU takes on its host: reading, packing, launching, encoding, writing, verifying.

    python benchmarks/gpu_host_cost.py [--record] [--profile] [--hours HOURS --jobs JOBS] [case...]

Needs no GPU: the kernels do nothing, and a copy to the device takes the 10 microseconds of its start. Prints a line of
JSON for each case, with the microseconds of an utterance and the hours of audio that a core prepares in a minute. Wave
files are read to where the device copies from; "copied" is the case of audio that comes in another way, such as from
archives. To compare two commits, run it with PYTHONPATH set to each of them, in turns.

``--hours 1000 --jobs 2 --profile "12 s"`` simulates a dump of 1000 hours in two processes, which write the same archive
repeatedly, and prints the processor time of each stage without the stages that it calls.
"""

from __future__ import annotations

import ctypes
import functools
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
import wave
import zlib
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from figures import Table, report
from measuring import make_parser

from io_ark.tables.blocks import BlockLoader
from kaldi_compat.dump import features, files, packed_batch, shard, spectral_gpu, write
from kaldi_compat.dump.options import DumpOptions, Job, Layout
from kaldi_compat.dump.plan import make_plan
from kaldi_compat.dump.shard import ShardRunner
from kaldi_compat.dump.write import ArchiveWriter
from kaldi_compat.torch import kernels
from kaldi_compat.torch.kernels import compression, launch
from kaldi_compat.torch.kernels.transfers import Transfers

RATE = 16000
MIN_PIECE_SAMPLES = packed_batch.MIN_PIECE_SAMPLES
# Seconds of an utterance, utterances, VTLN factors, and whether all audio is copied on the host.
CASES = {
    "2 s": (2.0, 3000, 0, False),
    "12 s": (12.0, 600, 0, False),
    "2 s, 400 VTLN factors": (2.0, 3000, 400, False),
    "2 s, copied": (2.0, 3000, 0, True),
    "12 s, copied": (12.0, 600, 0, True),
    "2 s, 400 VTLN factors, copied": (2.0, 3000, 400, True),
}
SECONDS_TO_START_COPY = 10e-6


class Nothing:
    """A kernel that computes nothing. Instead of a kernel that compresses, it stores finite headers."""

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def run(*arguments: Any, **constants: Any) -> None:
            if "GROUPS" in constants:
                arguments[4].fill_(1.0)

        return run


class HostMemory(packed_batch.PinnedMemory):
    """Memory that takes the place of pinned memory."""

    def allocate(self, size: int) -> Any:
        """Return memory of at least this many bytes."""
        self.tensor = torch.empty(-(-size // 2), dtype=torch.int16)
        return self.tensor.numpy().view(np.uint8)


class Copies(Transfers):
    """Copies to a device as the host sees them."""

    row = torch.zeros(0, dtype=torch.int16)

    def send_pieces(self, pieces: Sequence[tuple[int, torch.Tensor]], length: int) -> torch.Tensor:
        """Take the time of starting the copies."""
        end = time.thread_time() + SECONDS_TO_START_COPY * len(pieces)
        while time.thread_time() < end:
            pass
        if len(Copies.row) < length:
            Copies.row = torch.zeros(length, dtype=torch.int16)
        return Copies.row[:length]


class Computer(spectral_gpu.PackedComputer):
    """Computes nothing on a device that is not there."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.transfers = Copies(torch.device("cpu"))
        self.memory = functools.partial(HostMemory, self.frame_options.window_shift)


class Profile:
    """Processor time of watched functions in all threads, without the time of other watched functions that they call.

    Attributes:
        seconds: processor time of each function in seconds.
    """

    def __init__(self) -> None:
        self.seconds = Counter[str]()
        self._called = threading.local()

    def watch(self, owner: Any, name: str, shown: str) -> None:
        """Replace the function ``name`` of ``owner`` by a function that counts its processor time under ``shown``."""
        function = getattr(owner, name)

        def watched(*arguments: Any, **more: Any) -> Any:
            stack = self._called.__dict__.setdefault("stack", [0.0])
            stack.append(0.0)
            begun = time.thread_time()
            try:
                return function(*arguments, **more)
            finally:
                took = time.thread_time() - begun
                self.seconds[shown] += took - stack.pop()
                stack[-1] += took

        setattr(owner, name, watched)

    def report(self, total: float) -> str:
        """Return a line for each function, with its share of the ``total`` processor time in seconds."""
        named = [*self.seconds.most_common(), ("the rest: queues, logs, garbage", total - self.seconds.total())]
        return "\n".join(f"  {100 * seconds / total:5.1f}%  {name}" for name, seconds in named)


STAGES = (
    (BlockLoader, "_load_files", "reading files, scanning headers"),
    (BlockLoader, "load", "opening archives"),
    (spectral_gpu, "pack_utterances", "packing rows"),
    (packed_batch, "_copy_to_piece", "copying samples"),
    (Copies, "send_pieces", "starting copies to the device"),
    (Computer, "_prepare_part", "rates, VTLN factors"),
    (Computer, "_start_batch", "launching kernels, fetching"),
    (spectral_gpu, "_make_results", "joining results"),
    (ArchiveWriter, "add_block", "script files, lengths"),
    (files.WholeFile, "write", "writing"),
    (zlib, "crc32", "CRC of what is written, and of what is read back"),
    (write._Verification, "_read_up_to", "reading back"),
    (files.WholeFile, "finish", "syncing, renaming"),
)


def write_corpus(folder: Path, seconds: float, count: int, factors: int) -> Path:
    """Write a data directory with ``count`` files of ``seconds``, and with VTLN factors if ``factors`` is not 0."""
    data = folder / "data"
    (data / "wav").mkdir(parents=True)
    rng, lines, warps = np.random.default_rng(0), [], []
    samples = rng.integers(-9999, 9999, int(seconds * RATE), dtype=np.int16).tobytes()
    for i in range(count):
        path = data / "wav" / f"utterance-{i:06d}.wav"
        with wave.open(str(path), "wb") as file:
            file.setparams((1, 2, RATE, 0, "NONE", ""))
            file.writeframes(samples[2 * (i % 1000) :])
        lines.append(f"utterance-{i:06d} {path}\n")
        warps.append(f"utterance-{i:06d} {0.8 + 0.4 * rng.integers(0, factors or 1) / (factors or 1):.4f}\n")
    (data / "wav.scp").write_text("".join(lines))
    if factors:
        (data / "utt2warp").write_text("".join(warps))
    return data


def imitate_gpu() -> None:
    """Make a dump on the CPU run the code for a GPU, with kernels that do nothing."""
    kernels.DEVICE_TYPE = "cpu"
    setattr(kernels, "_find_fault", lambda *_: "")  # noqa: B010
    for name in ("ranges_kernel", "speech_kernel", "integers_kernel"):
        setattr(compression, name, Nothing())
    setattr(compression, "find_compression_fault", lambda device: "")  # noqa: B010
    setattr(launch, "feature_kernel", Nothing())  # noqa: B010
    setattr(features, "make_spectral_computer", Computer)  # noqa: B010
    setattr(shard, "keep_freed_memory", keep_memory)  # noqa: B010


def keep_memory() -> None:
    """Make the C library keep freed memory for later use, as PyTorch keeps pinned memory, so that no page is new."""
    libc = ctypes.CDLL(None)
    # The options are M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, M_TOP_PAD and M_ARENA_MAX.
    for option, value in ((-3, 1 << 25), (-1, 2**31 - 1), (-2, 1 << 26), (-8, 1)):
        libc.mallopt(option, value)


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--hours", type=float, default=0.0, help="of audio in all; then the mean is printed")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--profile", action="store_true", help="print what took the time")
    chosen = parser.parse_args()
    imitate_gpu()
    torch.set_num_threads(1)
    with ThreadPoolExecutor(chosen.jobs) as pool:
        for _ in range(chosen.jobs if chosen.jobs > 1 else 0):
            alone = [sys.executable, __file__, *sys.argv[1:], "--jobs=1", f"--hours={chosen.hours / chosen.jobs}"]
            pool.submit(subprocess.run, alone)
    rows: list[list[str]] = []
    measure_archive(chosen.cases[0], chosen.rounds, None)  # The first corpus costs 10 us more per utterance.
    for name in chosen.cases if chosen.jobs == 1 else ():
        seconds, count, _, copied = CASES[name]
        packed_batch.MIN_PIECE_SAMPLES = 1 << 62 if copied else MIN_PIECE_SAMPLES
        rounds = math.ceil(3600 * chosen.hours / (count * seconds)) or chosen.rounds
        profile = Profile()
        taken, wall = measure_archive(name, rounds, profile if chosen.profile else None)
        each = (sum(taken) / rounds if chosen.hours else min(taken)) / count
        values = {
            "microseconds": round(1e6 * each, 1),
            "hours_per_core_minute": round(seconds / 60 / each, 1),
            "hours": round(rounds * count * seconds / 3600, 1),
            "processor_seconds": round(sum(taken), 1),
            "wall_seconds": round(wall, 1),
        }
        print(json.dumps({"utterances": name} | values), flush=True)
        rows.append([name, f"{1e6 * each:.0f}", f"{seconds / 60 / each:.0f}"])
        if chosen.profile:
            print(profile.report(sum(taken)), flush=True)
    if chosen.cases == list(CASES) and rows:
        heads = ["utterances", "microseconds", "hours of audio that a core prepares in a minute"]
        report("gpu-host", Table(f"python benchmarks/gpu_host_cost.py --rounds {chosen.rounds}", heads, rows))


def measure_archive(name: str, rounds: int, profile: Profile | None) -> tuple[list[float], float]:
    """Write an archive once, and then in rounds. Return the processor time of each round, and the wall time of all."""
    seconds, count, factors, _ = CASES[name]
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as root:
        folder = Path(root)
        job = Job(
            Layout.from_paths(write_corpus(folder, seconds, count, factors), "fbank"),
            DumpOptions(nj=1, conf=str(folder / "conf"), batch_seconds=600.0),
        )
        (folder / "conf").write_text("--num-mel-bins=80\n--dither=0\n")
        for path in (job.layout.log, job.layout.archives):
            path.mkdir()
        plan = make_plan(job)
        runner = ShardRunner(job, plan)  # A worker process writes all its archives with one runner.
        runner(plan.shards[0])
        if profile is not None:
            for owner, function, shown in STAGES:
                profile.watch(owner, function, shown)
        durations, start = [], time.perf_counter()
        for _ in range(rounds):
            for file in job.layout.archives.iterdir():
                file.unlink()  # A dump into a new folder frees no old archive.
            begun = time.process_time()
            manifest = runner(plan.shards[0])
            durations.append(time.process_time() - begun)
            assert (manifest.utterances, manifest.work["uncompressed"]) == (count, 0), manifest
        return durations, time.perf_counter() - start


if __name__ == "__main__":
    main()
