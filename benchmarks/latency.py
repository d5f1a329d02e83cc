"""Latency of a stream: 80-bin fbank of 16 kHz audio in chunks of 10 ms, like in a deployed recognizer.

    python benchmarks/latency.py [--seconds 60] [--record]

Each contestant runs in a separate process, on one thread: our streams of NumPy arrays and of tensors, with and without
the C libraries, and kaldi-native-fbank's stream. The benchmark prints the time from the start of Python to the features
of the first chunk, the median and the 99th percentile of the time of a chunk, and the peak memory of the process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

RATE, CHUNK = 16000, 160
OURS = "kaldi_compat.numpy"
TORCH = "kaldi_compat.FeatureStream"
PEER = "kaldi-native-fbank, arrays"
CONTESTANTS = {OURS: {}, f"{OURS}, without C": {"KALDI_COMPAT_NATIVE": "0"}, TORCH: {}, PEER: {}}
COLUMNS = ["stream", "start: ms", "chunk, median: µs", "chunk, 99%: µs", "peak memory: MiB"]


def make_numpy_stream() -> Callable[[object], object]:
    """Return our stream of NumPy arrays."""
    from kaldi_compat.numpy import Fbank

    return Fbank(num_mel_bins=80, dither=0.0).stream()


def make_torch_stream() -> Callable[[object], object]:
    """Return our stream of tensors."""
    import torch

    from kaldi_compat import Fbank

    torch.set_num_threads(1)
    stream = Fbank(num_mel_bins=80, dither=0.0).stream()
    return lambda chunk: stream(torch.from_numpy(chunk))


def make_native_stream() -> Callable[[object], object]:
    """Return kaldi-native-fbank's stream."""
    import kaldi_native_fbank

    options = kaldi_native_fbank.FbankOptions()
    options.frame_opts.dither, options.mel_opts.num_bins = 0.0, 80
    stream, taken = kaldi_native_fbank.OnlineFbank(options), 0

    def accept(chunk: object) -> object:
        nonlocal taken
        stream.accept_waveform(RATE, chunk)
        frames = [stream.get_frame(number) for number in range(taken, stream.num_frames_ready)]
        taken = stream.num_frames_ready
        return frames

    return accept


def measure_stream(who: str, seconds: int) -> list[float]:
    """Return the cells of a row, measured in this process: start, median, 99th percentile, memory."""
    import numpy as np

    make = make_native_stream if who == PEER else make_torch_stream if who == TORCH else make_numpy_stream
    stream = make()
    noise = np.random.default_rng(0).standard_normal((seconds * RATE // CHUNK, CHUNK)).astype(np.float32) * 1000
    spent = []
    for chunk in noise:
        begin = time.perf_counter()
        stream(chunk)
        spent.append(time.perf_counter() - begin)
        if len(spent) == 3:  # The first three chunks of 10 ms complete the first frame of 25 ms.
            started = time.time() - float(os.environ["STARTED"])
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    times = np.array(spent[100:]) * 1e6
    return [1000 * started, float(np.median(times)), float(np.percentile(times, 99)), int(peak.split()[1]) / 1024]


def main() -> None:
    """Measure each stream in new processes, and print a table."""
    from figures import Table, report
    from measuring import make_parser

    parser = make_parser(__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="length of the audio")
    chosen = parser.parse_args()
    rows = []
    for who, environment in CONTESTANTS.items():
        least = [float("inf")] * 4
        for _ in range(3):
            env = os.environ | environment | {"OMP_NUM_THREADS": "1", "STARTED": str(time.time())}
            command = [sys.executable, __file__, "--measure", who, str(chosen.seconds)]
            figures = json.loads(subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True).stdout)
            least = [min(pair) for pair in zip(least, figures, strict=True)]
        rows.append([who, f"{least[0]:.0f}", f"{least[1]:.1f}", f"{least[2]:.1f}", f"{least[3]:.0f}"])
    report("latency", Table("python benchmarks/latency.py", COLUMNS, rows))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure_stream(sys.argv[2], int(sys.argv[3]))))
    else:
        main()
