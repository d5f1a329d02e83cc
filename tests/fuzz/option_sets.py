"""Compute features with random option sets in several Pythons, with C and without, and compare the bytes.

``python -m tests.fuzz.option_sets [--sets 300] PYTHON...``: each PYTHON has kaldi-compat and a NumPy of its own.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import subprocess
import sys
from typing import Any

import numpy as np

import kaldi_compat.numpy as features
from kaldi_compat import KaldiCompatError
from kaldi_compat.exact.rand import KaldiRandom
from kaldi_compat.pitch.tracker import track_pitch

KINDS = ("Fbank", "Mfcc", "Plp", "Spectrogram", "Pitch")
FRAMES: dict[str, tuple[Any, ...]] = {
    "sample_frequency": (8000.0, 16000.0, 11025.0),
    "frame_length": (25.0, 20.0, 32.5), "frame_shift": (10.0, 12.5, 5.0),
    "preemphasis_coefficient": (0.97, 0.0, 0.9), "remove_dc_offset": (True, False), "dither": (0.0, 1.0, 0.1),
    "window_type": ("povey", "hamming", "hanning", "rectangular", "blackman", "sine"),
    "round_to_power_of_two": (True, False), "snip_edges": (True, False), "energy_floor": (0.0, 1.0),
    "raw_energy": (True, False), "waveform_scale": (1.0, 0.5),
}  # fmt: skip
MEL: dict[str, tuple[Any, ...]] = {
    "num_mel_bins": (23, 30, 40), "low_freq": (20.0, 0.0, 64.5), "high_freq": (0.0, -200.0, 3700.0),
    "htk_compat": (False, True), "use_energy": (False, True),
}  # fmt: skip
CEPSTRA: dict[str, tuple[Any, ...]] = {"num_ceps": (13, 10), "cepstral_lifter": (22, 0)}
OWN: dict[str, dict[str, tuple[Any, ...]]] = {
    "Fbank": {**FRAMES, **MEL, "use_log_fbank": (True, False), "use_power": (True, False)},
    "Mfcc": {**FRAMES, **MEL, **CEPSTRA},
    "Plp": {**FRAMES, **MEL, **CEPSTRA, "compress_factor": (0.33333, 0.5), "cepstral_scale": (1.0, 0.1)},
    "Spectrogram": FRAMES,
    "Pitch": {"sample_frequency": (8000.0, 16000.0), "frame_shift": (10.0, 12.5), "min_f0": (50.0, 70.0),
              "max_f0": (400.0, 350.0), "snip_edges": (True, False), "penalty_factor": (0.1, 0.2)},
}  # fmt: skip


def result(number: int) -> str:
    """Return the options of a set, and a digest of its features or the error."""
    choice = random.Random(number)
    kind = KINDS[number % len(KINDS)]
    options = {name: choice.choice(values) for name, values in sorted(OWN[kind].items()) if choice.random() < 0.5}
    samples = np.random.default_rng(number).integers(-9000, 9000, 6000).astype(np.float32)
    try:
        if kind == "Pitch":
            values = track_pitch(samples, **options)
        else:
            values = getattr(features, kind)(**options)(samples, generator=KaldiRandom())
    except KaldiCompatError as error:
        return f"{kind} {options} refused: {error}"
    return f"{kind} {options} {values.shape} {hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()}"


def main() -> None:
    """Print the results of this Python, or compare those of the given ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=300)
    parser.add_argument("pythons", nargs="*", metavar="PYTHON")
    given = parser.parse_args()
    if not given.pythons:
        print(*map(result, range(given.sets)), sep="\n")
        return
    first: list[str] = []
    for python in given.pythons:
        for native in ("1", "0"):
            command = [python, "-m", "tests.fuzz.option_sets", f"--sets={given.sets}"]
            variables = {**os.environ, "KALDI_COMPAT_NATIVE": native}
            lines = subprocess.run(
                command, env=variables, check=True, stdout=subprocess.PIPE, text=True
            ).stdout.splitlines()
            first = first or lines
            unlike = [pair for pair in zip(first, lines, strict=True) if pair[0] != pair[1]]
            refused = sum(" refused: " in line for line in lines)
            print(
                f"{python}, C {native}: {len(lines)} sets, {refused} refused, {len(unlike)} unlike the first",
                flush=True,
            )
            if unlike:
                sys.exit("\n".join(unlike[0]))


if __name__ == "__main__":
    main()
