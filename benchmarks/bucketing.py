"""BucketBatchSampler against lhotse's DynamicBucketingSampler: padding, time a batch, memory.

    python benchmarks/bucketing.py [--utterances 281241 ...] [--max-seconds 600] [--batch-size 32] [--record]

Durations are log-normal between 1 and 35 s; LibriSpeech has 281,241 utterances. Each contestant runs in a separate
process and reads its native manifest: utt2dur, or cuts in lines of JSON, lazily or into memory. The table has, for the
second epoch: the number of batches, the share of padding, the share of pairs of utterances in a batch that are in one
batch again in the third epoch, seconds of processor time until the first batch, microseconds of processor time per
batch, and the growth of the process's peak memory since its imports. Batches with a fixed number of utterances are also
compared at lhotse's number of batches, because many of lhotse's batches are not full. ``--planning`` prints the time
and memory that our sampler needs for the first batch of ten million utterances instead.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from figures import Table, report
from measuring import make_parser

Batch = tuple[list[int], list[float]]  # Numbers of utterances, and their durations in seconds.

RATE, BUFFER = 16000, 20000
CONTESTANTS = ("ours", "lhotse, lazy", "lhotse, in memory")
COMMAND = "python benchmarks/bucketing.py --utterances 30000 3000 1000"
BUCKETS, PLANNED = 30, 10_000_000
LIMITS: dict[str, dict[str, float]] = {
    "`max_frames=60000`": {"max_frames": 60000},
    "`max_frames=60000`, `batch_size=64`": {"max_frames": 60000, "batch_size": 64},
}
SHOWN = {
    "batches": ",.0f",
    "padding": ".2%",
    "again": ".0%",
    "first": ".2f",
    "microseconds": ",.0f",
    "mebibytes": ",.0f",
}
COLUMNS = ["utterances", "at most", "sampler", "batches", "padding", "pairs again", "first batch: s", "each batch: µs"]
COLUMNS += ["memory: MiB"]


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


def iterate_our_batches(folder: Path, limits: dict[str, float], epoch: int) -> Iterator[Batch]:
    """Yield the utterances of each batch of BucketBatchSampler."""
    from kaldi_compat import BucketBatchSampler

    with open(folder / "utt2dur") as lines:
        durations = np.array([float(line.split()[1]) for line in lines])
    options: dict[str, Any] = limits
    sampler = BucketBatchSampler(durations, num_buckets=BUCKETS, **options)
    sampler.set_epoch(epoch)
    for batch in sampler:
        yield batch, durations[batch].tolist()


def iterate_lhotse_batches(folder: Path, limits: dict[str, float], epoch: int, lazy: bool) -> Iterator[Batch]:
    """Yield the utterances of each batch of DynamicBucketingSampler."""
    from lhotse import CutSet
    from lhotse.dataset import DynamicBucketingSampler

    cuts = CutSet.from_jsonl_lazy(folder / "cuts.jsonl")
    names = {"max_seconds": "max_duration", "batch_size": "max_cuts"}
    options: dict[str, Any] = {"shuffle": True, "num_buckets": BUCKETS, "buffer_size": BUFFER}
    options |= {names[name]: limit for name, limit in limits.items()}
    sampler = DynamicBucketingSampler(cuts if lazy else cuts.to_eager(), **options)
    sampler.set_epoch(epoch)
    for batch in sampler:
        yield [int(cut.id[3:]) for cut in batch], [cut.duration for cut in batch]


def measure_planning(limits: dict[str, float], utterances: int) -> dict[str, float]:
    """Return the time and memory for the first batch of the first epoch and of a later epoch, in this process."""
    from kaldi_compat import BucketBatchSampler

    frames = (100 * np.random.default_rng(0).lognormal(np.log(11.0), 0.5, utterances).clip(1.0, 35.0)).astype(int)
    memory, start = measure_peak_mebibytes(), time.process_time()
    sampler = BucketBatchSampler(frames, **limits)
    next(iter(sampler))
    first = time.process_time() - start
    sampler.set_epoch(1)
    next(iter(sampler))
    return {
        "first": first,
        "later": time.process_time() - start - first,
        "mebibytes": measure_peak_mebibytes() - memory,
    }


def measure(contestant: str, folder: Path, limits: dict[str, float]) -> dict[str, float]:
    """Return the figures of one contestant for an epoch, measured in this process."""
    if contestant == "planning":
        return measure_planning(limits, PLANNED)
    if contestant == "ours":
        from kaldi_compat import BucketBatchSampler  # noqa: F401

        epoch = partial(iterate_our_batches, folder, limits)
    else:
        import lhotse.dataset  # noqa: F401

        epoch = partial(iterate_lhotse_batches, folder, limits, lazy=contestant == "lhotse, lazy")
    memory, start, first = measure_peak_mebibytes(), time.process_time(), 0.0
    count = used = padded = 0.0
    for _, seconds in epoch(1):
        first = first or time.process_time() - start
        count, used, padded = count + 1, used + sum(seconds), padded + max(seconds) * len(seconds)
    seconds_after_first = time.process_time() - start - first
    figures = {
        "batches": count,
        "padding": 1 - used / padded,
        "first": first,
        "microseconds": seconds_after_first / count * 1e6,
    }
    figures["mebibytes"] = measure_peak_mebibytes() - memory
    return {**figures, "again": share_of_pairs_again([b for b, _ in epoch(1)], [b for b, _ in epoch(2)])}


def share_of_pairs_again(batches: list[list[int]], later: list[list[int]]) -> float:
    """Return the share of all pairs of utterances in the batches ``later`` that also share a batch in ``batches``."""
    batch_of = {utterance: number for number, batch in enumerate(batches) for utterance in batch}
    together = pairs = 0
    for batch in later:
        together += sum(n * (n - 1) for n in Counter(batch_of[utterance] for utterance in batch).values())
        pairs += len(batch) * (len(batch) - 1)
    return together / max(pairs, 1)


def measure_peak_mebibytes() -> float:
    """Return the peak memory of this process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure_row(contestant: str, folder: str, limits: dict[str, float]) -> dict[str, float]:
    """Return the figures of one contestant for an epoch, measured in a new process."""
    command = [sys.executable, __file__, "--contestant", contestant, "--folder", folder, "--limits", json.dumps(limits)]
    figures: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return figures


def main() -> None:
    """Measure each contestant in a new process, and print a table."""
    parser = make_parser(__doc__)
    parser.add_argument("--utterances", type=int, nargs="+", default=[281241])
    parser.add_argument("--max-seconds", type=float, default=600.0)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--planning", action="store_true", help="measure the first batch of ten million utterances")
    parser.add_argument("--contestant", choices=(*CONTESTANTS, "planning"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--limits", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.contestant:
        print(json.dumps(measure(arguments.contestant, arguments.folder, arguments.limits)))
        return
    if arguments.planning:
        planned = []
        for name, limits in LIMITS.items():
            figures = measure_row("planning", ".", limits)
            planned.append([name, f"{figures['first']:.1f}", f"{figures['later']:.1f}", f"{figures['mebibytes']:,.0f}"])
        columns = ["limits", "first epoch: s", "later epoch: s", "memory: MiB"]
        report("planning", Table("python benchmarks/bucketing.py --planning", columns, planned))
        return
    rows = []

    def add(utterances: int, limit: str, contestant: str, figures: dict[str, float]) -> None:
        rows.append(
            [f"{utterances:,}", limit, contestant, *(format(figures[name], how) for name, how in SHOWN.items())]
        )

    for utterances in arguments.utterances:
        with tempfile.TemporaryDirectory() as folder:
            write_manifests(Path(folder), utterances)
            for contestant in CONTESTANTS:
                figures = measure_row(contestant, folder, {"max_seconds": arguments.max_seconds})
                add(utterances, f"{arguments.max_seconds:g} s", contestant, figures)
            for contestant in CONTESTANTS[:2]:
                figures = measure_row(contestant, folder, {"batch_size": arguments.batch_size})
                add(utterances, f"{arguments.batch_size}", contestant, figures)
            as_many = -(-utterances // int(figures["batches"]))
            if as_many != arguments.batch_size:
                add(utterances, f"{as_many}", "ours", measure_row("ours", folder, {"batch_size": as_many}))
    report("bucketing", Table(COMMAND, COLUMNS, rows))


if __name__ == "__main__":
    main()
