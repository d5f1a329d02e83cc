"""Arrays for ``kaldi-compat explain`` whose options, mistakes and audio are drawn at random, and its answers.

    python -m benchmarks.explain_held_out --seed 3 --count 100

A separate front end in NumPy computes the arrays, with one to four options or mistakes drawn from a list, and up to two
steps after it. The audio is drawn as well: a mixture of two recordings, or synthetic vowels and noise. The table counts
like :mod:`benchmarks.explain_arrays`. No constant of explain has been tuned on these arrays.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.explain_arrays import Array, Case, load_speech, report

UNIT = 1 / 32768
# Options and mistakes: name, value, and words of the right answer.
CHANGES: dict[str, list[tuple[Any, str]]] = {
    "window": [("hamming", "window_type='hamming'"), ("hann", "window_type='hanning'"),
               ("ones", "window_type='rectangular'"), ("blackman", "window_type='blackman'")],
    "periodic": [(True, "periodic")],
    "preemphasis": [(each, f"preemphasis_coefficient={each}") for each in (0.0, 0.95, 0.9, 0.98)],
    "whole": [(True, "preemphasis of the whole recording")],
    "dc": [(False, "remove_dc_offset=False")],
    "length": [(each, f"frame_length={each}") for each in (20.0, 30.0, 32.0)],
    "shift": [(each, f"frame_shift={each}") for each in (5.0, 8.0, 12.5, 16.0, 20.0)],
    "edges": [("kaldi", "snip_edges=False"), ("reflect", "(reflect)"), ("constant", "(constant)"),
              ("zeros", "zeros fill")],
    "mel": [("hertz", "triangles in Hz"), ("slaney", "Slaney's scale, of equal area"),
            ("slaney-height", "Slaney's scale, of equal height"), ("snapped", "rounded down")],
    "low": [(each, f"low_freq={each}") for each in (0.0, 40.0, 60.0, 80.0, 125.0)],
    "high": [(each, f"high_freq={each}|high_freq=-") for each in (7600.0, 7000.0, 3800.0)],
    "power": [(1, "use_power=False|of magnitudes")],
    "floor": [(1e-10, "a floor of 1e-10|no floor"), (1e-5, "a floor of 1e-05"), (1.0, "a floor of 1|1 added")],
    "unit": [(True, "samples times 3.05")],
}  # fmt: skip
AFTER = ("mean", "variance", "base 10", "decibels", "transposed", "part", "lfr", "deltas", "float16", "padded",
         "masked", "batch", "global", "joined", "reversed columns")  # fmt: skip


def make_recordings(rng: np.random.Generator) -> Iterator[tuple[Array, int]]:
    """Yield recordings (T,) and their rates in Hz, without end."""
    known = load_speech()
    while True:
        if rng.random() < 0.5:  # Mix two recordings.
            rate = int(rng.choice([8000, 16000]))
            some = [x.astype(float) for x, r in known.values() if r == rate] + [known["speech22k"][0].astype(float)]
            first, second = (some[k] for k in rng.integers(0, len(some), 2))
            mixed = 0.7 * np.tile(first, 3)[: rng.integers(14000, 40000)]
            second = np.resize(second[::-1], len(mixed))
            mixed = mixed + rng.uniform(0.05, 0.6) * second + rng.normal(0, rng.choice([0, 1, 30]), len(mixed))
        else:  # Synthesize vowels and fricatives.
            rate = int(rng.choice([8000, 16000, 16000, 22050, 24000, 44100]))
            count = int(rng.uniform(1, 4) * rate)
            pitch = 120 + 40 * np.sin(np.arange(count) / rate * rng.uniform(2, 6))
            pulses = np.diff(np.floor(np.cumsum(pitch) / rate), prepend=0.0)
            mixed = np.zeros(count)
            for start in range(0, count, rate // 6):
                part = slice(start, start + rate // 6)
                voiced = pulses[part] if rng.random() < 0.7 else 0.05 * rng.normal(size=len(pulses[part]))
                shape = np.zeros(2048)
                for low, high in ((250, 900), (900, 2500), (2500, 3600), (3600, 0.45 * rate)):
                    at, decay = rng.uniform(low, max(high, low + 1)), rng.uniform(50, 300)
                    shape += np.exp(-decay * np.arange(2048) / rate) * np.sin(2 * np.pi * at * np.arange(2048) / rate)
                mixed[part] += rng.uniform(0.02, 1) * np.convolve(voiced, shape)[: len(voiced)]
            mixed += 1e-4 * rng.normal(size=count)
            mixed *= rng.choice([300, 3000, 12000]) / np.abs(mixed).max()
        yield np.clip(np.rint(mixed), -32768, 32767).astype(np.int16), rate


def window_of(name: str, size: int, periodic: bool) -> Array:
    """Return the window ``name`` (size,)."""
    turn = 2 * np.pi * np.arange(size) / (size if periodic else size - 1)
    shapes = {"povey": (0.5 - 0.5 * np.cos(turn)) ** 0.85, "hamming": 0.54 - 0.46 * np.cos(turn), "ones": np.ones(size),
              "hann": 0.5 - 0.5 * np.cos(turn),
              "blackman": 0.42 - 0.5 * np.cos(turn) + 0.08 * np.cos(2 * turn)}  # fmt: skip
    return shapes[name]


def make_filters(kind: str, bins: int, points: int, rate: int, low: float, high: float) -> Array:
    """Return mel filters (bins, points // 2 + 1) from ``low`` to ``high`` Hz."""
    at = np.arange(points // 2 + 1) * rate / points
    if kind.startswith("slaney"):
        low, high = (float(f * 3 / 200 if f < 1000 else 15 + 27 * np.log(f / 1000) / np.log(6.4)) for f in (low, high))
        ends = np.linspace(low, high, bins + 2)
        edges = np.where(ends < 15, ends * 200 / 3, 1000 * np.exp((ends - 15) / 27 * np.log(6.4)))
    else:
        edges = 700 * np.expm1(np.linspace(np.log1p(low / 700), np.log1p(high / 700), bins + 2))
    if kind == "mel":
        at, edges = np.log1p(at / 700), np.log1p(edges / 700)
    if kind == "snapped":
        edges = np.floor(edges * points / rate + 1e-9) * rate / points
    left, center, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    with np.errstate(all="ignore"):
        weights = np.clip(np.fmin((at - left) / (center - left), (right - at) / (right - center)), 0, None)
    weights = np.nan_to_num(weights, posinf=0)
    return weights * 2 / (right - left) if kind == "slaney" else weights


def cut_frames(x: Array, size: int, step: int, edges: str, points: int) -> Array:
    """Cut audio (T,) into frames (frames, size) at every ``step`` samples."""
    if edges == "kaldi":
        index = np.arange((len(x) + step // 2) // step)[:, None] * step + step // 2 - size // 2 + np.arange(size)
        index = np.where(index < 0, -index - 1, index)
        return x[np.where(index >= len(x), 2 * len(x) - 1 - index, index)]
    if edges == "zeros":
        x = np.pad(x, (0, (size - len(x)) % step))
    elif edges != "snip":
        x = np.pad(x, points // 2, mode=edges)
    return np.lib.stride_tricks.sliding_window_view(x, size)[::step]


def compute_features(samples: Array, rate: int, kind: str, columns: int, options: dict[str, Any]) -> Array:
    """Return features (frames, columns) of one kind, with the drawn options and mistakes."""
    have = {"window": "povey", "periodic": False, "preemphasis": 0.97, "whole": False, "dc": True, "length": 25.0,
            "shift": 10.0, "edges": "snip", "mel": "mel", "low": 20.0, "high": rate / 2, "power": 2, "unit": False,
            "floor": 1.1920929e-07, **options}  # fmt: skip
    x, size, step = (
        samples * (UNIT if have["unit"] else 1.0),
        int(rate * have["length"] / 1000),
        int(rate * have["shift"] / 1000),
    )
    points = 1 << (size - 1).bit_length()
    factor = have["preemphasis"]
    if have["whole"]:
        x, factor = np.append(x[0], x[1:] - factor * x[:-1]), 0.0
    frames = cut_frames(x, size, step, have["edges"], points)
    frames = frames - frames.mean(1, keepdims=True) if have["dc"] else frames
    frames = frames - factor * np.concatenate((frames[:, :1], frames[:, :-1]), 1)
    spectrum = np.abs(np.fft.rfft(frames * window_of(have["window"], size, have["periodic"]), points)) ** have["power"]
    if kind == "spectrogram":
        return np.log(np.maximum(spectrum, have["floor"]))
    bins = columns if kind == "fbank" else 23 if columns < 20 else 40
    mels = np.log(
        np.maximum(spectrum @ make_filters(have["mel"], bins, points, rate, have["low"], have["high"]).T, have["floor"])
    )
    if kind == "fbank":
        return mels
    k = np.arange(columns)[:, None]
    dct = np.sqrt(2 / bins) * np.cos(np.pi / bins * (np.arange(bins) + 0.5) * k)
    dct[0] = np.sqrt(1 / bins)
    return mels @ dct.T * (1 + 11 * np.sin(np.pi * np.arange(columns) / 22))


def apply_step(array: Array, name: str, rng: np.random.Generator) -> tuple[Array, str]:
    """Return features after the step ``name``, and words of the answer that name the step ("a|b" for one of two)."""
    frames, dim = array.shape
    if name == "part":
        first = int(rng.integers(2, frames // 3))
        return array[first : first + int(rng.integers(40, frames))], "left out|the audio from"
    if name == "masked":
        array, first = array.copy(), int(rng.integers(5, frames - 12))
        array[first : first + int(rng.integers(2, 9))] = 0
        return array, "masked"
    if name == "lfr":
        at = np.clip(np.arange(-(-frames // 6))[:, None] * 6 + np.arange(7) - 3, 0, frames - 1)
        return array[at].reshape(len(at), -1), "7 frames stacked, every 6"
    if name == "deltas":

        def slopes(x: Array) -> Array:
            at = np.clip(np.arange(frames)[:, None] + np.arange(-2, 3), 0, frames - 1)
            return np.einsum("tkd,k->td", x[at], np.arange(-2, 3) / 10)

        return np.hstack((array, slopes(array))), "deltas of 2"
    deviation = array.std(0) + 1e-9
    ways: dict[str, tuple[Any, str]] = {
        "mean": (lambda: array - array.mean(0), "minus the mean"),
        "variance": (lambda: (array - array.mean(0)) / deviation, "standard deviation"),
        "base 10": (lambda: array / np.log(10), "base 10"), "decibels": (lambda: 10 / np.log(10) * array, "decibels"),
        "transposed": (lambda: array.T, "transposed"), "float16": (lambda: array.astype(np.float16), "float16"),
        "padded": (lambda: np.vstack((array, np.zeros((50, dim)))), "padding"),
        "batch": (lambda: array[None], ""),
        "global": (lambda: (array + np.sin(np.arange(dim))) / (2 + np.cos(np.arange(dim))), "each column"),
        "joined": (lambda: array[: frames // 2 * 2].reshape(-1, 2 * dim), "2 frames stacked"),
        "reversed columns": (lambda: array[:, ::-1], "reverse order"),
    }  # fmt: skip
    return ways[name][0](), ways[name][1]


def make_cases(seed: int, count: int) -> Iterator[Case]:
    """Yield ``count`` arrays, whose options, mistakes, steps and audio are drawn at random."""
    rng = np.random.default_rng(seed)
    audio = make_recordings(rng)
    for number in range(count):
        samples, rate = next(audio)
        kind = str(rng.choice(["fbank", "fbank", "fbank", "mfcc", "spectrogram"]))
        columns = int(rng.choice([23, 24, 40, 64, 72, 80, 96] if kind == "fbank" else [12, 13, 14, 20]))
        names = [
            name for name in CHANGES if kind != "spectrogram" or name not in ("mel", "low", "high", "floor", "power")
        ]
        drawn = {
            name: CHANGES[name][rng.integers(len(CHANGES[name]))]
            for name in rng.permutation(names)[: rng.integers(1, 5)].tolist()
        }
        if float(drawn.get("high", (0, ""))[0]) > rate / 2 - 100:
            del drawn["high"]
        if drawn.get("preemphasis", (1, ""))[0] == 0:
            drawn.pop("whole", None)
        if drawn.get("window", ("", ""))[0] == "ones":
            drawn.pop("periodic", None)
        options = {name: value for name, (value, _) in drawn.items()}
        array = compute_features(samples, rate, kind, columns, options)
        words = [f"{kind}(|preset"]
        for name, (_, said) in drawn.items():  # Only changes that make a difference need to be named.
            other = compute_features(
                samples, rate, kind, columns, {each: options[each] for each in options if each != name}
            )
            if other.shape != array.shape or np.abs(other - array).max() > 5e-3 * array.std():
                words.append(f"{said}|preset")
        steps = []
        for name in rng.permutation(AFTER)[: int(rng.integers(0, 3))].tolist():
            turned = {"transposed", "batch", "padded"} & {*steps}
            if array.ndim > 2 or (turned and name != "batch") or "float16" in steps:
                continue
            if kind != "fbank" and name in ("lfr", "joined", "deltas", "reversed columns"):
                continue
            array, said = apply_step(array, name, rng)
            words += [f"{said}|preset"] * bool(said)
            steps.append(name)
        if {"mean", "variance", "global"} & {*steps}:
            words = [each for each in words if "samples times" not in each]
        if len({"variance", "global", "base 10", "decibels"} & {*steps}) > 1:
            words = [each for each in words if "base 10" not in each and "decibels" not in each]
        # The statistics of a normalization after a mask include the masked frames.
        after_mask = {*steps[steps.index("masked") + 1 :]} if "masked" in steps else set()
        if (
            "global" in steps
            or {"mean", "variance"} & after_mask
            or ("variance" in steps and {"base 10", "decibels"} & {*steps})
        ):
            # Explain can only find a number for each column, not the step that computed the numbers.
            words = [f"{each}|each column" if "mean" in each or "deviation" in each else each for each in words]
        name = f"{number} {rate} Hz {len(samples)} {kind} {array.shape} {options} {steps}"
        yield Case(kind, name, lambda a=array: a, samples, rate, tuple(words))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    arguments = parser.parse_args()
    report(make_cases(arguments.seed, arguments.count))


if __name__ == "__main__":
    main()
