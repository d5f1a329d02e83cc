"""Call the C functions that process features of many utterances at once."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.native.compressed import address
from kaldi_compat.native import library

__all__ = [
    "affine",
    "appended",
    "columns",
    "filtered",
    "products",
    "sliding",
    "smooth_pitch",
    "spliced",
    "stats",
    "vad",
    "weighted_stats",
    "window_means",
]

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_POINTER, _SIZE, _INT, _FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_float
_RAGGED = (_POINTER, _POINTER, _SIZE, _SIZE)
_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "ragged_affine": (*_RAGGED, _POINTER, _POINTER, _POINTER),
    "ragged_append": (*_RAGGED, _POINTER, _SIZE, _POINTER),
    "ragged_columns": (_POINTER, _SIZE, _SIZE, _POINTER, _SIZE, _POINTER),
    "ragged_filter": (*_RAGGED, _POINTER, _POINTER, _POINTER, _INT, _POINTER),
    "ragged_products": (*_RAGGED, _POINTER, _POINTER),
    "ragged_sliding": (*_RAGGED, _SIZE, _SIZE, _INT, _INT, _POINTER),
    "ragged_smooth_pitch": (*_RAGGED, _SIZE, _SIZE, _POINTER, _POINTER),
    "ragged_splice": (*_RAGGED, _INT, _INT, _POINTER),
    "ragged_stats": (*_RAGGED, _POINTER),
    "ragged_weighted_stats": (*_RAGGED, _POINTER, _POINTER),
    "ragged_vad": (*_RAGGED, _FLOAT, _FLOAT, _INT, _FLOAT, _POINTER, _POINTER),
    "ragged_window_means": (_POINTER, _POINTER, _POINTER, _SIZE, _SIZE, _SIZE, _POINTER),
}


# Made once: setting the types of a function's arguments while another thread calls it crashes.
@functools.cache
def _function(name: str, level: str | None) -> Any:
    return library().function(name, *_ARGUMENTS[name], level=level)


def _ragged(x: Floats, rows: Integers) -> tuple[int, int, int, int]:
    """Return the first arguments of most functions: two addresses, the number of utterances, and the columns."""
    if x.ndim != 2 or x.dtype != np.float32 or not x.flags.c_contiguous or not rows.flags.c_contiguous:
        raise ValueError("features of a ragged batch must be contiguous float32 (rows, dim)")
    if rows.dtype != np.int64 or rows[0] != 0 or rows[-1] != len(x) or (rows[1:] < rows[:-1]).any():
        raise ValueError(f"the boundaries of utterances do not belong to {len(x)} rows")
    return address(x), address(rows), len(rows) - 1, x.shape[1]


def filtered(
    x: Floats, rows: Integers, filters: Sequence[Sequence[float]], firsts: Sequence[int], level: str | None = None
) -> Floats:
    """Filter each utterance along time: see :func:`kaldi_compat.exact.ragged.filtered`."""
    weights = np.array([weight for each in filters for weight in each], np.float32)
    taps, starts = np.array([len(each) for each in filters], np.int32), np.array(firsts, np.int32)
    out = np.empty((len(x), x.shape[1] * len(filters)), np.float32)
    pointers = (address(weights), address(taps), address(starts))
    if _function("ragged_filter", level)(*_ragged(x, rows), *pointers, len(filters), address(out)):
        raise MemoryError("no memory for the context of some frames")
    return out


def spliced(x: Floats, rows: Integers, left: int, right: int, level: str | None = None) -> Floats:
    """Return each frame with its neighbours."""
    out = np.empty((len(x), x.shape[1] * (left + 1 + right)), np.float32)
    _function("ragged_splice", level)(*_ragged(x, rows), left, right, address(out))
    return out


def columns(x: Floats, chosen: Sequence[int], level: str | None = None) -> Floats:
    """Return some columns."""
    places = np.array(chosen, np.int32)
    if len(places) and not 0 <= places.min() <= places.max() < x.shape[1]:
        raise ValueError(f"no such column among {x.shape[1]}")
    out = np.empty((len(x), len(places)), np.float32)
    data, _, _, dim = _ragged(x, np.array([0, len(x)]))
    _function("ragged_columns", level)(data, len(x), dim, address(places), len(places), address(out))
    return out


def affine(x: Floats, rows: Integers, scale: Floats | None, offset: Floats, level: str | None = None) -> Floats:
    """Return ``x * scale + offset`` with factors and offsets (utterances, dim)."""
    shape = (len(rows) - 1, x.shape[1])
    if offset.shape != shape or (scale is not None and scale.shape != shape):
        raise ValueError(f"factors and offsets must have the shape {shape}")
    out = np.empty_like(x)
    added = np.ascontiguousarray(offset, np.float32)
    factor = None if scale is None else np.ascontiguousarray(scale, np.float32)
    pointers = (None if factor is None else address(factor), address(added), address(out))
    _function("ragged_affine", level)(*_ragged(x, rows), *pointers)
    return out


def stats(x: Floats, rows: Integers, onto: Doubles, level: str | None = None) -> None:
    """Add the statistics of each utterance onto ``onto`` (utterances, 2, dim + 1)."""
    if onto.shape != (len(rows) - 1, 2, x.shape[1] + 1) or onto.dtype != np.float64 or not onto.flags.c_contiguous:
        raise ValueError("statistics must be contiguous float64 (utterances, 2, dim + 1)")
    _function("ragged_stats", level)(*_ragged(x, rows), address(onto))


def weighted_stats(x: Floats, rows: Integers, weights: Floats, level: str | None = None) -> Doubles:
    """Return the statistics of each utterance (utterances, 2, dim + 1) of frames with weights (frames,)."""
    weights = np.ascontiguousarray(weights, np.float32)
    if weights.shape != (len(x),):
        raise ValueError(f"{weights.size} weights do not belong to {len(x)} rows")
    out = np.zeros((len(rows) - 1, 2, x.shape[1] + 1))
    _function("ragged_weighted_stats", level)(*_ragged(x, rows), address(weights), address(out))
    return out


def products(x: Floats, rows: Integers, y: Floats, level: str | None = None) -> Floats:
    """Return the sums of products of columns: see :func:`kaldi_compat.exact.ragged.products`."""
    y = np.ascontiguousarray(y, np.float32)
    if y.shape != x.shape:
        raise ValueError(f"features of shape {y.shape} do not belong to those of shape {x.shape}")
    out = np.empty((len(rows) - 1, 3, x.shape[1]), np.float32)
    _function("ragged_products", level)(*_ragged(x, rows), address(y), address(out))
    return out


def appended(x: Floats, rows: Integers, vectors: Floats, level: str | None = None) -> Floats:
    """Return each frame with its utterance's vector (utterances, width) after it."""
    vectors = np.ascontiguousarray(vectors, np.float32)
    if vectors.ndim != 2 or len(vectors) != len(rows) - 1:
        raise ValueError(f"vectors of shape {vectors.shape} do not belong to {len(rows) - 1} utterances")
    out = np.empty((len(x), x.shape[1] + vectors.shape[1]), np.float32)
    _function("ragged_append", level)(*_ragged(x, rows), address(vectors), vectors.shape[1], address(out))
    return out


def sliding(
    x: Floats, rows: Integers, window: int, least: int, center: bool, norm_vars: bool, level: str | None = None
) -> Floats | None:
    """Normalize each frame over its window; None if a variance would be floored."""
    out = np.empty_like(x)
    status = _function("ragged_sliding", level)(*_ragged(x, rows), window, least, center, norm_vars, address(out))
    if status == 1:
        raise MemoryError("no memory for the sums over a window")
    return None if status else out


def vad(
    x: Floats,
    rows: Integers,
    threshold: float,
    mean_scale: float,
    context: int,
    proportion: float,
    level: str | None = None,
) -> tuple[Floats, Integers]:
    """Return 1 for each voiced frame and 0 for others, and the number of voiced frames of each utterance."""
    out, voiced = np.empty(len(x), np.float32), np.empty(len(rows) - 1, np.int64)
    numbers = (threshold, mean_scale, context, proportion)
    _function("ragged_vad", level)(*_ragged(x, rows), *numbers, address(out), address(voiced))
    return out, voiced


def window_means(
    weights: Floats, weighted: Floats, rows: Integers, left: int, right: int, level: str | None = None
) -> Floats:
    """Return weighted means over windows: see :func:`kaldi_compat.exact.ragged.window_means`."""
    column = np.ascontiguousarray(weights).reshape(-1, 1)
    data, bounds, count, _ = _ragged(column, rows)
    if weighted.shape != weights.shape or weighted.dtype != np.float32 or min(left, right) < -1:
        raise ValueError("weighted values must be float32 like their weights, and a window at most one frame short")
    values = np.ascontiguousarray(weighted)
    out = np.empty(len(weights), np.float32)
    _function("ragged_window_means", level)(data, address(values), bounds, count, left, right, address(out))
    return out


def smooth_pitch(x: Floats, rows: Integers, mean_window: int, average_window: int, level: str | None = None) -> Floats:
    """Return smoothed tracks: see :func:`kaldi_compat.pitch.smooth.smooth_ragged`."""
    if x.shape[1] < 2 or min(mean_window, average_window) < 1:
        raise ValueError("a track has two columns or more, and a window has one value or more")
    out, work = np.empty_like(x), np.empty(2 * int(np.diff(rows).max(initial=0)), np.float32)
    _function("ragged_smooth_pitch", level)(*_ragged(x, rows), mean_window, average_window, address(work), address(out))
    return out
