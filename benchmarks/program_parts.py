"""Measure the time of start-up, reading, computing and writing in compute-fbank-feats over four hours of audio.

python benchmarks/program_parts.py [--hours 4] [--dither 0] [--work DIR]

Processor time, one thread. Start-up is the program on an empty table; the other parts are the calls that the program
makes, here one part after the other for each file.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import tempfile
import time
from pathlib import Path

import torch
from corpus import SECONDS, make, repeat

import io_ark
from kaldi_compat import Fbank, KaldiRandom


def start_up() -> float:
    """Processor time of the program with nothing to do."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(["compute-fbank-feats", "ark:/dev/null", "ark:/dev/null"], capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def parts(script: Path, archive: Path, dither: float) -> dict[str, float]:
    """Processor time of each part over all files."""
    fbank, generator = Fbank(num_mel_bins=80, dither=dither), KaldiRandom()
    spent = {"start-up": min(start_up() for _ in range(3)), "reading": 0.0, "computing": 0.0, "writing": 0.0}
    clock = time.process_time
    with (
        torch.inference_mode(),
        io_ark.SequentialReader("wave", f"scp:{script}") as reader,
        io_ark.Writer("matrix", f"ark:{archive}") as writer,
    ):
        start = clock()
        for key, wave in reader:
            read = clock()
            features = fbank(torch.from_numpy(wave.samples[0]), generator=generator).numpy()
            computed = clock()
            writer[key] = features
            written = clock()
            spent["reading"] += read - start
            spent["computing"] += computed - read
            spent["writing"] += written - computed
            start = written
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=int, default=4)
    parser.add_argument("--dither", type=float, default=0.0)
    parser.add_argument("--work", type=Path, help="keep the audio here between runs")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        work = chosen.work or Path(scratch)
        script = repeat(make(work / "corpus"), chosen.hours)
        spent = parts(script, work / "out.ark", chosen.dither)
        (work / "out.ark").unlink()
    total = sum(spent.values())
    for name, seconds in spent.items():
        print(f"{name:10} {seconds:6.2f} s  {100 * seconds / total:4.0f} %")
    print(f"{'all':10} {total:6.2f} s  {SECONDS * chosen.hours / total:.0f} times real time")


if __name__ == "__main__":
    main()
