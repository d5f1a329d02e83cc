"""Filter banks of audio that is already on a GPU: int16 in, float32 out, as times real time and share of bandwidth.

    python benchmarks/resident.py [--device cuda] [--seconds 600] [--batch 8] [--rounds 20]

The contestants take turns, and the best round of each counts, timed by the device's events. The audio is a batch of
equally long utterances, the same for all. The conversion to floats for torchaudio and lhotse is not timed. The
bandwidth is measured with a copy of 1 GiB, counted as read and written. A contestant's share of it counts its samples
as read and its features as written. On a CPU, all contestants except the fused kernels run.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings

import torch
from measuring import Work
from torch import Tensor
from torch_batches import BINS, RATE, lhotse_fbank, torchaudio_fbank

from kaldi_compat import Fbank
from kaldi_compat.torch import kernels

CALLS = 20


def computed(feature: Fbank, audio: Tensor, switch: str) -> object:
    """Compute with the kernels switched on, "1", or off, "0"."""
    before = os.environ.get(kernels.SWITCH)
    os.environ[kernels.SWITCH] = switch
    try:
        return feature(audio)
    finally:
        os.environ.pop(kernels.SWITCH)
        if before is not None:
            os.environ[kernels.SWITCH] = before


def ours(audio: Tensor) -> dict[str, Work]:
    """Our filter bank with kernels, without, compiled, and with kernels in a captured graph."""
    feature = Fbank(num_mel_bins=BINS, dither=0.0).to(audio.device)
    contestants: dict[str, Work] = {"kaldi_compat, plain": lambda: computed(feature, audio, "0")}
    compiled = torch.compile(feature, fullgraph=True)
    contestants["kaldi_compat, torch.compile"] = lambda: compiled(audio)
    if audio.is_cuda and not kernels.why_unsupported(feature, audio, None):
        contestants["kaldi_compat, kernels"] = lambda: computed(feature, audio, "1")
        contestants["kaldi_compat, kernels in a graph"] = captured(feature, audio)
    return contestants


def captured(feature: Fbank, audio: Tensor) -> Work:
    """A CUDA graph of the features."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        feature(audio)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        feature(audio)
    return graph.replay


def seconds_taken(work: Work, on_gpu: bool) -> float:
    """Return the time of one call. On a GPU, several calls are timed by the device, so that launches do not count."""
    if not on_gpu:
        start = time.process_time()
        work()
        return time.process_time() - start
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(CALLS):
        work()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1000 / CALLS


def best_times(contestants: dict[str, Work], rounds: int, on_gpu: bool) -> dict[str, float]:
    """Return the best time of each contestant, after a round that does not count."""
    for work in contestants.values():
        work()
    rounds_of_times = [{name: seconds_taken(work, on_gpu) for name, work in contestants.items()} for _ in range(rounds)]
    return {name: min(times[name] for times in rounds_of_times) for name in contestants}


def copy_of(size: int, device: str) -> Work:
    """Return a copy of this many bytes, as work."""
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seconds", type=float, default=600.0, help="length of an utterance")
    parser.add_argument("--batch", type=int, default=8, help="utterances")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--copied", type=int, default=1 << 30, help="bytes copied to measure the bandwidth")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    on_gpu = options.device.startswith("cuda")
    generator = torch.Generator().manual_seed(0)
    shape = (options.batch, int(options.seconds * RATE))
    audio = torch.randint(-9999, 9999, shape, dtype=torch.int16, generator=generator).to(options.device)

    with torch.inference_mode():
        samples = audio.float()
        peers = {"lhotse, batch": lhotse_fbank(samples), "torchaudio, one by one": torchaudio_fbank(samples)}
        contestants = ours(audio) | {name: work for name, work in peers.items() if work}
        times = best_times(contestants, options.rounds, on_gpu)
        copied = best_times({"copy": copy_of(options.copied, options.device)}, options.rounds, on_gpu)["copy"]
        features = contestants["kaldi_compat, plain"]()
    assert isinstance(features, Tensor)
    bandwidth = 2 * options.copied / copied
    moved = audio.nbytes + features.nbytes
    there = torch.cuda.get_device_name(options.device) if on_gpu else options.device
    print(f"fbank, {BINS} bins: {options.batch} utterances of {options.seconds:g} s")
    print(f"{there}, {bandwidth / 1e9:,.0f} GB/s")
    for name, seconds in times.items():
        speed = options.batch * options.seconds / seconds
        print(f"  {name:34} {speed:12,.0f} times real time {100 * moved / seconds / bandwidth:6.2f}% of the bandwidth")


if __name__ == "__main__":
    main()
