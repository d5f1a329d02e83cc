"""Compare the kernels with other engines on a GPU, and time their stages.

    python benchmarks/gpu_probe.py first       a filter bank against the exact engine, and its speed in a CUDA graph
    python benchmarks/gpu_probe.py variants    all variants of 512 points, and compression (--jobs: processes)
    python benchmarks/gpu_probe.py small       the variants of one feature, short enough for compute-sanitizer
    python benchmarks/gpu_probe.py overlap     200 batches without waiting, with synchronization forbidden
    python benchmarks/gpu_probe.py odd         NaN, lengths beyond the row, deterministic algorithms
    python benchmarks/gpu_probe.py stages      the times of copies, features and compression

Prints a line of JSON for each measurement, and ends with status 1 if a comparison fails. With TRITON_INTERPRET=1, the
kernels run in Triton's interpreter on the CPU with little data. This tests the probe itself; the times are useless.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from resident import capture_graph, measure_seconds

from io_ark import Wave
from io_ark.codecs import codec
from io_ark.codecs.compressed import CompressionMethod
from kaldi_compat import Fbank, KaldiRandom, Mfcc, Plp, Spectrogram, native
from kaldi_compat.dump import packed_batch
from kaldi_compat.dump.entries import Audio
from kaldi_compat.dump.options import DumpOptions, Job, Layout
from kaldi_compat.dump.plan import make_plan
from kaldi_compat.dump.spectral_gpu import PackedComputer
from kaldi_compat.torch import kernels
from kaldi_compat.torch.features.engines import choose_engine

IN_INTERPRETER = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if IN_INTERPRETER else "cuda"
RATE = 16000
# The interpreter takes 0.1 s for a frame.
BATCHES, ROWS = (1, 2) if IN_INTERPRETER else (200, 4)
ROUNDS = 1 if IN_INTERPRETER else 12
# Largest difference in log energy between the kernels and the exact engine, for noise of a constant level.
MAX_DIFFERENCE = 0.01
if IN_INTERPRETER:
    kernels.DEVICE_TYPE = "cpu"
    packed_batch.ROW_MULTIPLE_FRAMES = 8


def report(**values: Any) -> None:
    """Print a measurement."""
    print(json.dumps(values), flush=True)


def make_audio(rows: int, samples: int, dtype: torch.dtype = torch.int16) -> torch.Tensor:
    """Return noise on the device."""
    generator = torch.Generator(DEVICE).manual_seed(rows)
    return torch.randint(-9999, 9999, (rows, samples), generator=generator, dtype=torch.int16, device=DEVICE).to(dtype)


def probe_first() -> bool:
    """Compare 80 mel bins with the exact engine, and time them without Python's part of a launch."""
    module, exact = Fbank(num_mel_bins=80, dither=0.0).to(DEVICE), Fbank(num_mel_bins=80, dither=0.0, engine="exact")
    x = make_audio(1, 560 if IN_INTERPRETER else 60 * RATE)
    start = time.perf_counter()
    features = module(x).cpu()
    seconds = time.perf_counter() - start
    largest = float((features - exact(x.cpu())).abs().max())
    engine = choose_engine(module, x, None)
    report(libraries=[bool(native.library()), native.library().reason], engine=engine, first_call_s=round(seconds, 2),
           largest_difference=largest)  # fmt: skip
    if not IN_INTERPRETER:
        x = make_audio(64, 60 * RATE)
        taken = measure_best_seconds(capture_graph(module, x))
        report(batch="64 x 60 s in a graph", seconds=taken, times_real_time=round(x.numel() / RATE / taken))
    return engine == "triton" and largest < MAX_DIFFERENCE


class Case(NamedTuple):
    """A variant of the kernel for a feature of 16 kHz audio."""

    kind: Any
    dtype: torch.dtype
    noise: str  # Generator of the dithering: "kaldi", "torch", or "" for no dithering.
    snip_edges: bool  # False if the audio is reflected at both ends of each row.
    warped: bool = False  # True if each row has a separate VTLN factor.

    @property
    def name(self) -> str:
        """Name for the log."""
        edges = "snipped" if self.snip_edges else "ragged"
        words = [self.kind.__name__, str(self.dtype)[6:], self.noise and f"{self.noise} noise", edges]
        return ", ".join(word for word in [*words, self.warped and "VTLN"] if word)

    def compute(self, engine: str, samples: int) -> torch.Tensor:
        """Return features of three rows."""
        dither = 1.0 if self.noise else 0.0
        module = self.kind(sample_frequency=RATE, dither=dither, snip_edges=self.snip_edges, engine=engine).to(DEVICE)
        x = make_audio(3, samples, self.dtype)
        lengths = None if self.snip_edges else torch.tensor([samples, samples // 2, 300]).to(DEVICE)
        generator = torch.Generator().manual_seed(0) if self.noise == "torch" else KaldiRandom()
        warps = [0.9, 1.0, 1.1] if self.warped else 1.0
        features = module(x, lengths, vtln_warp=warps, generator=generator)
        computed: torch.Tensor = features if lengths is None else features[0]
        return computed


CASES = [
    *itertools.starmap(
        Case,
        itertools.product(
            (Fbank, Mfcc, Plp, Spectrogram), (torch.int16, torch.float32), ("", "kaldi", "torch"), (True, False)
        ),
    ),
    *(Case(kind, torch.int16, noise, True, True) for kind in (Fbank, Mfcc, Plp) for noise in ("", "kaldi")),
]
SMALL_CASES = [case for case in CASES if case.kind is Fbank and case.dtype is torch.int16 and not case.snip_edges]


def compare_cases(cases: Sequence[Case], samples: int) -> bool:
    """Compare the kernels with PyTorch operations. The noise of torch's generator only has to be finite."""
    agreements = []
    for case in cases:
        start = time.perf_counter()
        try:
            features = case.compute("triton", samples)
            seconds = time.perf_counter() - start
            expected = features if case.noise == "torch" else case.compute("torch", samples)
        except (RuntimeError, ValueError) as error:
            agreements.append(False)
            report(variant=case.name, error=str(error)[:500])
            continue
        difference = (features - expected).abs() / (1 + expected.abs())
        largest, mean = float(difference.max()), float(difference.mean())
        agreements.append(largest < kernels.MAX_ERROR and mean < kernels.MAX_MEAN_ERROR)
        report(variant=case.name, agrees=agreements[-1], seconds=round(seconds, 2), largest=largest)
    return all(agreements)


def compare_compression() -> bool:
    """Compare compressed matrices of 80 columns with the bytes of the codec."""
    from kaldi_compat.torch.kernels.compression import compress_rows, find_compression_fault

    if fault := find_compression_fault(torch.device(DEVICE)):
        report(compression=fault)
        return False
    rng, counts = np.random.default_rng(0), [5, 20] if IN_INTERPRETER else [5, 1200, 3000]
    values = rng.normal(10, 5, (sum(counts), 80)).astype(np.float32)
    firsts = np.cumsum([0, *counts[:-1]])
    features = torch.from_numpy(values).to(DEVICE)
    agrees = True
    for method in [CompressionMethod.AUTO] if IN_INTERPRETER else CompressionMethod:
        for parts in compress_rows(features, np.stack((firsts, counts), 1), method):
            objects = parts.cut_objects([tensor.cpu().numpy() for tensor in parts.tensors])
            for number, head, codes in zip(parts.members.tolist(), *objects, strict=True):
                sink, first = io.BytesIO(), firsts[number]
                matrix = values[first : first + counts[number]]
                codec("compressed-matrix", method=method).write(sink, matrix, binary=True)
                agrees &= head is not None and head + codes == sink.getvalue()
    report(compression="the bytes of the codec" if agrees else "differs from the codec")
    return agrees


def probe_variants() -> bool:
    """Compare all variants."""
    return compare_cases(CASES, 40000) & compare_compression()


def probe_small() -> bool:
    """Compare the variants of one feature."""
    samples = 480 if IN_INTERPRETER else 4000
    return compare_cases(SMALL_CASES[1:2] if IN_INTERPRETER else SMALL_CASES, samples) & compare_compression()


def compare_in_processes(jobs: int) -> bool:
    """Compare the variants in several processes, so that they are compiled in parallel."""
    line = [sys.executable, __file__, "variants", f"--jobs={jobs}", "--part"]
    processes = [subprocess.Popen([*line, str(part)]) for part in range(jobs)]
    return sum(process.wait() != 0 for process in processes) == 0


def probe_overlap() -> bool:
    """Submit batches of tensors and of a dump without waiting, and compare them with batches computed alone."""
    plain, dithered = (Fbank(num_mel_bins=80, dither=dither).to(DEVICE) for dither in (0.0, 1.0))
    batches = [make_audio(ROWS, (560 if IN_INTERPRETER else RATE) + 160 * i) for i in range(BATCHES)]
    ways: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "undithered": plain,
        "Kaldi's noise": lambda x: dithered(x, [len(x[0]) - 99 * i for i in range(ROWS)], generator=KaldiRandom())[0],
        "VTLN": lambda x: plain(x, vtln_warp=[0.9 + (len(x[0]) // 160 % 50 + i) / 500 for i in range(ROWS)]),
    }
    agrees = True
    for name, features in list(ways.items())[: 0 if IN_INTERPRETER else None]:
        features(batches[0])
        with synchronization_forbidden():
            together = [features(x) for x in batches]
        serial = [features(x).cpu() for x in batches]
        equal = all(torch.equal(a, b.cpu()) for a, b in zip(serial, together, strict=True))
        report(overlapped=name, equals_serial=equal)
        agrees &= equal
    with tempfile.TemporaryDirectory() as folder:
        equal = check_overlapped_dump(Path(folder))
    report(overlapped="dump, compressed", equals_serial=equal)
    return agrees & equal


def check_overlapped_dump(folder: Path) -> bool:
    """Submit batches of a dump with noise, VTLN, mean subtraction, compression and statistics without waiting."""
    data, conf = folder / "data", folder / "fbank.conf"
    data.mkdir()
    keys = [f"utt{i:04d}" for i in range(ROWS * BATCHES)]
    (data / "wav.scp").write_text("".join(f"{key} {key}.wav\n" for key in keys))
    (data / "utt2warp").write_text("".join(f"{key} {0.9 + i % 100 / 500}\n" for i, key in enumerate(keys)))
    conf.write_text("--num-mel-bins=80\n--subtract-mean=true\n")
    job = Job(Layout.from_paths(data, "fbank"), DumpOptions(conf=str(conf), cmvn="global"))
    computer = PackedComputer(job, make_plan(job), DEVICE)
    rng = np.random.default_rng(0)
    end = 600 if IN_INTERPRETER else 99999
    waves = [Wave(16000.0, rng.integers(-9999, 9999, (1, rng.integers(400, end))).astype(np.int16)) for _ in keys]
    utterances = [Audio.from_wave(i, key, wave) for i, (key, wave) in enumerate(zip(keys, waves, strict=True))]
    batches = [utterances[first : first + ROWS] for first in range(0, len(keys), ROWS)]
    computer.submit(batches[0])()
    with synchronization_forbidden():
        pending = [computer.submit(batch) for batch in batches]
    together = [get_content(result) for results in pending for result in results()]
    return together == [get_content(result) for batch in batches for result in computer.submit(batch)()]


def get_content(result: Any) -> tuple[object, ...]:
    """Return the compared parts of a result: its place, its keys and its numbers."""
    block = result.block
    return result.index, block.keys, (block.data if hasattr(block, "data") else block.values).tobytes()


@contextlib.contextmanager
def synchronization_forbidden() -> Iterator[None]:
    """Raise an error for every call within this block that waits for the GPU."""
    if IN_INTERPRETER:
        yield
        return
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def probe_odd() -> bool:
    """Compare unusual input with PyTorch operations."""
    samples = 480 if IN_INTERPRETER else 3000
    module = Fbank(num_mel_bins=23, dither=0.0, snip_edges=False).to(DEVICE)
    plain = Fbank(num_mel_bins=23, dither=0.0, snip_edges=False, engine="torch").to(DEVICE)
    x = make_audio(3, samples, torch.float32)
    lengths = torch.tensor([samples, 1 << 20, -5]).to(DEVICE)  # The second length is beyond the row, the third below 0.
    features, counts = kernels.compute_features(module, x, lengths, 1.0)
    finite = bool(features.isfinite().all())
    x[1, samples // 2] = float("nan")
    same_nan = bool(torch.equal(module(x).isnan(), plain(x).isnan()))
    usual = module(make_audio(2, samples))
    torch.use_deterministic_algorithms(True)
    try:
        repeats = all(torch.equal(module(make_audio(2, samples)), usual) for _ in range(1 if IN_INTERPRETER else 3))
    finally:
        torch.use_deterministic_algorithms(False)
    report(lengths_beyond_the_row=counts.tolist(), finite=finite, nan_as_by_torch=same_nan, deterministic=repeats)
    return finite & same_nan & repeats


def measure_best_seconds(work: Callable[[], object]) -> float:
    """Return the least seconds of several rounds, by the device's clock if it is a GPU."""
    return min(measure_seconds(work, not IN_INTERPRETER) for _ in range(ROUNDS))


def probe_stages() -> bool:
    """Time the stages of 600 s of audio, with the features compressed in matrices of 12 s."""
    from kaldi_compat.torch.kernels.compression import compress_rows

    x = make_audio(1, 880 if IN_INTERPRETER else 600 * RATE)[0]
    host = x.cpu() if IN_INTERPRETER else x.cpu().pin_memory()
    report(stage="copy to the device", seconds=measure_best_seconds(lambda: host.to(DEVICE, non_blocking=True)))
    for name, dither in (("undithered", 0.0), ("dithered", 1.0)):
        module = Fbank(num_mel_bins=80, dither=dither).to(DEVICE)
        report(stage=f"features, {name}", seconds=measure_best_seconds(lambda module=module: module(x)))
    features = Fbank(num_mel_bins=80, dither=0.0).to(DEVICE)(x)
    frames = min(1200, len(features))
    places = np.array([(frames * i, frames - 2) for i in range(len(features) // frames)])
    for method in [CompressionMethod.AUTO] if IN_INTERPRETER else CompressionMethod:
        seconds = measure_best_seconds(lambda method=method: compress_rows(features, places, method))
        report(stage=f"compression {method}", seconds=seconds)
    report(stage="copy to the host", seconds=measure_best_seconds(lambda: features.to("cpu", non_blocking=True)))
    return True


PROBES = {
    "first": probe_first,
    "variants": probe_variants,
    "small": probe_small,
    "overlap": probe_overlap,
    "odd": probe_odd,
    "stages": probe_stages,
}


def main() -> None:
    """Run a probe."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("probe", choices=PROBES)
    parser.add_argument("--jobs", type=int, default=1, help="processes that compare the variants")
    parser.add_argument("--part", type=int, default=-1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not IN_INTERPRETER and not torch.cuda.is_available():
        sys.exit("PyTorch finds no GPU here: run the probe on a machine with a GPU, or in Triton's interpreter")
    if options.part >= 0:
        agrees = compare_cases(CASES[options.part :: options.jobs], 40000)
        agrees &= options.part > 0 or compare_compression()
    elif options.probe == "variants" and options.jobs > 1:
        agrees = compare_in_processes(options.jobs)
    else:
        agrees = PROBES[options.probe]()
    sys.exit(not agrees)


if __name__ == "__main__":
    main()
