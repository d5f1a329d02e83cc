"""Call the C half of the exact engine."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.exact import fft as kaldi_fft
from kaldi_compat.exact import plan as tables
from kaldi_compat.exact.batch import AudioBatch
from kaldi_compat.exact.plan import Plan
from kaldi_compat.native import library
from kaldi_compat.native.structures import Structure

__all__ = ["ChunkCall", "compute"]

KINDS = ("spectrogram", "fbank", "mfcc", "plp")


class _Plan(ctypes.Structure):
    """``spectral_plan`` of ``spectral_simd.c``."""

    _fields_ = [
        *((name, ctypes.c_int32) for name in ("kind", "size", "shift", "points", "dim")),
        *((name, ctypes.c_int32) for name in ("remove_dc", "use_energy", "raw_energy", "use_log", "use_power")),
        *((name, ctypes.c_int32) for name in ("htk_compat", "raw_fft", "num_bins", "num_ceps", "lpc_order")),
        *((name, ctypes.c_int32) for name in ("log_points", "largest_factor")),
        *((name, ctypes.c_float) for name in ("scale", "dither", "preemphasis", "energy_minimum", "log_energy_floor")),
        *((name, ctypes.c_float) for name in ("compress_factor", "cepstral_scale")),
        ("window", ctypes.c_void_p),
        ("twiddles", ctypes.c_void_p * 32),
        *((name, ctypes.c_void_p) for name in ("factors", "mixed_roots", "roots", "order", "cosines", "lifter")),
        *((name, ctypes.c_void_p) for name in ("mel_first", "mel_size", "mel_offset", "mel_weights", "loudness")),
    ]


class _Batch(ctypes.Structure):
    """``audio_batch`` of ``spectral_simd.c``."""

    _fields_ = [
        ("samples", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("start", "length", "first", "rows", "warp", "seeds")),
        ("type", ctypes.c_int32),
    ]


@functools.lru_cache(maxsize=64)
def _plan_structure(plan: Plan, warps: tuple[float, ...]) -> Structure:
    options, half = plan.options, plan.points // 2
    holder = Structure(_Plan())
    c, pointer = holder.structure, holder.pointer
    c.kind, c.size, c.shift, c.points, c.dim = KINDS.index(plan.kind), plan.size, plan.shift, plan.points, plan.dim
    c.remove_dc, c.use_energy, c.raw_energy = options.remove_dc_offset, plan.use_energy, options.raw_energy
    c.use_log, c.use_power = getattr(options, "use_log_fbank", True), getattr(options, "use_power", True)
    c.htk_compat, c.raw_fft = getattr(options, "htk_compat", False), getattr(options, "return_raw_fft", False)
    c.num_bins, c.num_ceps = getattr(options, "num_mel_bins", 0), getattr(options, "num_ceps", 0)
    c.lpc_order = getattr(options, "lpc_order", 0)
    c.scale, c.dither, c.preemphasis = options.waveform_scale, options.dither, options.preemphasis_coefficient
    c.energy_minimum, c.log_energy_floor = plan.energy_minimum, plan.log_energy_floor
    c.compress_factor = getattr(options, "compress_factor", 0.0)
    c.cepstral_scale = getattr(options, "cepstral_scale", 1.0)
    c.window, c.cosines, c.lifter = pointer(plan.window), pointer(plan.matrix), pointer(plan.lifter)
    c.roots = pointer(np.stack(kaldi_fft.roots(plan.points), -1))
    if half & (half - 1):
        factors, roots = tables.mixed_radix_tables(half)
        c.log_points, c.largest_factor = -1, int(factors.max())
        c.factors, c.mixed_roots = pointer(factors, np.int32), pointer(roots)
        c.order = pointer(np.arange(half), np.int32)
    else:
        c.log_points = half.bit_length() - 1
        for k, table in enumerate(tables.split_radix_tables(c.log_points), start=3):
            c.twiddles[k] = pointer(table)
        c.order = pointer(kaldi_fft.bit_reversed(half), np.int32)
    if c.num_bins:
        banks = [tables.mel_table(options, warp) for warp in warps]
        sizes = np.array([[len(w) for w in bank.weights] for bank in banks], np.int64)
        c.mel_first = pointer(np.array([bank.first for bank in banks]), np.int32)
        c.mel_size = pointer(sizes, np.int32)
        c.mel_offset = pointer(np.concatenate(([0], np.cumsum(sizes.ravel())[:-1])), np.int64)
        c.mel_weights = pointer(np.concatenate([w for bank in banks for w in bank.weights]))
        c.loudness = pointer(np.stack([bank.loudness for bank in banks]))
    return holder


# Made once: setting the types of a function's arguments while another thread calls it crashes.
@functools.cache
def _function(level: str | None) -> Any:
    pointer = ctypes.c_void_p
    return library().function(
        "spectral_features", pointer, pointer, ctypes.c_int64, ctypes.c_int64, pointer, level=level
    )


def compute(
    plan: Plan, batch: AudioBatch, begin: int, end: int, out: npt.NDArray[np.float32], level: str | None = None
) -> None:
    """Compute rows ``begin`` to ``end`` of the features of a batch into ``out`` (end - begin, dim).

    Args:
        level: the instruction set; the best by default.

    Raises:
        MemoryError: there is no memory for a block of frames.
    """
    holder = Structure(_Batch())
    c, pointer = holder.structure, holder.pointer
    c.samples, c.count, c.type = batch.samples.ctypes.data, len(batch.starts), batch.samples.dtype == np.float32
    c.start, c.length = pointer(batch.starts, np.int64), pointer(batch.lengths, np.int64)
    c.first, c.rows = pointer(batch.firsts, np.int64), pointer(batch.rows, np.int64)
    c.warp, c.seeds = pointer(batch.warps, np.int32), pointer(batch.seeds, np.int32)
    # The holder owns the tables: two threads may make one at the same time, of which the cache keeps only one.
    tables_for_c = _plan_structure(plan, batch.warp_factors)
    if _function(level)(ctypes.byref(tables_for_c.structure), ctypes.byref(c), begin, end, out.ctypes.data):
        raise MemoryError("no memory for a block of frames")


class ChunkCall:
    """Computes frames of a buffer, again and again: the structures for C are made once."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._numbers = np.zeros(5, np.int64)  # start and length of the buffer, its first frame, and the rows
        self._warp_index = np.zeros(1, np.int32)
        self._warp, self._tables = 1.0, _plan_structure(plan, (1.0,))
        self._batch = c = _Batch()
        address = self._numbers.ctypes.data
        c.count, c.start, c.length, c.first, c.rows = 1, address, address + 8, address + 16, address + 24
        c.warp = self._warp_index.ctypes.data

    def __reduce__(self) -> Any:
        return ChunkCall, (self._plan,)

    def __call__(
        self,
        samples: npt.NDArray[Any],
        first: int,
        count: int,
        vtln_warp: float,
        seeds: npt.NDArray[np.int32] | None,
    ) -> npt.NDArray[np.float32]:
        """Compute frames: arguments as for :func:`~kaldi_compat.exact.batch.chunk_batch`, which are not checked.

        Returns:
            (count, dim).

        Raises:
            MemoryError: there is no memory for a block of frames.
        """
        out = np.empty((count, self._plan.dim), np.float32)
        if count == 0:
            return out
        factor = float(np.float32(vtln_warp))
        if factor != self._warp:
            self._warp, self._tables = factor, _plan_structure(self._plan, (factor,))
        self._numbers[1], self._numbers[2], self._numbers[4] = len(samples), first, count
        c = self._batch
        c.samples, c.type = samples.ctypes.data, samples.dtype == np.float32
        c.seeds = None if seeds is None else seeds.ctypes.data
        tables_for_c = self._tables.structure
        if _function(None)(ctypes.byref(tables_for_c), ctypes.byref(c), 0, count, out.ctypes.data):
            raise MemoryError("no memory for a block of frames")
        return out
