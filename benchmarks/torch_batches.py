"""Features in memory: batches against torchaudio's and lhotse's layers, and the cost of streams.

    OMP_NUM_THREADS=1 python benchmarks/torch_batches.py [--device cuda] [--threads 1] [--seconds 5] [--record]

Prints times real time (seconds of audio per second) of 80-bin fbank without dithering, the best of several rounds in
which the contestants take turns, and for streams the microseconds that a second of audio takes. torchaudio and lhotse
are left out where they are not installed.
"""

from __future__ import annotations

import time
import warnings

import torch
from figures import Table, report
from measuring import Work, make_parser
from torch import Tensor

from kaldi_compat import Fbank
from kaldi_compat.options.spectral import Engine

RATE = 16000
BINS = 80
CONTESTANTS = ("exact engine in C", 'engine="torch"', "lhotse's layers", "torchaudio's compliance.kaldi")
SLOTS, CHUNKS = (1, 64), (0.01, 0.1, 0.5)
COMMAND = "OMP_NUM_THREADS=1 python benchmarks/torch_batches.py"


def compute_torchaudio_fbank(batch: Tensor) -> Work | None:
    """Return torchaudio's computation of one utterance at a time, because torchaudio does not take batches."""
    try:
        from torchaudio.compliance import kaldi
    except (ImportError, OSError):
        return None
    return lambda: [kaldi.fbank(x[None], num_mel_bins=BINS, dither=0.0) for x in batch]


def compute_lhotse_fbank(batch: Tensor, *, alone: bool = False) -> Work | None:
    """Return the computation by lhotse's layers, of the whole batch or, with ``alone``, of one utterance at a time."""
    try:
        from lhotse.features.kaldi.layers import Wav2LogFilterBank
    except ImportError:
        return None
    layer = Wav2LogFilterBank(num_filters=BINS, snip_edges=True).to(batch.device)
    return (lambda: [layer(x[None]) for x in batch]) if alone else lambda: layer(batch)


def compute_our_fbank(batch: Tensor, engine: Engine = "auto", *, alone: bool = False) -> Work:
    """Return our computation, of the whole batch or, with ``alone``, of one utterance at a time."""
    feature = Fbank(num_mel_bins=BINS, dither=0.0, engine=engine).to(batch.device)
    return (lambda: [feature(x) for x in batch]) if alone else lambda: feature(batch)


def streams(slots: int, chunk: float, device: str) -> Work:
    """Return a function that processes a second of audio in each stream, in chunks of ``chunk`` seconds."""
    stream = Fbank(num_mel_bins=BINS, dither=0.0).to(device).stream(slots)
    audio = torch.randn(slots, RATE, device=device) * 1000
    chunks = audio.split(int(chunk * RATE), 1)
    return lambda: [stream(part) for part in chunks]


def measure_best_times(contestants: dict[str, Work], seconds: float, device: str) -> dict[str, float]:
    """Return the shortest time of each contestant. They take turns, so that load on the machine affects all of them.

    On a CPU, the processor time of this process is measured, which excludes other processes.
    """
    clock = time.perf_counter if device.startswith("cuda") else time.process_time
    best = dict.fromkeys(contestants, float("inf"))
    for work in contestants.values():
        work()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name, work in contestants.items():
            start = clock()
            work()
            if device.startswith("cuda"):
                torch.cuda.synchronize()
            best[name] = min(best[name], clock() - start)
    return best


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5.0, help="measuring time for each table")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--utterance", type=float, default=10.0, help="seconds of audio in an utterance")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    batch = torch.randn(options.batch, int(options.utterance * RATE), device=options.device) * 1000
    audio = options.batch * options.utterance

    with torch.inference_mode():
        contestants = {
            "exact engine in C, batch": compute_our_fbank(batch),
            "exact engine in C, one by one": compute_our_fbank(batch, alone=True),
            'engine="torch", batch': compute_our_fbank(batch, "torch"),
            'engine="torch", one by one': compute_our_fbank(batch, "torch", alone=True),
            "lhotse's layers, batch": compute_lhotse_fbank(batch),
            "lhotse's layers, one by one": compute_lhotse_fbank(batch, alone=True),
            "torchaudio's compliance.kaldi, one by one": compute_torchaudio_fbank(batch),
        }
        times = measure_best_times(
            {name: work for name, work in contestants.items() if work}, options.seconds, options.device
        )
        print(
            f"fbank, {BINS} bins: {options.batch} utterances of {options.utterance:g} s, {options.device}, "
            f"{options.threads} threads"
        )
        speeds = {name: f"{audio / times_of_streams:,.0f}" for name, times_of_streams in times.items()}
        rows = [[who, speeds.get(f"{who}, batch", ""), speeds.get(f"{who}, one by one", "")] for who in CONTESTANTS]
        report("batches", Table(COMMAND, ["who", "batch: times real time", "one by one: times real time"], rows))

        made_streams = {(slots, chunk): streams(slots, chunk, options.device) for slots in SLOTS for chunk in CHUNKS}
        times_of_streams = measure_best_times(
            {str(key): work for key, work in made_streams.items()}, options.seconds, options.device
        )
        rows = [
            [str(slots), *(f"{1e6 * times_of_streams[str((slots, chunk))] / slots:,.0f}" for chunk in CHUNKS)]
            for slots in SLOTS
        ]
        heads = [f"µs for 1 s in chunks of {1000 * chunk:g} ms" for chunk in CHUNKS]
        report("streams", Table(COMMAND, ["streams at once", *heads], rows))


if __name__ == "__main__":
    main()
