"""A port of Kaldi's fbank as such are written by the dozen, in double precision, and the mistakes that they make."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]


def mel(hertz: npt.ArrayLike) -> Doubles:
    return 1127 * np.log1p(np.asarray(hertz, np.float64) / 700)


def convert_to_hertz(mel_value: npt.ArrayLike) -> Doubles:
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
        edges = convert_to_hertz(edges)
        if kind.startswith("snapped"):
            of = points + (kind == "snapped-more")
            edges = np.floor(edges * of / rate + 1e-9) * rate / points  # 1e-9 keeps an edge on its bin.
    left, center, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    right = 2 * center - left if kind == "symmetric" else right
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.where(at < center, (at - left) / (center - left), (right - at) / (right - center))
    weights[~((at >= left) & (at <= right)) | ~np.isfinite(weights)] = 0
    if kind == "snapped":  # Unlike "snapped-more", keep a center that is on the right edge.
        weights[(at == center) & (left < right)] = 1
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
    if edges == "inside":
        x = x[(points - size) // 2 : len(x) - (points - size) // 2]
    elif edges in ("reflect", "constant"):
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


def port_with(**mistakes: Any) -> Callable[[npt.NDArray[Any], dict[str, Any]], Doubles]:
    """Return a port of fbank that knows the usual options, with mistakes."""

    def compute(samples: npt.NDArray[Any], options: dict[str, Any]) -> Doubles:
        rare = {"use_energy": False, "use_log_fbank": True, "vtln_warp": 1.0, "subtract_mean": False}
        if options["program"] != "compute-fbank-feats" or any(options[name] != rare[name] for name in rare):
            raise NotImplementedError
        rate, high = options["sample_frequency"], options["high_freq"]
        given: dict[str, Any] = {
            "window": options["window_type"].replace("hanning", "hann"),
            "preemphasis": options["preemphasis_coefficient"], "remove_dc": options["remove_dc_offset"],
            "length": options["frame_length"], "shift": options["frame_shift"], "bins": options["num_mel_bins"],
            "edges": "snip" if options["snip_edges"] else "kaldi", "low": options["low_freq"],
            "high": high if high > 0 else rate / 2 + high, "power": 2.0 if options["use_power"] else 1.0,
            "points": 1 << (int(rate * options["frame_length"] / 1000) - 1).bit_length(),
        }  # fmt: skip
        return port(samples.astype(np.float64), rate, **given | mistakes)

    return compute


# Maps a mistake to the options with which the port makes it, and the words by which explain names it.
MISTAKES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "samples in -1 to 1": ({"scale": 1 / 32768}, ("samples times 3.05176e-05",)),
    "Hamming window": ({"window": "hamming"}, ("window_type='hamming'",)),
    "Hann window": ({"window": "hann"}, ("window_type='hanning'",)),
    "no window": ({"window": "rectangular"}, ("window_type='rectangular'",)),
    "Blackman window": ({"window": "blackman"}, ("window_type='blackman'",)),
    "periodic Hann window": ({"window": "hann-periodic"}, ("window_type='hanning'", "periodic window")),
    "periodic Hamming window": ({"window": "hamming-periodic"}, ("window_type='hamming'", "periodic window")),
    "no preemphasis": ({"preemphasis": 0.0}, ("preemphasis_coefficient=0.0",)),
    "preemphasis of 0.95": ({"preemphasis": 0.95}, ("preemphasis_coefficient=0.95",)),
    "preemphasis of the whole recording": ({"whole_preemphasis": True}, ("preemphasis of the whole recording",)),
    "DC offset not removed": ({"remove_dc": False}, ("remove_dc_offset=False",)),
    "triangular filters in Hz": ({"filter_kind": "hertz"}, ("triangles in Hz",)),
    "edges of mel bins rounded to FFT bins": ({"filter_kind": "snapped"}, ("rounded down to bins of the FFT",)),
    "edges of mel bins rounded to bins of an FFT with one more point": (
        {"filter_kind": "snapped-more"},
        ("an FFT with one more point",),
    ),
    "symmetric triangular filters, as wide as their left half": (
        {"filter_kind": "symmetric"},
        ("as wide as their left half",),
    ),
    "filters of equal area": ({"filter_kind": "area"}, ("HTK's scale, of equal area",)),
    "lowest frequency of 0 Hz": ({"low": 0.0}, ("low_freq=0.0",)),
    "lowest frequency of 64 Hz": ({"low": 64.0}, ("low_freq=64.0",)),
    "highest frequency of 7600 Hz": ({"high": 7600.0}, ("high_freq=-400.0",)),
    "highest frequency of 7800 Hz": ({"high": 7800.0}, ("high_freq=-200.0",)),
    "magnitudes instead of powers": ({"power": 1.0}, ("use_power=False",)),
    "no logarithm": ({"log": False}, ("use_log_fbank=False",)),
    "floor of 1e-10": ({"floor": 1e-10, "scale": 1 / 32768}, ("floor of 1e-10",)),
    "1e-6 added before the logarithm": ({"added": 1e-6, "scale": 1 / 32768}, ("1e-06 added",)),
    "audio reflected at its ends": ({"edges": "kaldi"}, ("snip_edges=False",)),
    "frames centered in reflected audio": ({"edges": "reflect"}, ("frames centered by padding (reflect)",)),
    "frames centered in audio padded with zeros": ({"edges": "constant"}, ("frames centered by padding (constant)",)),
    "frames as long as the FFT": ({"edges": "inside"}, ("frames as long as the FFT",)),
    "frames of 20 ms": ({"length": 20.0}, ("frame_length=20.0",)),
    "frames of 32 ms": ({"length": 32.0}, ("frame_length=32.0",)),
    "frame shift of 12.5 ms": ({"shift": 12.5}, ("frame_shift=12.5",)),
    "64 mel bins": ({"bins": 64}, ("num_mel_bins=64",)),
    "FFT of 400 points": ({"points": 400}, ("round_to_power_of_two=False",)),
    "four mistakes at once": (
        {"window": "hamming", "filter_kind": "hertz", "preemphasis": 0.0, "edges": "kaldi"},
        ("window_type='hamming'", "triangles in Hz", "preemphasis_coefficient=0.0", "snip_edges=False"),
    ),
}  # fmt: skip

PAGE = Path(__file__).parents[3] / "docs" / "wrong_numbers.md"
HEAD = "| mistake | answer of `explain` |\n| --- | --- |\n"


def table() -> str:
    """Return the rows of the page's table: each mistake, and the words by which explain names it."""
    answers = {name: ", ".join(f"`{word}`" for word in words) for name, (_, words) in MISTAKES.items()}
    return "".join(f"| {name} | {answer} |\n" for name, answer in answers.items())


if __name__ == "__main__":
    before, _, after = PAGE.read_text(encoding="utf-8").partition(HEAD)
    rows = after.splitlines(keepends=True)
    count = next((i for i, line in enumerate(rows) if not line.startswith("|")), len(rows))
    PAGE.write_text(before + HEAD + table() + "".join(rows[count:]), encoding="utf-8")
