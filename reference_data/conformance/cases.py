"""What the vectors of the conformance kit ask: Kaldi's programs, their options and what they read, by level."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import io_ark

INPUTS = Path(__file__).resolve().parents[1] / "inputs"
Array = np.ndarray[Any, Any]
Flags = dict[str, Any]
LEVELS = {
    1: "defaults of fbank",
    2: "defaults of every feature",
    3: "common options",
    4: "post-processing",
    5: "every option",
    6: "edge audio",
    7: "archives",
    8: "streaming",
}
FBANK, MFCC, PLP = "compute-fbank-feats", "compute-mfcc-feats", "compute-plp-feats"
SPECTROGRAM, PITCH = "compute-spectrogram-feats", "compute-kaldi-pitch-feats"
PROCESSED_PITCH, PROCESS_PITCH = "compute-and-process-kaldi-pitch-feats", "process-kaldi-pitch-feats"
READ, WRITE = "read-archive", "write-archive"  # for what several of Kaldi's programs do


@dataclass(frozen=True)
class Case:
    """One command line of Kaldi, and the inputs that it runs on: a vector of the kit for each.

    Attributes:
        level: 1 to 8.
        program: Kaldi's program, ``READ`` or ``WRITE``.
        inputs: names of audio clips, or of arrays.
        flags: options that are not Kaldi's defaults.
        asked: what the options of the kit say besides, such as the sizes of chunks.
    """

    level: int
    program: str
    inputs: tuple[str, ...]
    flags: Flags = field(default_factory=dict)
    asked: dict[str, Any] = field(default_factory=dict)


def clips() -> dict[str, tuple[int, Array]]:
    """Return sampling rate and samples of each clip, int16."""
    first = io_ark.load(INPUTS / "wav" / "speech16k.wav").samples[0]
    second = io_ark.load(INPUTS / "wav" / "speech16k_b.wav").samples[0]
    phone = io_ark.load(INPUTS / "wav" / "speech8k.wav").samples[0]
    rng = np.random.default_rng(30)
    noise = rng.integers(-3000, 3001, 4800)
    time = np.arange(4800) / 16000
    tones = 6000 * np.sin(2 * np.pi * 220 * time) + 3000 * np.sin(2 * np.pi * 3100 * time) + rng.integers(-9, 10, 4800)
    made = {
        "speech16k-a": (16000, first[3200:8000]),
        "speech16k-b": (16000, first[12000:16800]),
        "speech16k-c": (16000, second[3000:7800]),
        "speech16k-d": (16000, second[10000:14800]),
        "quiet16k": (16000, first[3200:8000] // 64),
        "loud16k": (16000, np.clip(first[12000:16800] * 6.0, -32768, 32767)),
        "noise16k": (16000, noise),
        "tones16k": (16000, tones),
        "speech8k-a": (8000, phone[1600:4000]),
        "speech8k-b": (8000, phone[6000:8400]),
        "noise8k": (8000, noise[:2400]),
        "quiet8k": (8000, phone[1600:4000] // 64),
        "long16k": (16000, first[2000:18000]),
        "long8k": (8000, phone[1000:9000]),
        "short16k": (16000, first[4000:5600]),
        "short8k": (8000, phone[2000:2800]),
    }
    made |= {f"edge-{name}": (16000, samples) for name, samples in edges(first, rng).items()}
    return {name: (rate, np.rint(samples).astype(np.int16)) for name, (rate, samples) in made.items()}


def edges(speech: Array, rng: np.random.Generator) -> dict[str, Array]:
    """Return audio that is short, silent, constant, clipped or digital."""
    length = 1600
    speech = speech[4000 : 4000 + length]
    signs = np.where(np.arange(length) // 40 % 2, 1, -1)
    return {
        **{f"{n}-samples": speech[:n] for n in (1, 2, 80, 159, 160, 199, 200, 399, 400, 401, 559, 560, 561)},
        "silence": np.zeros(length),
        "dc": np.full(length, 1000),
        "dc-lowest": np.full(length, -32768),
        "square-full-scale": np.where(signs > 0, 32767, -32768),
        "clipped": np.clip(speech * 40.0, -32768, 32767),
        "one-bit": rng.integers(-1, 2, length),
        "impulse": np.where(np.arange(length) == 700, 32767, 0),
        "alternating": np.where(np.arange(length) % 2, 32767, -32768),
        "silence-then-speech": np.where(np.arange(length) < 800, 0, speech),
        "speech-on-dc": speech + 8000.0,
        "noise-full-scale": rng.integers(-32768, 32768, length),
        "ramp": np.arange(length) * 20 - 16000,
    }


SPEECH16 = ("speech16k-a", "speech16k-b", "speech16k-c", "speech16k-d")
CLIPS16 = (*SPEECH16, "quiet16k", "loud16k", "noise16k", "tones16k")
CLIPS8 = ("speech8k-a", "speech8k-b", "noise8k", "quiet8k")
SHORT = ("short16k", "short8k")
HIRES = {"num-mel-bins": 40, "num-ceps": 40, "low-freq": 20, "high-freq": -400}
# Options that recipes and published models use.
COMMON: dict[str, list[Flags]] = {
    FBANK: [
        *({"num-mel-bins": bins} for bins in (26, 40, 64, 80)),
        {"num-mel-bins": 80, "window-type": "hamming"},
        {"num-mel-bins": 80, "window-type": "hanning"},
        {"num-mel-bins": 40, "window-type": "rectangular"},
        {"num-mel-bins": 80, "high-freq": -400, "snip-edges": False},
        {"num-mel-bins": 40, "low-freq": 40, "high-freq": -200},
        {"num-mel-bins": 40, "low-freq": 64, "high-freq": 3800},
        {"num-mel-bins": 40, "low-freq": 0},
        {"num-mel-bins": 40, "preemphasis-coefficient": 0},
        {"num-mel-bins": 40, "remove-dc-offset": False},
        {"num-mel-bins": 40, "use-energy": True},
        {"num-mel-bins": 40, "use-energy": True, "htk-compat": True, "window-type": "hanning"},
        {"num-mel-bins": 40, "use-energy": True, "raw-energy": False},
        {"num-mel-bins": 40, "use-power": False},
        {"num-mel-bins": 40, "use-log-fbank": False},
        {"num-mel-bins": 40, "subtract-mean": True},
        {"frame-length": 20}, {"frame-length": 32, "frame-shift": 16}, {"frame-shift": 12.5}, {"snip-edges": False},
        {"num-mel-bins": 30, "frame-shift": 5},
    ],
    MFCC: [
        HIRES, {"use-energy": False}, {"num-mel-bins": 30, "num-ceps": 30, "high-freq": -400},
        {"num-mel-bins": 23, "num-ceps": 23, "high-freq": -300}, {"num-mel-bins": 40}, {"num-ceps": 20},
        {"use-energy": False, "htk-compat": True}, {"htk-compat": True}, {"window-type": "hamming"},
        {"snip-edges": False}, {"cepstral-lifter": 0}, {**HIRES, "use-energy": False, "window-type": "hamming"},
        {"subtract-mean": True}, {"raw-energy": False},
    ],
    PLP: [
        {"use-energy": False}, {"num-ceps": 12, "lpc-order": 12}, {"window-type": "hamming"}, {"snip-edges": False},
        {"htk-compat": True}, {"num-mel-bins": 30}, {"cepstral-lifter": 0}, {"raw-energy": False},
    ],
    PITCH: [
        {"snip-edges": False}, {"frame-shift": 5}, {"min-f0": 60, "max-f0": 350}, {"min-f0": 100, "max-f0": 500},
        {"penalty-factor": 0.2}, {"nccf-ballast": 1000}, {"frame-length": 30}, {"delta-pitch": 0.01},
    ],
    PROCESSED_PITCH: [{}, {"snip-edges": False}, {"add-raw-log-pitch": True}, {"add-delta-pitch": False}],
    SPECTROGRAM: [{}, {"window-type": "hanning"}, {"snip-edges": False}, {"frame-length": 32}, {"raw-energy": False}],
}  # fmt: skip
FRAMES: dict[str, tuple[Any, ...]] = {
    "frame-length": (10, 16, 20.5, 30, 50),
    "frame-shift": (2.5, 7.3, 11, 20, 40),
    "preemphasis-coefficient": (0, 0.5, 0.9, 0.95, 1),
    "remove-dc-offset": (False,),
    "window-type": ("hamming", "hanning", "rectangular", "sine", "blackman"),
    "round-to-power-of-two": (False,),
    "snip-edges": (False,),
    "subtract-mean": (True,),
}
MELS: dict[str, tuple[Any, ...]] = {
    "num-mel-bins": (10, 15, 20, 32),
    "low-freq": (0, 50, 100.5, 300),
    "high-freq": (-100, -1000, 3000, 3999),
    "vtln-warp": (0.85, 0.9, 1.05, 1.15),
    "htk-compat": (True,),
}
# Each option with values that are not its default.
EVERY: dict[str, dict[str, tuple[Any, ...]]] = {
    FBANK: FRAMES | MELS | {"use-energy": (True,), "use-log-fbank": (False,), "use-power": (False,)},
    MFCC: FRAMES | MELS | {
        "num-mel-bins": (20, 26, 32), "num-ceps": (1, 2, 5, 12, 20), "cepstral-lifter": (0, 10, 22.5, 40),
        "use-energy": (False,), "energy-floor": (1, 1e8), "raw-energy": (False,),
    },
    PLP: FRAMES | MELS | {"num-ceps": (2, 5, 12), "lpc-order": (13, 14, 20), "compress-factor": (0.2, 0.5, 1),
                          "cepstral-lifter": (0, 10, 40), "cepstral-scale": (0.1, 2), "use-energy": (False,),
                          "energy-floor": (1, 1e8), "raw-energy": (False,)},
    SPECTROGRAM: FRAMES | {"energy-floor": (1, 1e8), "raw-energy": (False,), "return-raw-fft": (True,)},
    PITCH: {"frame-length": (15, 20, 35), "frame-shift": (5, 12, 20), "min-f0": (40, 70, 120),
            "max-f0": (250, 300, 600),
            "soft-min-f0": (5, 30), "penalty-factor": (0.01, 0.5, 1), "delta-pitch": (0.003, 0.02),
            "nccf-ballast": (0, 100, 50000), "lowpass-cutoff": (600, 1500), "lowpass-filter-width": (2, 3),
            "resample-frequency": (3500, 5000), "upsample-filter-width": (3, 8), "preemphasis-coefficient": (0.5, 0.97),
            "snip-edges": (False,)},
}  # fmt: skip
# Options that change nothing without another one.
TOGETHER: dict[str, list[Flags]] = {
    FBANK: [
        {"vtln-warp": 0.9, "vtln-low": 60, "vtln-high": -800}, {"vtln-warp": 1.1, "vtln-low": 200, "vtln-high": 3000},
        {"window-type": "blackman", "blackman-coeff": 0.36}, {"use-energy": True, "raw-energy": False},
        {"use-energy": True, "energy-floor": 1e8}, {"use-energy": True, "htk-compat": True},
        {"frame-length": 25, "round-to-power-of-two": False, "window-type": "hamming"},
    ],
    MFCC: [{"vtln-warp": 0.9, "vtln-low": 60, "vtln-high": -800}, {"window-type": "blackman", "blackman-coeff": 0.36}],
    PLP: [{"vtln-warp": 1.1, "vtln-low": 200, "vtln-high": -300}, {"num-ceps": 9, "lpc-order": 9}],
    SPECTROGRAM: [{"window-type": "blackman", "blackman-coeff": 0.36}],
}  # fmt: skip
PITCH_STEPS: list[Flags] = [
    {}, {"add-raw-log-pitch": True}, {"add-pov-feature": False}, {"add-delta-pitch": False},
    {"add-normalized-log-pitch": False}, {"pitch-scale": 1}, {"pov-scale": 1, "pov-offset": 0.5},
    {"delta-pitch-scale": 5}, {"delta-window": 3}, {"delta-window": 1}, {"normalization-left-context": 10},
    {"normalization-right-context": 5}, {"normalization-left-context": 0, "normalization-right-context": 3},
    {"delay": 3}, {"add-raw-log-pitch": True, "add-normalized-log-pitch": False, "add-pov-feature": False},
]  # fmt: skip
AFTER: dict[str, list[Flags]] = {
    "add-deltas": [{"delta-order": order, "delta-window": window} for order in (0, 1, 2, 3) for window in (1, 2, 3, 5)]
    + [{"truncate": 5}, {"truncate": 1, "delta-order": 1}],
    "add-deltas-sdc": [
        {}, {"num-blocks": 3}, {"block-shift": 1}, {"delta-window": 2}, {"num-blocks": 1, "delta-window": 3},
        {"num-blocks": 2, "block-shift": 5}, {"truncate": 4, "num-blocks": 2},
    ],
    "splice-feats": [{"left-context": left, "right-context": right}
                     for left, right in ((1, 1), (0, 2), (2, 0), (0, 0), (4, 4), (3, 1))],
    "compute-cmvn-stats": [{}],
    "apply-cmvn": [
        {}, {"norm-vars": True}, {"norm-means": False}, {"reverse": True}, {"reverse": True, "norm-vars": True},
        {"skip-dims": "0:3"}, {"skip-dims": "2", "norm-vars": True},
    ],
    "apply-cmvn-sliding": [
        {"cmn-window": window, "min-cmn-window": least, "center": center, "norm-vars": norm}
        for window, least in ((600, 100), (7, 3), (10, 10), (300, 20))
        for center, norm in itertools.product((False, True), repeat=2)
    ],
    "apply-cmvn-online": [
        {}, {"cmn-window": 10}, {"global-frames": 20}, {"speaker-frames": 30, "cmn-window": 20}, {"norm-vars": True},
        {"norm-means": False, "norm-vars": False}, {"skip-dims": "1:2"}, {"cmn-window": 10, "global-frames": 5},
    ],
    "compute-vad": [
        {}, {"vad-energy-threshold": 12}, {"vad-energy-mean-scale": 1, "vad-energy-threshold": 0},
        {"vad-frames-context": 2}, {"vad-frames-context": 5, "vad-proportion-threshold": 0.12},
        {"vad-proportion-threshold": 0.9, "vad-frames-context": 1}, {"vad-energy-mean-scale": 0},
        {"vad-energy-mean-scale": 0.9, "vad-frames-context": 3, "vad-energy-threshold": 1.5},
    ],
    "subsample-feats": [{"n": 2}, {"n": 3}, {"n": 3, "offset": 1}, {"n": 4, "offset": 3}, {"n": -2}, {"n": -3}, {}],
    "shift-feats": [{"shift": shift} for shift in (1, -1, 3, -4)],
    "select-feats": [{"selection": selection} for selection in ("0", "0-2", "2,0", "1-2,0", "2-0")],
}  # fmt: skip
MATRICES = ("matrix-5x4", "matrix-1x1", "matrix-1x40", "matrix-40x1", "matrix-28x13", "matrix-numbers", "matrix-large",
            "matrix-integers", "matrix-constant", "matrix-0x0")  # fmt: skip
VECTORS = ("vector-5", "vector-1", "vector-40", "vector-numbers", "vector-large", "vector-integers", "vector-0")
INTEGERS = ("ints-5", "ints-1", "ints-200", "ints-extreme", "ints-0", "ints-zeros")
POSTERIORS = ("post-3", "post-1", "post-20", "post-wide")
COMPRESSIBLE = (
    "matrix-5x4", "matrix-1x40", "matrix-40x1", "matrix-28x13", "matrix-large", "matrix-integers", "matrix-constant",
    "matrix-unit",
)  # fmt: skip


def arrays() -> dict[str, Array]:
    """Return the arrays that archives hold, and those that post-processing reads besides features of clips."""
    rng = np.random.default_rng(31)
    numbers = np.array([0, -0.0, 0.1, -1 / 3, 2e-38, 3.4e38, 1e-30, 16777217, 1e6, 123456.7, 1e5, 99999.95, 1e-4, 1e-5,
                        0.30000001, 1e16, np.inf, -1e16, np.nan, 2.5])  # fmt: skip
    made: dict[str, Array] = {
        "matrix-5x4": rng.normal(size=(5, 4)),
        "matrix-1x1": rng.normal(size=(1, 1)),
        "matrix-1x40": rng.normal(size=(1, 40)),
        "matrix-40x1": 10 * rng.normal(size=(40, 1)),
        "matrix-28x13": 20 * rng.normal(size=(28, 13)) - 5,
        "matrix-numbers": numbers.reshape(4, 5),
        "matrix-large": 1e9 * rng.normal(size=(9, 6)),
        "matrix-integers": rng.integers(-300, 300, (12, 5)),
        "matrix-constant": np.full((10, 3), 2.5),
        "matrix-unit": rng.random((11, 7)),
        "matrix-0x0": np.zeros((0, 0)),
        "vector-5": rng.normal(size=5),
        "vector-1": rng.normal(size=1),
        "vector-40": 100 * rng.normal(size=40),
        "vector-numbers": numbers,
        "vector-large": 1e12 * rng.normal(size=9),
        "vector-integers": rng.integers(-5, 5, 30),
        "vector-0": np.zeros(0),
    }
    made = {name: value.astype(np.float32) for name, value in made.items()}
    ints = {"ints-5": rng.integers(-9, 9, 5), "ints-1": [7], "ints-200": rng.integers(0, 4000, 200),
            "ints-extreme": [2**31 - 1, -(2**31), 0, -1], "ints-0": [], "ints-zeros": [0, 0, 0]}  # fmt: skip
    made |= {name: np.array(value, np.int32) for name, value in ints.items()}
    made |= {name: _posterior(rng, frames, most) for name, frames, most in
             (("post-3", 3, 2), ("post-1", 1, 1), ("post-20", 20, 3), ("post-wide", 4, 30))}  # fmt: skip
    walk = np.cumsum(rng.normal(size=(650, 3)), 0)
    return made | {"long-650x3": walk.astype(np.float32)}


def _posterior(rng: np.random.Generator, frames: int, most: int) -> Array:
    """Return rows (frame, id, weight), with at least one in the last frame."""
    counts = [*rng.integers(0, most + 1, frames - 1), most]
    return np.array([(frame, rng.integers(0, 500), rng.random()) for frame, n in enumerate(counts) for _ in range(n)],
                    np.float32)  # fmt: skip


def cases() -> Iterator[Case]:
    """Yield all cases, in order."""
    for rate, names in ((16000, (*CLIPS16, "long16k", "short16k")), (8000, (*CLIPS8, "long8k", "short8k"))):
        at = {} if rate == 16000 else {"sample-frequency": rate}
        yield Case(1, FBANK, names, at)
        most = names[:-2]
        for program in (MFCC, PLP, PITCH, PROCESSED_PITCH):
            yield Case(2, program, most, at)
        yield Case(2, SPECTROGRAM, names[-1:], at)
    yield from _common()
    yield from _after()
    yield from _every()
    yield from _edges()
    yield from _archives()
    yield from _streams()


def _rate(rate: int, flags: Flags) -> Flags:
    return flags if rate == 16000 else flags | {"sample-frequency": rate}


def _common() -> Iterator[Case]:
    for program, sets in COMMON.items():
        for flags in sets:
            spectrum = program == SPECTROGRAM
            yield Case(
                3, program, ("short16k",) if spectrum else ("speech16k-a", "speech16k-c", "quiet16k", "tones16k"), flags
            )
            fits = flags.get("num-mel-bins", 0) < 60  # more have no bin of the FFT each
            if fits:
                yield Case(3, program, ("short8k",) if spectrum else CLIPS8[:2], _rate(8000, flags))


def _after() -> Iterator[Case]:
    for program, sets in AFTER.items():
        for flags in sets:
            names = ("mfcc:speech16k-a", "mfcc:quiet8k", "mfcc:one-frame", "matrix-5x4")
            if flags.get("truncate") == 5:
                names = names[:-1]
            elif flags.get("offset"):
                names = (*names[:2], names[-1])
            yield Case(4, program, names, flags)
    for program in ("apply-cmvn-sliding", "apply-cmvn-online", "compute-vad"):
        for flags in AFTER[program]:
            yield Case(4, program, ("long-650x3",), flags)
    for flags in PITCH_STEPS:
        yield Case(4, PROCESS_PITCH, ("pitch:speech16k-a", "pitch:long8k"), flags)


def _every() -> Iterator[Case]:
    rng = np.random.default_rng(32)
    for program, options in EVERY.items():
        names = (SHORT[0], SHORT[1]) if program == SPECTROGRAM else ("speech16k-b", "speech8k-b")
        single = [{name: value} for name, values in options.items() for value in values]
        for flags in single + TOGETHER.get(program, []):
            yield Case(5, program, names[:1], flags)
            yield Case(5, program, names[1:], _rate(8000, flags))
        for number in range(60):
            chosen = rng.choice(sorted(options), 4, replace=False)
            flags = {str(name): options[name][int(rng.integers(len(options[name])))] for name in chosen}
            if "vtln-warp" in flags:  # its edges have to lie inside the bank
                flags = {name: value for name, value in flags.items() if name not in ("low-freq", "high-freq")}
            rate = (16000, 8000)[number % 2]
            pool = names[number % 2 :][:1] if program == SPECTROGRAM else (CLIPS16, CLIPS8)[number % 2]
            yield Case(5, program, (pool[number // 2 % len(pool)],), _rate(rate, flags))
    for allowed, rate in itertools.product(("allow-downsample", "allow-upsample"), (8000, 16000)):
        if (allowed == "allow-downsample") == (rate == 8000):
            names = ("speech16k-c", "noise16k") if rate == 8000 else ("speech8k-a", "noise8k")
            for program in (FBANK, MFCC):
                audio = {"audio-frequency": 24000 - rate}  # the other one of 8000 and 16000
                yield Case(5, program, names, {allowed: True, "sample-frequency": rate}, audio)


def _edges() -> Iterator[Case]:
    names = tuple(name for name in clips() if name.startswith("edge-"))
    for program, flags in (
        (FBANK, {}), (FBANK, {"snip-edges": False}), (FBANK, {"use-energy": True, "preemphasis-coefficient": 0}),
        (FBANK, {"remove-dc-offset": False}), (MFCC, {}), (MFCC, {"snip-edges": False, "use-energy": False}), (PLP, {}),
        (PLP, {"snip-edges": False}), (PITCH, {}),
    ):  # fmt: skip
        yield Case(6, program, names, flags)
    yield Case(6, PITCH, names[13:], {"snip-edges": False})  # Kaldi's aborts on less audio
    yield Case(6, SPECTROGRAM, names[:17], {})


def _archives() -> Iterator[Case]:
    objects = (("float-matrix", MATRICES), ("float-vector", VECTORS), ("int32-vector", INTEGERS),
               ("posterior", POSTERIORS))  # fmt: skip
    for what, (kind, names) in itertools.product((READ, WRITE), objects):
        for binary in (True, False):
            yield Case(7, what, names, {"binary": binary}, {"object": kind})
    for what, method in itertools.product((READ, WRITE), range(1, 8)):
        yield Case(7, what, COMPRESSIBLE, {"compress": True, "compression-method": method}, {"object": "float-matrix"})
    yield Case(7, READ, ("matrix-5x4", "matrix-28x13", "matrix-large"), {}, {"object": "double-matrix"})


def chunkings(samples: int) -> list[list[int]]:
    """Return sizes of chunks of an utterance; some are empty."""
    rng = np.random.default_rng(33)
    sizes = [rng.integers(1, 300, samples), rng.choice([0, 1, 7, 160, 900], samples), [160] * samples, [1600] * samples]
    found = []
    for each in sizes:
        ends = np.minimum(np.cumsum(each), samples)
        found.append([int(n) for n in np.diff(ends, prepend=0)[: int(np.argmax(ends == samples)) + 1]])
    return found


def _streams() -> Iterator[Case]:
    asked: list[tuple[str, Flags, tuple[str, ...]]] = [
        (FBANK, {}, ("speech16k-a", "noise16k")), (FBANK, {"snip-edges": False}, ("speech16k-a",)),
        (FBANK, {"num-mel-bins": 40, "window-type": "hamming"}, ("speech16k-c",)),
        (MFCC, {}, ("speech16k-a", "speech16k-d")),
        (MFCC, {"snip-edges": False, "use-energy": False}, ("speech16k-c",)), (PLP, {}, ("speech16k-b", "speech16k-c")),
        (PLP, {"snip-edges": False}, ("speech16k-a",)), (SPECTROGRAM, {}, ("short16k",)),
        (SPECTROGRAM, {"snip-edges": False}, ("short16k",)), (FBANK, {"frame-shift": 40}, ("speech16k-b",)),
    ]  # fmt: skip
    made = clips()
    for program, flags, names in asked:
        chunks_of = chunkings(len(made[names[0]][1]))
        for output, chunks in itertools.product(("features", "frames-ready"), chunks_of):
            yield Case(8, program, names, flags, {"chunks": chunks, "output": output})
    for frames, first in itertools.product((5, 10, 50), (False, True)):
        yield Case(8, PITCH, ("speech16k-a", "speech16k-c", "long16k"),
                   {"frames-per-chunk": frames, "simulate-first-pass-online": first})  # fmt: skip
