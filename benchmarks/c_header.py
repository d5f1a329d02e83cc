"""Processor time of packages/c/kaldi_features.h and of kaldi-native-fbank's C++ on 30 s of audio, one thread: ms.

Run ``python -m benchmarks.c_header [FLAGS OF THE COMPILER]`` where a C compiler and kaldi_native_fbank are installed.
Each round computes all rows once, in turns, so that a busy machine slows all of them; the best of the rounds counts.
Audio is given as memory to the header and as an array to kaldi-native-fbank, whose binding converts it sample by
sample. The time of this conversion, measured with frames 29 s apart, is subtracted. The features of kaldi-native-fbank
stay in C++.
"""

from __future__ import annotations

import ctypes
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import kaldi_native_fbank as knf
import numpy as np

from packages.c.tests.c_header import Header

ROUNDS = 15
AUDIO = (np.random.default_rng(0).standard_normal(30 * 16000) * 3000).astype(np.float32)


def make_ours(header: Header, kind: str, bins: int, dither: float) -> Callable[[], object]:
    """Return a function that computes features with the header."""
    frontend = header.frontend(header.options(kind, num_mel_bins=bins, dither=dither))
    rows, count = header.library.kf_rows(frontend.object, ctypes.c_int64(len(AUDIO))), ctypes.c_int64()
    out = np.empty((rows, frontend.dim), np.float32)
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (AUDIO, out)]
    arguments = (pointers[0], ctypes.c_int64(len(AUDIO)), pointers[1], ctypes.c_int64(rows), ctypes.byref(count))
    return lambda: header.library.kf_compute(frontend.object, *arguments)


def make_peers(kind: str, bins: int, dither: float, shift_ms: float = 10.0) -> Callable[[], object]:
    """Return a function that computes features with kaldi-native-fbank."""
    options = knf.FbankOptions() if kind == "fbank" else knf.MfccOptions()
    options.mel_opts.num_bins, options.frame_opts.dither = bins, dither
    options.frame_opts.frame_shift_ms = shift_ms
    online = knf.OnlineFbank if kind == "fbank" else knf.OnlineMfcc

    def compute() -> object:
        stream = online(options)
        stream.accept_waveform(16000, AUDIO)
        stream.input_finished()
        return stream

    return compute


def main() -> None:
    """Print a table."""
    flags = sys.argv[1:] or ["-O2"]
    header = Header(Path(tempfile.mkdtemp()), *flags)
    cases = {"fbank, 80 bins": ("fbank", 80, 0.0), "fbank, 80 bins, dithered": ("fbank", 80, 1.0),
             "MFCC": ("mfcc", 23, 0.0)}  # fmt: skip
    runs = {(name, who): made for name, case in cases.items()
            for who, made in (("ours", make_ours(header, *case)), ("theirs", make_peers(*case)))}  # fmt: skip
    runs["", "conversion"] = make_peers("fbank", 80, 0.0, shift_ms=29000.0)
    best = dict.fromkeys(runs, np.inf)
    for _ in range(ROUNDS):
        for key, run in runs.items():
            start = time.process_time()
            run()
            best[key] = min(best[key], time.process_time() - start)
    print(f"{' '.join(flags):28} {'header':>8} {'knf':>8} {'times':>6}")
    for name in cases:
        a, b = best[name, "ours"] * 1e3, (best[name, "theirs"] - best["", "conversion"]) * 1e3
        print(f"{name:28} {a:8.2f} {b:8.2f} {b / a:6.1f}")


if __name__ == "__main__":
    main()
