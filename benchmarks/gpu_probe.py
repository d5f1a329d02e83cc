"""Probe of the kernels on a GPU: which are trusted, whether submitting waits, and the times of each stage.

    python benchmarks/gpu_probe.py [--small | --overlap | --stages]

Prints a line of JSON for each measurement. Without an option: each feature, FFT size and type of samples, with the
largest difference from torch's operations. --small does that for one ragged batch, for compute-sanitizer. --overlap
submits 200 batches without waiting, with synchronisation forbidden, and compares them with the same batches one by one.
--stages times packing, copies, features and compression.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from io_ark.codecs.compressed import CompressionMethod
from kaldi_compat import Fbank, KaldiRandom, Mfcc, Plp, Spectrogram, kernels
from kaldi_compat.features.engines import engine_for

KINDS = (Fbank, Mfcc, Plp, Spectrogram)


def say(**values: Any) -> None:
    """Print a measurement."""
    print(json.dumps(values), flush=True)


def audio(rows: int, samples: int, dtype: torch.dtype = torch.int16) -> torch.Tensor:
    """Return noise on the GPU."""
    noise = torch.randint(-9999, 9999, (rows, samples), generator=torch.Generator().manual_seed(rows))
    return noise.to(dtype).cuda()


def trusted(small: bool) -> None:
    """Compare the kernels with torch's operations."""
    for kind in KINDS[:1] if small else KINDS:
        for rate in (16000.0,) if small else (4000.0, 8000.0, 16000.0, 32000.0):
            for dtype in (torch.int16, torch.float32):
                for dither in (0.0, 1.0):
                    module = kind(sample_frequency=rate, dither=dither, snip_edges=False).cuda()
                    x = audio(3, 4000 if small else 40000, dtype)
                    lengths = torch.tensor([x.shape[1], x.shape[1] // 2, 300]).cuda()
                    start = time.perf_counter()
                    engine = engine_for(module, x, lengths)
                    found, _ = module(x, lengths, generator=KaldiRandom())
                    seconds = time.perf_counter() - start
                    plain = type(module)(module.options, engine="torch").cuda()
                    expected, _ = plain(x, lengths, generator=KaldiRandom())
                    say(
                        feature=kind.__name__, rate=rate, dtype=str(dtype), dither=dither, engine=engine,
                        seconds=round(seconds, 2), largest=float((found - expected).abs().max()),
                    )  # fmt: skip
    from kaldi_compat.kernels.compression import fault_of_compression

    say(compression=fault_of_compression(torch.device("cuda:0")) or "trusted", faults=kernels.faults())


def overlap() -> None:
    """Submit without waiting."""
    module = Fbank(num_mel_bins=80, dither=0.0).cuda()
    batches = [audio(4, 16000 + 160 * i) for i in range(200)]
    serial = [module(x).cpu() for x in batches]
    torch.cuda.set_sync_debug_mode("error")
    together = [module(x, vtln_warp=1.0) for x in batches]
    torch.cuda.set_sync_debug_mode("default")
    say(overlapped_equals_serial=all(torch.equal(a, b.cpu()) for a, b in zip(serial, together, strict=True)))


def stages() -> None:
    """Time each stage on 600 s of audio in utterances of 12 s."""
    from kaldi_compat.kernels.compression import compress_rows

    def seconds(work: Callable[[], object]) -> float:
        best = float("inf")
        for _ in range(12):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            work()
            end.record()
            end.synchronize()
            best = min(best, start.elapsed_time(end) / 1000)
        return best

    x = audio(1, 600 * 16000)[0]
    host = x.cpu().pin_memory()
    say(stage="copy to the device", seconds=seconds(lambda: host.to("cuda", non_blocking=True)))
    for name, dither in (("undithered", 0.0), ("dithered", 1.0)):
        module = Fbank(num_mel_bins=80, dither=dither).cuda()
        say(stage=f"features, {name}", seconds=seconds(lambda module=module: module(x)))
    features = Fbank(num_mel_bins=80, dither=0.0).cuda()(x)
    places = [(1200 * i, 1198) for i in range(len(features) // 1200)]
    for method in CompressionMethod:
        say(stage=f"compression {method}", seconds=seconds(lambda m=method: compress_rows(features, places, m)))
    say(stage="copy to the host", seconds=seconds(lambda: features.to("cpu", non_blocking=True)))


def main() -> None:
    """Probe and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("small", "overlap", "stages"):
        parser.add_argument(f"--{name}", action="store_true")
    chosen = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("PyTorch sees no GPU here")
    if chosen.overlap:
        overlap()
    elif chosen.stages:
        stages()
    else:
        trusted(chosen.small)


if __name__ == "__main__":
    main()
