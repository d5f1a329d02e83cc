"""Launch of the kernels that compress matrices on a GPU."""

from __future__ import annotations

import functools
import io
import itertools
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from io_ark.codecs import CompressionMethod, codec
from kaldi_compat.exact.arrays import Integers
from kaldi_compat.torch.kernels import compiling_alone, fault_shown_by
from kaldi_compat.torch.kernels.compress import integers_kernel, ranges_kernel, speech_kernel
from kaldi_compat.torch.tensors.copies import to_device

logger = logging.getLogger("kaldi_compat")

Array = npt.NDArray[Any]
# Indices within an utterance are 32-bit integers, doubled, or those of steps, which have a row for each of 8 columns.
MAX_ELEMENTS = 1 << 30
# Fewer rows are compressed in two bytes by Kaldi's automatic choice.
FEWEST_ROWS_OF_SPEECH = 9
COLUMNS = 8  # of a program: as many as a memory transaction
FRAMES = 128  # read at once
# The format, the greatest code, and the fixed range, if it is not the matrix's own.
_FORMATS: dict[CompressionMethod, tuple[bytes, int, tuple[float, float] | None]] = {
    CompressionMethod.TWO_BYTE_AUTO: (b"CM2", 65535, None),
    CompressionMethod.TWO_BYTE_SIGNED_INTEGER: (b"CM2", 65535, (-32768.0, 65535.0)),
    CompressionMethod.ONE_BYTE_AUTO: (b"CM3", 255, None),
    CompressionMethod.ONE_BYTE_UNSIGNED_INTEGER: (b"CM3", 255, (0.0, 255.0)),
    CompressionMethod.ONE_BYTE_ZERO_ONE: (b"CM3", 255, (0.0, 1.0)),
}


class Parts(NamedTuple):
    """Compressed matrices of one format."""

    members: Integers  # (matrices,): their indices
    columns: int  # of each
    kind: bytes  # their format: CM, CM2 or CM3
    counts: Integers  # (matrices,): rows of each
    # least values and ranges, float32 (matrices, 2); percentiles, int16 (matrices, columns, 4) or empty; codes, uint8
    # or int16
    tensors: tuple[Tensor, Tensor, Tensor]

    def objects(self, arrays: Sequence[Array]) -> list[tuple[memoryview, ...] | None]:
        """Return the matrices as archives have them, each in pieces, from the tensors as arrays on the host.

        None stands for a matrix with a range that is not finite, which cannot be compressed.
        """
        (headers, percentiles, codes), columns = arrays, self.columns
        token = b"\0B" + self.kind + b" "
        fields = [("token", f"S{len(token)}"), ("least", "<f4"), ("range", "<f4"), ("rows", "<i4"), ("columns", "<i4")]
        heads = np.empty(len(headers), fields)
        heads["token"], heads["columns"], heads["rows"] = token, columns, self.counts
        heads["least"], heads["range"] = headers.T
        each = np.arange(len(heads) + 1)
        pieces = [_cut(heads, each * heads.itemsize)]
        if self.kind == b"CM":
            pieces.append(_cut(percentiles, each * 8 * columns))
        pieces.append(_cut(codes, np.concatenate(([0], np.cumsum(self.counts))) * columns * codes.itemsize))
        finite = np.isfinite(headers[:, 1]).tolist()
        return [each if good else None for each, good in zip(zip(*pieces, strict=True), finite, strict=True)]

    def statistics(self, arrays: Sequence[Array]) -> npt.NDArray[np.float64]:
        """Return CMVN statistics, (matrices, 2, columns + 1): sums and count, and sums of squares and 0."""
        statistics = np.pad(arrays[3], ((0, 0), (0, 0), (0, 1)))
        statistics[:, 0, -1] = self.counts
        return statistics


def _cut(array: Array, bounds: Integers) -> list[memoryview]:
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    return [data[begin:end] for begin, end in itertools.pairwise(bounds.tolist())]


def has_short_indices(counts: Integers, dim: int) -> npt.NDArray[np.bool_]:
    """Return which matrices, of these numbers of rows and ``dim`` columns, the kernels can compress.

    >>> has_short_indices(np.array([1 << 26, 1 << 27]), 3)
    array([ True, False])
    """
    return counts * max(dim, COLUMNS) < MAX_ELEMENTS


def compress_rows(features: Tensor, places: Integers, method: CompressionMethod) -> list[Parts]:
    """Compress matrices that are ranges of rows of a tensor.

    Args:
        features: float32 (frames, dim) on a GPU, or anywhere for Triton's interpreter.
        places: (matrices, 2): first row and number of rows of each matrix, at least one.
        method: how.

    Returns:
        the matrices by format, on the device.
    """
    members = np.arange(len(places))
    chosen: list[tuple[Integers, CompressionMethod]]
    if method != CompressionMethod.AUTO:
        chosen = [(members, method)]
    else:
        long = places[:, 1] >= FEWEST_ROWS_OF_SPEECH
        both = (members[long], CompressionMethod.SPEECH_FEATURE), (members[~long], CompressionMethod.TWO_BYTE_AUTO)
        chosen = [each for each in both if len(each[0])]
    found = []
    for own, each in chosen:
        compressed = _speech if each == CompressionMethod.SPEECH_FEATURE else _integers
        kind, tensors = compressed(_launch(features, places[own]), each)
        found.append(Parts(own, features.shape[1], kind, places[own, 1], tensors))
    return found


class _Launch(NamedTuple):
    """Matrices and their ranges, as the kernels take them."""

    features: Tensor
    grid: tuple[int, int]
    table: Tensor
    ranges: Tensor
    zeros: Tensor
    headers: Tensor
    elements: int
    steps: int
    groups: int

    @property
    def arguments(self) -> tuple[Tensor, ...]:
        return self.features, self.table, self.ranges, self.zeros, self.headers


def _launch(features: Tensor, places: Integers) -> _Launch:
    dim, counts = features.shape[1], places[:, 1]
    grid = (len(places), -(-dim // COLUMNS))
    ends = np.cumsum(counts * dim)
    scratch = -(-counts // FRAMES) * FRAMES * grid[1] * COLUMNS
    steps = np.cumsum(scratch)
    table = to_device(
        torch.from_numpy(np.column_stack((places, ends - counts * dim, steps - scratch))), features.device
    )
    ranges = features.new_empty((*grid, 2))
    zeros = features.new_empty(grid, dtype=torch.int32)
    with torch.cuda.device_of(features):  # type: ignore[no-untyped-call]
        ranges_kernel[grid](features, table, ranges, zeros, features.stride(0), dim, **_tile(64))
    headers = features.new_empty((len(places), 2))
    groups = 1 << (grid[1] - 1).bit_length()
    return _Launch(features, grid, table, ranges, zeros, headers, int(ends[-1]), int(steps[-1]), groups)


def _tile(frames: int) -> dict[str, Any]:
    # Fused multiply-adds would round otherwise than Kaldi.
    return {"FRAMES": frames, "COLUMNS": COLUMNS, "num_warps": 4, "enable_fp_fusion": False}


def _speech(made: _Launch, method: CompressionMethod) -> tuple[bytes, tuple[Tensor, Tensor, Tensor]]:
    features, dim = made.features, made.features.shape[1]
    percentiles = features.new_empty((made.grid[0], dim, 4), dtype=torch.int16)
    steps = features.new_empty(made.steps, dtype=torch.int16)
    codes = features.new_empty(made.elements, dtype=torch.uint8)
    with torch.cuda.device_of(features):  # type: ignore[no-untyped-call]
        speech_kernel[made.grid](
            *made.arguments,
            percentiles,
            steps,
            codes,
            features.stride(0),
            dim,
            GROUPS=made.groups,
            **_tile(FRAMES),
        )
    return b"CM", (made.headers, percentiles, codes)


def _integers(made: _Launch, method: CompressionMethod) -> tuple[bytes, tuple[Tensor, Tensor, Tensor]]:
    features, dim = made.features, made.features.shape[1]
    kind, top, fixed = _FORMATS[method]
    codes = features.new_empty(made.elements, dtype=torch.int16 if top == 65535 else torch.uint8)
    low, width = fixed or (0.0, 1.0)
    with torch.cuda.device_of(features):  # type: ignore[no-untyped-call]
        integers_kernel[made.grid](
            *made.arguments,
            codes,
            features.stride(0),
            dim,
            low,
            width,
            GROUPS=made.groups,
            TOP=top,
            FIXED=fixed is not None,
            **_tile(64),
        )
    return kind, (made.headers, features.new_empty((0, dim, 4), dtype=torch.int16), codes)


@functools.cache
def fault_of_compression(device: torch.device) -> str:
    """Compare the kernels with the codec on a device, once; return their fault, or an empty string."""
    with compiling_alone(("compression", device)):
        fault = _fault(device)
    if fault:
        logger.warning("compressing what is computed on %s on the CPU: %s", device, fault)
    return fault


def _fault(device: torch.device) -> str:
    values = np.random.default_rng(0).normal(3, 4, (145, 9)).astype(np.float32)
    values[5] = np.round(values[5])
    places = np.array([[0, 7], [7, 138]])
    try:
        features = to_device(torch.from_numpy(values), device)
        for method in CompressionMethod:
            for parts in compress_rows(features, places, method):
                found = parts.objects([each.cpu().numpy() for each in parts.tensors])
                for (first, count), pieces in zip(places[parts.members].tolist(), found, strict=True):
                    if pieces is None or b"".join(pieces) != _stored_bytes(values[first : first + count], method):
                        return f"compression by method {method} differs from Kaldi's: please report it"
    except Exception as error:  # Triton's and its compilers' errors have no common base
        return fault_shown_by(error, device)
    return ""


def _stored_bytes(matrix: Array, method: CompressionMethod) -> bytes:
    sink = io.BytesIO()
    codec("compressed-matrix", method=method).write(sink, matrix, binary=True)
    return sink.getvalue()
