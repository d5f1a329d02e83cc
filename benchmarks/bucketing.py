"""BucketBatchSampler against lhotse's DynamicBucketingSampler: padding, time a batch, memory.

    python benchmarks/bucketing.py [--utterances 281241 ...] [--max-seconds 600] [--buckets 30] [--record]

Durations are log-normal between 1 and 35 s; LibriSpeech has 281,241 utterances. Each contestant runs in a process
of its own and reads a manifest of its own kind: utt2dur, or cuts in lines of JSON, lazily or into memory. Prints, for
the second epoch: batches, the share of padding, seconds of processor time until the first batch, microseconds of
processor time for each batch, and the growth of the process's peak memory since its imports.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from figures import Table, report

RATE, BUFFER = 16000, 20000
CONTESTANTS = ("ours", "lhotse, lazy", "lhotse, in memory")
COMMAND = "python benchmarks/bucketing.py --utterances 281241 30000 3000 1000"
COLUMNS = ["utterances", "sampler", "batches", "padding", "first batch: s", "each batch: µs", "memory: MB"]


def write_manifests(folder: Path, utterances: int) -> None:
    """Write utt2dur and cuts.jsonl, of the same durations in a random order."""
    seconds = np.random.default_rng(0).lognormal(np.log(11.0), 0.5, utterances).clip(1.0, 35.0)
    samples = (seconds * RATE).astype(int)
    with open(folder / "utt2dur", "w") as durations, open(folder / "cuts.jsonl", "w") as cuts:
        for number, count in enumerate(samples.tolist()):
            key, duration = f"utt{number:07}", count / RATE
            durations.write(f"{key} {duration}\n")
            source = {"type": "file", "channels": [0], "source": f"{key}.wav"}
            recording = {"id": key, "sources": [source], "sampling_rate": RATE, "num_samples": count}
            cut = {"id": key, "start": 0, "duration": duration, "channel": 0, "type": "MonoCut", "supervisions": []}
            cuts.write(json.dumps({**cut, "recording": {**recording, "duration": duration, "channel_ids": [0]}}) + "\n")


def batches_of_ours(folder: Path, max_seconds: float, buckets: int) -> Iterator[list[float]]:
    """Yield the durations of each batch of BucketBatchSampler."""
    from kaldi_compat import BucketBatchSampler

    with open(folder / "utt2dur") as lines:
        durations = np.array([float(line.split()[1]) for line in lines])
    sampler = BucketBatchSampler(durations, max_seconds=max_seconds, num_buckets=buckets)
    sampler.set_epoch(1)
    for batch in sampler:
        yield durations[batch].tolist()


def batches_of_lhotse(folder: Path, max_seconds: float, buckets: int, lazy: bool) -> Iterator[list[float]]:
    """Yield the durations of each batch of DynamicBucketingSampler."""
    from lhotse import CutSet
    from lhotse.dataset import DynamicBucketingSampler

    cuts = CutSet.from_jsonl_lazy(folder / "cuts.jsonl")
    options: dict[str, Any] = {"shuffle": True, "num_buckets": buckets, "buffer_size": BUFFER}
    sampler = DynamicBucketingSampler(cuts if lazy else cuts.to_eager(), max_duration=max_seconds, **options)
    sampler.set_epoch(1)
    for batch in sampler:
        yield [cut.duration for cut in batch]


def measure(contestant: str, folder: Path, max_seconds: float, buckets: int) -> dict[str, float]:
    """Return what one contestant needs for an epoch, in this process."""
    if contestant == "ours":
        from kaldi_compat import BucketBatchSampler  # noqa: F401

        batches = batches_of_ours(folder, max_seconds, buckets)
    else:
        import lhotse.dataset  # noqa: F401

        batches = batches_of_lhotse(folder, max_seconds, buckets, contestant == "lhotse, lazy")
    memory, start, first = peak_megabytes(), time.process_time(), 0.0
    count = used = padded = 0.0
    for batch in batches:
        first = first or time.process_time() - start
        count, used, padded = count + 1, used + sum(batch), padded + max(batch) * len(batch)
    seconds = time.process_time() - start - first
    found = {"batches": count, "padding": 1 - used / padded, "first": first}
    return {**found, "microseconds": seconds / count * 1e6, "megabytes": peak_megabytes() - memory}


def peak_megabytes() -> float:
    """Return the peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure each contestant in a process of its own, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--utterances", type=int, nargs="+", default=[281241])
    parser.add_argument("--max-seconds", type=float, default=600.0)
    parser.add_argument("--buckets", type=int, default=30)
    parser.add_argument("--record", action="store_true", help="store the figures for the pages")
    parser.add_argument("--contestant", choices=CONTESTANTS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.contestant:
        print(json.dumps(measure(given.contestant, given.folder, given.max_seconds, given.buckets)))
        return
    rows = []
    for utterances in given.utterances:
        with tempfile.TemporaryDirectory() as folder:
            write_manifests(Path(folder), utterances)
            for contestant in CONTESTANTS:
                command = [sys.executable, __file__, "--contestant", contestant, "--folder", folder]
                command += ["--max-seconds", str(given.max_seconds), "--buckets", str(given.buckets)]
                found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                shown = {
                    "batches": ",.0f",
                    "padding": ".2%",
                    "first": ".2f",
                    "microseconds": ",.0f",
                    "megabytes": ",.0f",
                }
                rows.append([f"{utterances:,}", contestant, *(format(found[name], how) for name, how in shown.items())])
    report("bucketing", Table(COMMAND, COLUMNS, rows))


if __name__ == "__main__":
    main()
