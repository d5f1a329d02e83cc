"""Call the C half of the interpolation of pitch."""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.exact.rand import rand_r_jumps
from kaldi_compat.native import library
from kaldi_compat.native.structures import Structure

if TYPE_CHECKING:
    from kaldi_compat.pitch.interpolate import RaggedGrids

__all__ = ["MAX_REACH", "most_probable_paths"]

MAX_REACH = 127
"""Pitches of the grid by which the pitch may move from frame to frame, at most."""

_MOST_LANES = 16


class _Grids(ctypes.Structure):
    """``pitch_grids`` of ``interpolate_simd.c``."""

    _fields_ = [
        ("rows", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("states", "bottom", "nearest", "elsewhere", "here", "seeds")),
        *((name, ctypes.c_void_p) for name in ("multipliers", "increments")),
        *((name, ctypes.c_int64) for name in ("pairs", "reach")),
        ("interval", ctypes.c_float),
        ("noise", ctypes.c_double),
    ]


# Made once: setting the types of a function's arguments while another thread calls it crashes.
@functools.cache
def _function(level: str | None) -> Any:
    return library().function("interpolate_pitch", ctypes.c_void_p, ctypes.c_void_p, level=level)


def most_probable_paths(
    grids: RaggedGrids, reach: int, interval: np.float32, noise: float, level: str | None = None
) -> npt.NDArray[np.int64]:
    """Return the states of the most probable paths (rows,).

    Args:
        grids: of the utterances.
        reach: pitches of the grid that the pitch may move by.
        interval: their distance in Hz.
        noise: standard deviation of the noise on halved log probabilities.
        level: the instruction set; the best by default.

    Raises:
        MemoryError: there is no memory for the moves of the longest utterance.
    """
    rows = int(grids.bounds[-1])
    fields = (grids.bottom, grids.nearest, grids.elsewhere, grids.here, grids.seeds)
    if any(each.shape != (rows,) for each in fields) or not 0 <= reach <= MAX_REACH:
        raise ValueError("the frames of the grids do not belong together")
    states = np.repeat(grids.states, np.diff(grids.bounds))
    if rows and (grids.states.min() < 1 or grids.nearest.min() < 0 or (grids.nearest >= states).any()):
        raise ValueError("a pitch that is not on its grid")
    pairs = -(-int(grids.states.max(initial=1)) // (2 * _MOST_LANES)) * _MOST_LANES
    multipliers, increments = rand_r_jumps(pairs)
    holder = Structure(_Grids())
    c, pointer = holder.structure, holder.pointer
    c.rows, c.count, c.states = pointer(grids.bounds, np.int64), len(grids.states), pointer(grids.states, np.int64)
    c.bottom, c.nearest, c.seeds = (
        pointer(grids.bottom),
        pointer(grids.nearest, np.int64),
        pointer(grids.seeds, np.int32),
    )
    c.elsewhere, c.here = pointer(grids.elsewhere), pointer(grids.here)
    c.multipliers, c.increments = pointer(multipliers, np.int32), pointer(increments, np.int32)
    c.pairs, c.reach, c.interval, c.noise = pairs, reach, interval, noise
    path = np.empty(rows, np.int64)
    if _function(level)(ctypes.byref(c), path.ctypes.data):
        raise MemoryError("no memory for the moves on a grid of pitches")
    return path
