"""Filter banks of audio that is already on a GPU: int16 in, float32 out, as times real time and share of bandwidth.

    python benchmarks/resident.py [--device cuda] [--seconds 12 600] [--batch 64] [--rounds 5] [--compile]

For each length, the contestants take turns in one process, and the best round of each contestant counts, timed by the
device's own events. Prints a line of JSON for each batch. The audio, a batch of equally long utterances, is the same
for all; torchaudio and lhotse get it as floats, and the conversion is not timed. The bandwidth is the speed of a copy
of 1 GiB, with bytes read and written counted; a contestant's share is the time that this bandwidth needs for its
samples and features. On a CPU everything except the fused kernels runs.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings

import torch
from measuring import Work
from torch import Tensor
from torch_batches import BINS, RATE, compute_lhotse_fbank, compute_torchaudio_fbank

from kaldi_compat import Fbank
from kaldi_compat.torch import kernels

# Number of calls between two events of the device, and the time that they may take: launching must not be timed, and
# slow contestants need only one call.
MAX_CALLS, MAX_ROUND_SECONDS = 20, 0.5
KERNELS, TORCH = "kaldi_compat, kernels", "kaldi_compat, torch operations"


def compute(feature: Fbank, audio: Tensor, switch: str) -> object:
    """Compute with the kernels switched on, "1", or off, "0"."""
    before = os.environ.get(kernels.SWITCH)
    os.environ[kernels.SWITCH] = switch
    try:
        return feature(audio)
    finally:
        os.environ.pop(kernels.SWITCH)
        if before is not None:
            os.environ[kernels.SWITCH] = before


def make_our_contestants(audio: Tensor, *, compiled: bool) -> dict[str, Work]:
    """Return our filter bank with and without kernels, in a captured graph, and by torch.compile."""
    feature = Fbank(num_mel_bins=BINS, dither=0.0).to(audio.device)
    contestants: dict[str, Work] = {TORCH: lambda: compute(feature, audio, "0")}
    if compiled:
        by_compiler = torch.compile(feature, fullgraph=True)
        contestants["kaldi_compat, torch.compile"] = lambda: by_compiler(audio)
    if audio.is_cuda and not kernels.explain_unsupported(feature, audio, None):
        contestants[KERNELS] = lambda: compute(feature, audio, "1")
        contestants["kaldi_compat, kernels in a graph"] = capture_graph(feature, audio)
    return contestants


def capture_graph(feature: Fbank, audio: Tensor) -> Work:
    """Capture a CUDA graph of the features, and return its replay."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        feature(audio)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        feature(audio)
    return graph.replay


def measure_seconds(work: Work, on_gpu: bool, calls: int = MAX_CALLS) -> float:
    """Return the time of one call: processor time, or on a GPU the mean of several calls by the device's clock."""
    if not on_gpu:
        start = time.process_time()
        work()
        return time.process_time() - start
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(calls):
        work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1000 / calls


def measure_best_times(contestants: dict[str, Work], rounds: int, on_gpu: bool) -> dict[str, float]:
    """Return the least seconds per call of each contestant, measured in turns.

    A first call compiles, and a second call determines the number of calls of a round.
    """
    calls = {}
    for name, work in contestants.items():
        work()
        seconds = measure_seconds(work, on_gpu, 1)
        calls[name] = max(1, min(MAX_CALLS, int(MAX_ROUND_SECONDS / max(seconds, 1e-9))))
    taken = [
        {name: measure_seconds(work, on_gpu, calls[name]) for name, work in contestants.items()} for _ in range(rounds)
    ]
    return {name: min(times[name] for times in taken) for name in contestants}


def copy_of(size: int, device: str) -> Work:
    """Return a function that copies ``size`` bytes on a device."""
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seconds", type=float, nargs="+", default=[12.0, 600.0], help="lengths of an utterance")
    parser.add_argument("--batch", type=int, default=64, help="utterances")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--compile", action="store_true", help="also time torch.compile, which takes a minute to start")
    parser.add_argument("--copied", type=int, default=1 << 30, help="bytes copied to measure the bandwidth")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    on_gpu = options.device.startswith("cuda")
    card = torch.cuda.get_device_name(options.device) if on_gpu else options.device
    with torch.inference_mode():
        copied = measure_best_times({"copy": copy_of(options.copied, options.device)}, options.rounds, on_gpu)["copy"]
        bandwidth = 2 * options.copied / copied
        for seconds in options.seconds:
            generator = torch.Generator(options.device).manual_seed(0)
            size = options.batch, int(seconds * RATE)
            audio = torch.randint(
                -9999, 9999, size, dtype=torch.int16, generator=generator, device=options.device
            )  # fmt: skip
            samples = audio.float()
            peers = {
                "lhotse, batch": compute_lhotse_fbank(samples),
                "torchaudio, one by one": compute_torchaudio_fbank(samples),
            }
            contestants = make_our_contestants(audio, compiled=options.compile)
            contestants |= {name: work for name, work in peers.items() if work}
            times = measure_best_times(contestants, options.rounds, on_gpu)
            features = contestants[TORCH]()
            assert isinstance(features, Tensor)
            moved = audio.nbytes + features.nbytes
            figures = {
                "resident": f"{options.batch} x {seconds:g} s, {BINS} bins",
                "card": card,
                "bandwidth": f"{bandwidth / 1e9:,.0f} GB/s",
                "times_real_time": {name: round(options.batch * seconds / taken) for name, taken in times.items()},
                "bandwidth_percent": {
                    name: round(100 * moved / taken / bandwidth, 2) for name, taken in times.items()
                },
            }  # fmt: skip
            if KERNELS in times:
                figures["resident_ratio"] = round(times[TORCH] / times[KERNELS], 2)
            print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
