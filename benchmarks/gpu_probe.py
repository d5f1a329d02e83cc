"""Probe of the kernels on a GPU: which are trusted, whether submitting waits, and the times of each stage.

    python benchmarks/gpu_probe.py [--jobs N | --first | --small | --overlap | --stages | --odd]

Prints a line of JSON for each measurement. Without an option: each feature, FFT size and type of samples, with the
largest difference from torch's operations, in --jobs processes, which compile side by side. --first compares a filter
bank with the exact engine, and times it in a CUDA graph. --small compares one ragged batch, for compute-sanitizer.
--overlap submits 200 batches without waiting, with synchronisation forbidden, of tensors and of a dump, and compares
them with the same batches one by one. --stages times copies, features and compression. --odd computes NaN, lengths
beyond the row, and features with deterministic algorithms.
With TRITON_INTERPRET=1 all of it runs on the CPU, the kernels in Triton's interpreter, and with less data, to see that
the probe itself works; its times then mean nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from resident import captured, seconds_taken

from io_ark import Wave
from io_ark.codecs.compressed import CompressionMethod
from kaldi_compat import Fbank, KaldiRandom, Mfcc, Plp, Spectrogram
from kaldi_compat.dump import packed_batch
from kaldi_compat.dump.entries import Audio
from kaldi_compat.dump.options import DumpOptions, Job, Layout
from kaldi_compat.dump.plan import make_plan
from kaldi_compat.dump.spectral_gpu import PackedComputer
from kaldi_compat.torch import kernels
from kaldi_compat.torch.features.engines import engine_for

IN_INTERPRETER = os.environ.get("TRITON_INTERPRET") == "1"
KINDS = (Fbank, Mfcc, Plp, Spectrogram)
DEVICE = "cpu" if IN_INTERPRETER else "cuda"
SECONDS = 1 if IN_INTERPRETER else 600  # of audio whose stages are timed
BATCHES = 3 if IN_INTERPRETER else 200
ROUNDS = 1 if IN_INTERPRETER else 12
if IN_INTERPRETER:
    kernels.DEVICE_TYPE = "cpu"
    packed_batch.ROW_MULTIPLE_FRAMES = 8


def say(**values: Any) -> None:
    """Print a measurement."""
    print(json.dumps(values), flush=True)


def audio(rows: int, samples: int, dtype: torch.dtype = torch.int16) -> torch.Tensor:
    """Return noise on the device."""
    noise = torch.randint(-9999, 9999, (rows, samples), generator=torch.Generator().manual_seed(rows))
    return noise.to(dtype).to(DEVICE)


def first() -> None:
    """Compare 80 mel bins of 60 s of audio with the exact engine, and time them without Python's part of a launch."""
    module, exact = Fbank(num_mel_bins=80, dither=0.0).to(DEVICE), Fbank(num_mel_bins=80, dither=0.0, engine="exact")
    x = audio(1, 16000 * (1 if IN_INTERPRETER else 60))
    begun = time.perf_counter()
    difference = (module(x).cpu() - exact(x.cpu())).abs()
    say(first_call_s=round(time.perf_counter() - begun, 2), engine=engine_for(module, x, None),
        largest=float(difference.max()), mean=float(difference.mean()))  # fmt: skip
    x = audio(1 if IN_INTERPRETER else 64, 16000 * SECONDS)
    seconds = seconds_of((lambda: module(x)) if IN_INTERPRETER else captured(module, x))
    say(seconds_of_audio=x.numel() / 16000, seconds=seconds, times_real_time=round(x.numel() / 16000 / seconds))


CASES = list(itertools.product((16000.0, 8000.0, 32000.0, 4000.0), KINDS, (torch.int16, torch.float32), (0.0, 1.0)))


def trusted(cases: Sequence[Any], samples: int = 40000) -> None:
    """Compare the kernels with torch's operations."""
    for rate, kind, dtype, dither in cases:
        module = kind(sample_frequency=rate, dither=dither, snip_edges=False).to(DEVICE)
        x = audio(3, samples, dtype)
        lengths = torch.tensor([x.shape[1], x.shape[1] // 2, 300]).to(DEVICE)
        start = time.perf_counter()
        engine = engine_for(module, x, lengths, generator=KaldiRandom())
        found, _ = module(x, lengths, generator=KaldiRandom())
        seconds = time.perf_counter() - start
        plain = type(module)(module.options, engine="torch").to(DEVICE)
        expected, _ = plain(x, lengths, generator=KaldiRandom())
        say(
            feature=kind.__name__, rate=rate, dtype=str(dtype), dither=dither, engine=engine,
            seconds=round(seconds, 2), largest=float((found - expected).abs().max()),
        )  # fmt: skip
    say(faults=kernels.faults())


def trusted_compression() -> None:
    """Compare the kernels that compress with the codec."""
    from kaldi_compat.torch.kernels.compression import fault_of_compression

    say(compression=fault_of_compression(torch.device(DEVICE)) or "trusted")


def in_processes(jobs: int) -> int:
    """Compare the kernels in several processes, and return how many of these failed."""
    line = [sys.executable, __file__, f"--jobs={jobs}", "--part"]
    return sum(each.wait() != 0 for each in [subprocess.Popen([*line, str(part)]) for part in range(jobs)])


def overlap() -> None:
    """Submit without waiting: batches of tensors, and of a dump."""
    plain, dithered = (Fbank(num_mel_bins=80, dither=dither).to(DEVICE) for dither in (0.0, 1.0))
    batches = [audio(4, (1000 if IN_INTERPRETER else 16000) + 160 * i) for i in range(BATCHES)]
    ways: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "undithered": plain,
        "Kaldi's noise": lambda x: dithered(x, [len(x[0]) - 99 * i for i in range(4)], generator=KaldiRandom())[0],
        "VTLN": lambda x: plain(x, vtln_warp=[0.9 + (len(x[0]) // 160 % 50 + i) / 500 for i in range(4)]),
    }
    for name, features in ways.items():
        features(batches[0])
        with synchronization_forbidden():
            together = [features(x) for x in batches]
        serial = [features(x).cpu() for x in batches]
        equal = all(torch.equal(a, b.cpu()) for a, b in zip(serial, together, strict=True))
        say(overlapped=name, equals_serial=equal)
    with tempfile.TemporaryDirectory() as folder:
        say(overlapped="dump, compressed", equals_serial=overlapped_dump(Path(folder)))


def overlapped_dump(folder: Path) -> bool:
    """Submit batches of a dump without waiting: dithered, warped, less their means, compressed and summed up."""
    data, conf = folder / "data", folder / "fbank.conf"
    data.mkdir()
    keys = [f"utt{i:04d}" for i in range(4 * BATCHES)]
    (data / "wav.scp").write_text("".join(f"{key} {key}.wav\n" for key in keys))
    (data / "utt2warp").write_text("".join(f"{key} {0.9 + i % 100 / 500}\n" for i, key in enumerate(keys)))
    conf.write_text("--num-mel-bins=80\n--subtract-mean=true\n")
    job = Job(Layout.of(data, "fbank"), DumpOptions(conf=str(conf), cmvn="global"))
    computer = PackedComputer(job, make_plan(job), DEVICE)
    rng = np.random.default_rng(0)
    most = 1500 if IN_INTERPRETER else 99999
    waves = [Wave(16000.0, rng.integers(-9999, 9999, (1, rng.integers(400, most))).astype(np.int16)) for _ in keys]
    utterances = [Audio.of(i, key, wave) for i, (key, wave) in enumerate(zip(keys, waves, strict=True))]
    batches = [utterances[first : first + 4] for first in range(0, len(keys), 4)]
    computer.submit(batches[0])()
    with synchronization_forbidden():
        pending = [computer.submit(batch) for batch in batches]
    together = [content(each) for results in pending for each in results()]
    return together == [content(each) for batch in batches for each in computer.submit(batch)()]


def content(result: Any) -> tuple[object, ...]:
    """Return what is compared of an utterance's features and statistics."""
    block = result.block
    return (
        result.index,
        block.keys,
        (block.data if hasattr(block, "data") else block.values).tobytes(),
        result.statistics.tobytes(),
    )


@contextlib.contextmanager
def synchronization_forbidden() -> Iterator[None]:
    """Let whatever waits for the GPU within this block raise an error."""
    if IN_INTERPRETER:
        yield
        return
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def odd() -> None:
    """Compute what is unusual, each against torch's operations."""
    module = Fbank(num_mel_bins=23, dither=0.0, snip_edges=False).to(DEVICE)
    plain = Fbank(num_mel_bins=23, dither=0.0, snip_edges=False, engine="torch").to(DEVICE)
    x = audio(3, 3000, torch.float32)
    lengths = torch.tensor([3000, 1 << 20, -5]).to(DEVICE)  # the second beyond the row, the third below it
    features, counts = kernels.features(module, x, lengths, 1.0)
    say(bad_lengths=counts.tolist(), finite=bool(features.isfinite().all()))
    x[1, 1500] = float("nan")
    say(nan_is_kept=bool(torch.equal(module(x).isnan(), plain(x).isnan())), nan=int(module(x).isnan().sum()))
    usual = module(audio(2, 3000))
    torch.use_deterministic_algorithms(True)
    try:
        say(deterministic=all(torch.equal(module(audio(2, 3000)), usual) for _ in range(3)))
    finally:
        torch.use_deterministic_algorithms(False)


def difference(x: torch.Tensor) -> float:
    """Return the largest difference of the features from those of torch's operations."""
    found = Fbank(num_mel_bins=80, dither=0.0).to(DEVICE)(x)
    return float((found - Fbank(num_mel_bins=80, dither=0.0, engine="torch").to(DEVICE)(x)).abs().max())


def seconds_of(work: Callable[[], object]) -> float:
    """Return the least seconds of some rounds, by the device's clock if it is a GPU."""
    return min(seconds_taken(work, not IN_INTERPRETER) for _ in range(ROUNDS))


def stages() -> None:
    """Time each stage on 600 s of audio, its features compressed in matrices of 12 s."""
    from kaldi_compat.torch.kernels.compression import compress_rows

    x = audio(1, SECONDS * 16000)[0]
    host = x.cpu() if IN_INTERPRETER else x.cpu().pin_memory()
    say(stage="copy to the device", seconds=seconds_of(lambda: host.to(DEVICE, non_blocking=True)))
    for name, dither in (("undithered", 0.0), ("dithered", 1.0)):
        module = Fbank(num_mel_bins=80, dither=dither).to(DEVICE)
        say(
            stage=f"features, {name}", trusted=not kernels.why_unsupported(module, x, None),
            seconds=seconds_of(lambda module=module: module(x)),
        )  # fmt: skip
    features = Fbank(num_mel_bins=80, dither=0.0).to(DEVICE)(x)
    say(difference=difference(x))
    frames = min(1200, len(features))
    places = np.array([(frames * i, frames - 2) for i in range(len(features) // frames)])
    for method in CompressionMethod:
        say(stage=f"compression {method}", seconds=seconds_of(lambda m=method: compress_rows(features, places, m)))
    say(stage="copy to the host", seconds=seconds_of(lambda: features.to("cpu", non_blocking=True)))


def main() -> None:
    """Probe and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("first", "small", "overlap", "stages", "odd"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--jobs", type=int, default=1, help="processes that compare the kernels")
    parser.add_argument("--part", type=int, default=-1, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if not IN_INTERPRETER and not torch.cuda.is_available():
        sys.exit("PyTorch sees no GPU here")
    for name in ("first", "overlap", "stages", "odd"):
        if getattr(chosen, name):
            globals()[name]()
            return
    if chosen.jobs > 1 and chosen.part < 0:
        sys.exit(in_processes(chosen.jobs))
    if chosen.small:
        trusted([case for case in CASES if case[:2] == (16000.0, Fbank)], 4000)
    else:
        trusted(CASES[max(chosen.part, 0) :: chosen.jobs])
    if chosen.part <= 0:
        trusted_compression()


if __name__ == "__main__":
    main()
