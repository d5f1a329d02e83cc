"""The pitch tracker: whole programs over an hour of audio, against Kaldi's if it is there; and where the time goes.

python benchmarks/pitch.py [--hours 1] [--runs 3] [--work DIR] [--kaldi DIR] [--cores 1]

Each program runs `--runs` times, in turn, on files in the page cache. Printed: times real time by the wall clock and by
processor time (user and system), medians; then microseconds a frame for each stage of the tracker in this process.
"""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import statistics
import subprocess
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # read when NumPy is imported

import numpy as np
from corpus import SECONDS, make, repeat

import io_ark
from io_ark.codecs.wave import Wave
from kaldi_compat import PitchOptions
from kaldi_compat.pitch.constants import PitchConstants
from kaldi_compat.pitch.frames import frames_of_block
from kaldi_compat.pitch.tracker import track_block

PROGRAMS = ("compute-kaldi-pitch-feats", "compute-and-process-kaldi-pitch-feats")


def timed(command: list[str], cores: int) -> tuple[float, float]:
    """Seconds by the wall clock, and of processor time."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(["taskset", "-c", f"0-{cores - 1}", *command], check=True, capture_output=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def programs(script: Path, hours: int, runs: int, kaldi: Path | None, cores: int) -> None:
    """Time the programs and print how much faster than real time they are."""
    audio = hours * SECONDS
    with tempfile.TemporaryDirectory() as scratch:
        commands = {name: [name, f"scp:{script}", f"ark:{scratch}/out.ark"] for name in PROGRAMS}
        if kaldi:
            commands |= {f"Kaldi's {name}": [f"{kaldi}/{name}", *commands[name][1:]] for name in PROGRAMS}
        seconds = defaultdict(list)
        for _ in range(runs):
            for name, command in commands.items():
                seconds[name].append(timed(command, cores))
    print(f"{'program':50} {'wall clock':>12} {'processor':>12}   (times real time, {cores} core(s))")
    for name, measured in seconds.items():
        wall, processor = (statistics.median(each) for each in zip(*measured, strict=True))
        print(f"{name:50} {audio / wall:12.0f} {audio / processor:12.0f}")


def stages(script: Path, utterances: int) -> None:
    """Print what each stage takes a frame, nested ones too."""
    options = PitchOptions()
    constants = PitchConstants.of(options)
    with io_ark.SequentialReader[Wave]("wave", f"scp:{script}") as reader:
        waves = [wave.samples[0] for _, wave in itertools.islice(reader, utterances)]
    samples = np.concatenate(waves)
    lengths = np.array([len(wave) for wave in waves])
    starts = np.cumsum(lengths) - lengths
    frames = sum(constants.num_frames(len(wave)) for wave in waves)

    def report(name: str, function: Any) -> Any:
        start = time.process_time()
        result = function()
        print(f"{name:50} {(time.process_time() - start) / frames * 1e6:12.2f}")
        return result

    report("resampling and ballast", lambda: frames_of_block(samples, starts, lengths, constants))
    report("all of it", lambda: track_block(samples, starts, lengths, options))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=int, default=1)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--work", type=Path, help="keep the audio here between runs")
    parser.add_argument("--kaldi", type=Path, help="folder of Kaldi's own programs")
    parser.add_argument("--cores", type=int, default=1, help="processors each program may use")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        script = repeat(make((chosen.work or Path(scratch)) / "corpus"), chosen.hours)
        programs(script, chosen.hours, chosen.runs, chosen.kaldi, chosen.cores)
        print(f"\n{'stage':50} {'us a frame':>12}   (processor time)")
        stages(script, 64)


if __name__ == "__main__":
    main()
