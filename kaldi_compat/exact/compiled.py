"""Calls of the C library of the exact engine."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat import native
from kaldi_compat.exact import fft as kaldi_fft
from kaldi_compat.exact.arrays import Floats
from kaldi_compat.exact.batch import AudioBatch
from kaldi_compat.exact.plan import Plan, compute_mixed_radix_tables, compute_split_radix_tables
from kaldi_compat.native import Structure, get_address

FRAMES_AHEAD = 32  # Number of frames for which a stream allocates memory at once, to save time.
KINDS = ("frames", "spectrogram", "fbank", "mfcc", "plp")


@functools.lru_cache(maxsize=64)
def _make_plan_structure(plan: Plan, warps: tuple[float, ...]) -> Structure:
    """Return the plan as a structure for the C library, with the mel filters of the VTLN factors ``warps``."""
    options, half = plan.options, plan.points // 2  # The FFT of a real signal is a complex FFT of half the points.
    tables = native.get_structure("spectral_plan")(
        plan,
        options,
        kind=KINDS.index(plan.kind),
        roots=np.stack(kaldi_fft.compute_roots(plan.points), -1),
    )
    if plan.accurate_fft:
        order = kaldi_fft.reverse_bits(plan.points)
        tables.set_fields(order=order, directions=np.stack(kaldi_fft.compute_cosines_and_sines(plan.points), -1))
    elif half & (half - 1):  # The FFT is mixed-radix, because ``half`` is not a power of two.
        factors, roots = compute_mixed_radix_tables(half)
        # The C library computes a mixed-radix FFT if log_points is -1.
        tables.set_fields(log_points=-1, largest_factor=int(factors.max()), factors=factors, mixed_roots=roots)
        tables.set_fields(order=np.arange(half))
    else:
        log_points = half.bit_length() - 1
        tables.set_fields(
            log_points=log_points, twiddles=compute_split_radix_tables(log_points), order=kaldi_fft.reverse_bits(half)
        )
    if plan.num_mel_bins:
        banks = [plan.compute_mel_table(warp) for warp in warps]
        sizes = np.array([[len(w) for w in bank.weights] for bank in banks], np.int64)
        tables.set_fields(
            mel_first=np.array([bank.first for bank in banks]),
            mel_size=sizes,
            mel_offset=np.concatenate(([0], np.cumsum(sizes.ravel())[:-1])),
            mel_weights=np.concatenate([w for bank in banks for w in bank.weights]),
            loudness=np.stack([bank.loudness for bank in banks]),
        )
    return tables


def compute_batch_features(plan: Plan, batch: AudioBatch, begin: int, end: int, out: Floats) -> None:
    """Compute rows ``begin`` to ``end - 1`` of the features of a batch in C, and write them into ``out``.

    ``out`` is contiguous float32 (end - begin, dim), and ``plan.is_in_c`` must be True. The features have the bits of
    :func:`kaldi_compat.exact.steps.compute_batch_features`. Raise MemoryError if memory is exhausted.
    """
    audio = native.get_structure("audio_batch")(
        samples=get_address(batch.samples),
        count=len(batch.starts),
        start=batch.starts,
        length=batch.lengths,
        first=batch.firsts,
        rows=batch.rows,
        warp=batch.warps,
        seeds=batch.seeds,
        type=batch.samples.dtype == np.float32,  # Type of the samples: 1 for float32, 0 for int16.
    )
    # The variable keeps the tables alive during the call: if two threads compute the same tables, the cache keeps only
    # one of the results.
    tables = _make_plan_structure(plan, batch.warp_factors)
    # Addresses have no type, so the caller must pass arrays of the right types.
    function = native.get_function("spectral_features", takes_addresses=True)
    if function(tables.address, audio.address, begin, end, get_address(out)):
        raise MemoryError(
            "cannot allocate memory for a block of frames: close other programs, or use a machine with more memory"
        )


class ChunkCall:
    """Function that computes the features of frames in a buffer. It reuses C structures and memory between calls."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        # The C structure points to these arrays. Each call changes their elements in place.
        self._length, self._first, self._rows = (np.zeros(size, np.int64) for size in (1, 1, 2))
        self._warp, self._tables = 1.0, _make_plan_structure(plan, (1.0,))
        self._buffer: Floats | None = None  # The buffer of the last call, whose address is in the structure.
        self._audio = native.get_structure("audio_batch")(
            count=1,
            start=np.zeros(1, np.int64),
            length=self._length,
            first=self._first,
            rows=self._rows,
            warp=np.zeros(1, np.int32),
            type=1,  # The samples are float32.
        )
        self._function = native.get_function("spectral_features", takes_addresses=True)
        # Memory for the results of several calls, its address, and the number of its rows that hold results.
        self._frames, self._address, self._used_rows = np.empty((0, plan.dim), np.float32), 0, 0

    def __reduce__(self) -> Any:
        return ChunkCall, (self._plan,)

    def __call__(
        self,
        buffer: Floats,
        length: int,
        first: int,
        count: int,
        vtln_warp: float,
        seeds: npt.NDArray[np.int32] | None,
    ) -> Floats:
        """Return the features of frames in a buffer, float32 (count, dim). The arguments are not checked.

        Args:
            buffer: samples, contiguous float32 (T,).
            length: number of valid samples in the buffer.
            first, count, vtln_warp: see :func:`~kaldi_compat.exact.engine.make_chunk_batch`.
            seeds: ``rand_r()`` state of the noise of each frame, (count,); None without dithering.

        Raises:
            MemoryError: the memory for a block of frames cannot be allocated.
        """
        if count == 0:
            return self._frames[:0]
        if vtln_warp != self._warp:
            self._warp, self._tables = vtln_warp, _make_plan_structure(self._plan, (float(np.float32(vtln_warp)),))
        fields = self._audio.fields
        if buffer is not self._buffer:
            self._buffer = buffer
            fields.samples = get_address(buffer)
        self._length[0], self._first[0], self._rows[1] = length, first, count
        fields.seeds = None if seeds is None else get_address(seeds)
        begin, end = self._used_rows, self._used_rows + count  # Rows of the memory that receive the features.
        if end > len(self._frames):
            self._frames = np.empty((max(count, FRAMES_AHEAD), self._plan.dim), np.float32)
            self._address, begin, end = get_address(self._frames), 0, count
        self._used_rows = end
        out = self._address + 4 * self._plan.dim * begin  # A float has 4 bytes.
        if self._function(self._tables.address, self._audio.address, 0, count, out):
            raise MemoryError(
                "cannot allocate memory for a block of frames: close other programs, or use a machine with more memory"
            )
        features = self._frames[begin:end]
        # A long chunk may have made the memory large, so release it when all its rows are used.
        if end == len(self._frames):
            self._frames, self._used_rows, self._buffer = np.empty((0, self._plan.dim), np.float32), 0, None
        return features
