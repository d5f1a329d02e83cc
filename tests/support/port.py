"""A port of Kaldi's fbank as such are written by the dozen, in double precision, and the mistakes that they make."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]


def mel(hertz: npt.ArrayLike) -> Doubles:
    return 1127 * np.log1p(np.asarray(hertz, np.float64) / 700)


def hertz_of(mel_value: npt.ArrayLike) -> Doubles:
    return 700 * np.expm1(np.asarray(mel_value, np.float64) / 1127)


def window_of(name: str, size: int) -> Doubles:
    period = size if name.endswith("-periodic") else size - 1
    cosine = np.cos(2 * np.pi * np.arange(size) / period)
    shapes = {"hamming": 0.54 - 0.46 * cosine, "hann": 0.5 - 0.5 * cosine, "rectangular": np.ones(size),
              "povey": (0.5 - 0.5 * cosine) ** 0.85,
              "blackman": 0.42 - 0.5 * cosine + 0.08 * np.cos(4 * np.pi * np.arange(size) / period)}  # fmt: skip
    return shapes[name.removesuffix("-periodic")]


def filters(kind: str, bins: int, points: int, rate: float, low: float, high: float) -> Doubles:
    edges = np.linspace(mel(low), mel(high), bins + 2)
    at = np.arange(points // 2 + 1) * rate / points
    if kind == "mel":
        at = mel(at)
    else:
        edges = hertz_of(edges)
        if kind == "snapped":
            edges = np.floor(edges * points / rate + 1e-9) * rate / points  # 8000 Hz is a bin
    left, center, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.where(at <= center, (at - left) / (center - left), (right - at) / (right - center))
    weights[~((at >= left) & (at <= right)) | ~np.isfinite(weights)] = 0
    if kind == "area":
        weights *= 2 / (right - left)
    return weights


def port(samples: npt.NDArray[np.float64], rate: float = 16000, *, scale: float = 1.0, window: str = "povey",
         preemphasis: float = 0.97, whole_preemphasis: bool = False, remove_dc: bool = True, length: float = 25.0,
         shift: float = 10.0, edges: str = "snip", filter_kind: str = "mel", bins: int = 80, low: float = 20.0,
         high: float = 8000.0, power: float = 2.0, floor: float = 1.1920929e-07, added: float = 0.0,
         log: bool = True, points: int = 512) -> Doubles:  # fmt: skip
    x, size, step = samples * scale, int(rate * length / 1000), int(rate * shift / 1000)
    if whole_preemphasis:
        x, preemphasis = np.append(x[0], x[1:] - preemphasis * x[:-1]), 0.0
    if edges in ("reflect", "constant"):
        x = np.pad(x, points // 2, mode=edges)
    elif edges == "kaldi":
        frames = (len(x) + step // 2) // step
        index = np.arange(frames)[:, None] * step + step // 2 - size // 2 + np.arange(size)
        index = np.where(index < 0, -index - 1, index)
        x_frames = x[np.where(index >= len(x), 2 * len(x) - 1 - index, index)]
    if edges != "kaldi":
        x_frames = np.lib.stride_tricks.sliding_window_view(x, size)[::step]
    x_frames = x_frames - x_frames.mean(1, keepdims=True) if remove_dc else x_frames
    x_frames = x_frames - preemphasis * np.concatenate((x_frames[:, :1], x_frames[:, :-1]), 1)
    spectrum = np.abs(np.fft.rfft(x_frames * window_of(window, size), points)) ** power
    energies = spectrum @ filters(filter_kind, bins, points, rate, low, high).T
    return np.log(np.maximum(energies, floor) + added) if log else energies
