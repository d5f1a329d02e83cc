"""Call the C half of the pitch tracker."""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.native import library
from kaldi_compat.native.structures import Structure

if TYPE_CHECKING:
    from kaldi_compat.pitch.exact import PitchTables
    from kaldi_compat.pitch.ragged import RaggedFrames

__all__ = ["correlate", "interpolate", "search", "track"]

Floats = npt.NDArray[np.float32]
States = npt.NDArray[np.int16]
Groups = npt.NDArray[np.uint8]


class _Plan(ctypes.Structure):
    """``pitch_plan`` of ``pitch_simd.c``."""

    _fields_ = [
        *((name, ctypes.c_int32) for name in ("window", "span", "first_lag", "lags", "states")),
        *((name, ctypes.c_float) for name in ("step", "soft_min_f0")),
        *((name, ctypes.c_void_p) for name in ("first", "columns", "offset", "weights", "seconds", "pitch")),
    ]


class _Batch(ctypes.Structure):
    """``pitch_batch`` of ``pitch_simd.c``."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("signal", "start", "length", "rows")),
        *((name, ctypes.c_int64) for name in ("count", "first", "shift")),
        *((name, ctypes.c_void_p) for name in ("ballast", "revised_from", "revised_to", "groups")),
    ]


@functools.lru_cache(maxsize=16)
def _plan(tables: PitchTables) -> Structure:
    holder = Structure(_Plan())
    c, pointer = holder.structure, holder.pointer
    c.window, c.span, c.first_lag, c.lags = tables.window, tables.span, tables.first_lag, tables.lags
    c.states, c.step, c.soft_min_f0 = len(tables.weights), tables.step, tables.soft_min_f0
    c.first, c.columns = pointer(tables.first, np.int32), pointer(tables.columns, np.int32)
    c.offset = pointer(np.concatenate(([0], np.cumsum(tables.columns[:-1]))), np.int64)
    c.weights, c.seconds = pointer(np.concatenate(tables.weights)), pointer(tables.seconds)
    c.pitch = pointer(tables.pitch)
    return holder


# Made once: setting the types of a function's arguments while another thread calls it crashes.
@functools.cache
def _function(name: str, level: str | None) -> Any:
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    arguments = {
        "pitch_correlate": (pointer, pointer, number, number, pointer, pointer, pointer, pointer),
        "pitch_search": (pointer, pointer, pointer, pointer, number, pointer, pointer, pointer),
        "pitch_interpolate": (pointer, pointer, pointer, pointer, number, pointer),
        "pitch_track": (pointer, pointer, pointer),
    }
    return library().function(name, *arguments[name], level=level)


def _call(name: str, tables: PitchTables, *arguments: Any, level: str | None) -> None:
    # The holder owns the tables: two threads may make one at the same time, of which the cache keeps only one.
    holder = _plan(tables)
    values = (each.ctypes.data if isinstance(each, np.ndarray) else each for each in arguments)
    if _function(name, level)(ctypes.byref(holder.structure), *values):
        raise MemoryError("no memory for a block of frames")


def _check(array: npt.NDArray[Any], shape: tuple[int, ...], dtype: Any) -> None:
    if array.shape != shape or array.dtype != dtype or not array.flags.c_contiguous:
        raise ValueError(f"expected a contiguous {np.dtype(dtype)} array of shape {shape}")


def correlate(
    tables: PitchTables, signal: Floats, shift: int, ballast: Floats, level: str | None = None
) -> tuple[Floats, Floats, Floats]:
    """Call ``pitch_correlate``: see :func:`kaldi_compat.pitch.exact.correlate`."""
    frames = len(ballast)
    _check(ballast, (frames,), np.float32)
    _check(signal, (len(signal),), np.float32)
    if frames and (frames - 1) * shift + tables.span > len(signal):
        raise ValueError(f"a signal of {len(signal)} samples is too short for {frames} frames")
    searched, correlation = (np.empty((frames, tables.lags), np.float32) for _ in range(2))
    average = np.empty(frames, np.float32)
    _call("pitch_correlate", tables, signal, shift, frames, ballast, searched, correlation, average, level=level)
    return searched, correlation, average


def search(
    tables: PitchTables,
    searched: Floats,
    scale: Floats,
    groups: Groups,
    costs: Floats,
    predecessors: States,
    best: States,
    level: str | None = None,
) -> None:
    """Call ``pitch_search``: see :func:`kaldi_compat.pitch.exact.search`."""
    frames, states = len(searched), len(tables.weights)
    _check(searched, (frames, tables.lags), np.float32)
    _check(scale, (frames,), np.float32)
    _check(groups, (frames,), np.uint8)
    _check(costs, (states,), np.float32)
    _check(predecessors, (frames, states), np.int16)
    _check(best, (frames,), np.int16)
    _call("pitch_search", tables, searched, scale, groups, frames, costs, predecessors, best, level=level)


def interpolate(
    tables: PitchTables, correlation: Floats, groups: Groups, path: States, level: str | None = None
) -> Floats:
    """Call ``pitch_interpolate``: see :func:`kaldi_compat.pitch.exact.interpolate`."""
    frames = len(path)
    _check(correlation, (frames, tables.lags), np.float32)
    _check(groups, (frames,), np.uint8)
    _check(path, (frames,), np.int16)
    if frames and not 0 <= int(path.min()) <= int(path.max()) < len(tables.weights):
        raise ValueError("a path of states that do not exist")
    out = np.empty(frames, np.float32)
    _call("pitch_interpolate", tables, correlation, groups, path, frames, out, level=level)
    return out


def track(tables: PitchTables, batch: RaggedFrames, first: int, level: str | None = None) -> Floats | None:
    """Call ``pitch_track``: track the pitch of the frames of a batch.

    Args:
        tables: of the tracker.
        batch: the resampled audio and its frames.
        first: sample of an utterance that its first frame starts at.
        level: the instruction set; the best by default.

    Returns:
        (rows, 2): correlation and pitch; None if a correlation overflows.
    """
    utterances, rows = len(batch.starts), int(batch.rows[-1])
    _check(batch.signal, (len(batch.signal),), np.float32)
    _check(batch.rows, (utterances + 1,), np.int64)
    if batch.lengths.shape != (utterances,) or batch.rows[0] != 0 or (np.diff(batch.rows) < 0).any():
        raise ValueError("utterances and their frames do not belong together")
    if (
        (batch.starts < 0).any()
        or (batch.lengths < 0).any()
        or (batch.starts + batch.lengths > len(batch.signal)).any()
    ):
        raise ValueError(f"an utterance lies outside of the {len(batch.signal)} samples")
    holder = Structure(_Batch())
    c, pointer = holder.structure, holder.pointer
    c.signal, c.start, c.length = (
        pointer(batch.signal),
        pointer(batch.starts, np.int64),
        pointer(batch.lengths, np.int64),
    )
    c.rows, c.count, c.first, c.shift = pointer(batch.rows, np.int64), utterances, first, tables.shift
    for name, dtype in (("ballast", np.float32), ("groups", np.uint8)):
        _check(getattr(batch, name), (rows,), dtype)
        setattr(c, name, pointer(getattr(batch, name), dtype))
    if batch.revised is not None:
        for each in batch.revised:
            _check(each, (rows,), np.float32)
        c.revised_from, c.revised_to = (pointer(each) for each in batch.revised)
    out = np.empty((rows, 2), np.float32)
    tables_for_c = _plan(tables)
    status = _function("pitch_track", level)(ctypes.byref(tables_for_c.structure), ctypes.byref(c), out.ctypes.data)
    if status == 1:
        raise MemoryError("no memory for the paths of an utterance")
    return out if status == 0 else None
