"""Launch of the kernels that compress matrices on a GPU."""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from io_ark.codecs import CompressedMatrix, CompressionMethod, compress
from kaldi_compat.kernels import compiling_alone, is_out_of_memory
from kaldi_compat.kernels.compress import integers_kernel, ranges_kernel, speech_kernel
from kaldi_compat.tensors.copies import to_device

logger = logging.getLogger("kaldi_compat")

Array = npt.NDArray[Any]
# Indices within an utterance are 32-bit integers, doubled.
MAX_ELEMENTS = 1 << 30
# Fewer rows are compressed in two bytes by Kaldi's automatic choice.
FEWEST_ROWS_OF_SPEECH = 9
COLUMNS = 8  # of a program: as many as a memory transaction
FRAMES = 128  # read at once
# The format, the greatest code, and the fixed range, if it is not the matrix's own.
_FORMATS: dict[CompressionMethod, tuple[bytes, int, tuple[float, float] | None]] = {
    CompressionMethod.SPEECH_FEATURE: (b"CM", 0, None),
    CompressionMethod.TWO_BYTE_AUTO: (b"CM2", 65535, None),
    CompressionMethod.TWO_BYTE_SIGNED_INTEGER: (b"CM2", 65535, (-32768.0, 65535.0)),
    CompressionMethod.ONE_BYTE_AUTO: (b"CM3", 255, None),
    CompressionMethod.ONE_BYTE_UNSIGNED_INTEGER: (b"CM3", 255, (0.0, 255.0)),
    CompressionMethod.ONE_BYTE_ZERO_ONE: (b"CM3", 255, (0.0, 1.0)),
}


class Parts(NamedTuple):
    """Compressed matrices of one format.

    Attributes:
        members: indices of the matrices.
        kind: their format: CM, CM2 or CM3; empty if they are only summed up.
        shapes: (rows, columns) of each.
        starts: place of the first code of each.
        tensors: least values and ranges, float32 (matrices, 2); percentiles, int16 (matrices, columns, 4) or empty;
            codes, uint8 or int16; and sums and sums of squares of what reads back, float64 (matrices, 2, columns) or
            empty.
    """

    members: list[int]
    kind: bytes
    shapes: list[tuple[int, int]]
    starts: list[int]
    tensors: tuple[Tensor, Tensor, Tensor, Tensor]


def compress_rows(
    features: Tensor,
    places: Sequence[tuple[int, int]],
    method: CompressionMethod | None,
    *,
    with_sums: bool = False,
) -> list[Parts]:
    """Compress matrices that are ranges of rows of a tensor.

    Args:
        features: float32 (frames, dim) on a GPU, or anywhere for Triton's interpreter.
        places: first row and number of rows of each matrix, at least one.
        method: how; None only sums up.
        with_sums: sum up what reads back, too.

    Returns:
        the matrices by format, on the device.
    """
    if method is None:
        return [_integers(features, places, list(range(len(places))), b"", 0, None, with_sums)]
    if method != CompressionMethod.AUTO:
        return [_compressed(features, places, list(range(len(places))), method, with_sums)]
    long = [i for i, (_, count) in enumerate(places) if count >= FEWEST_ROWS_OF_SPEECH]
    short = [i for i, (_, count) in enumerate(places) if count < FEWEST_ROWS_OF_SPEECH]
    choices = ((long, CompressionMethod.SPEECH_FEATURE), (short, CompressionMethod.TWO_BYTE_AUTO))
    return [_compressed(features, places, chosen, each, with_sums) for chosen, each in choices if chosen]


def matrices_of(parts: Parts, arrays: Sequence[Array]) -> list[CompressedMatrix]:
    """Return compressed matrices, from the tensors of the parts as arrays on the host.

    A matrix with a range that is not finite cannot be compressed.
    """
    headers, percentiles, codes, _ = arrays
    found = []
    wanted = np.dtype(np.uint16 if parts.kind == b"CM2" else np.uint8)
    for i, ((rows, columns), start) in enumerate(zip(parts.shapes, parts.starts, strict=True)):
        own = codes[start : start + rows * columns].view(wanted)
        own = own.reshape((columns, rows) if parts.kind == b"CM" else (rows, columns))
        limits = percentiles[i].view(np.uint16) if parts.kind == b"CM" else np.empty((0, 4), np.uint16)
        found.append(CompressedMatrix(parts.kind, float(headers[i, 0]), float(headers[i, 1]), own, limits))
    return found


def unpacked(parts: Parts, arrays: Sequence[Array]) -> tuple[list[CompressedMatrix], list[Array]]:
    """Return the matrices and their sums; either list is empty if there are none."""
    return (matrices_of(parts, arrays) if parts.kind else []), (sums_of(parts, arrays) if len(arrays[3]) else [])


def sums_of(parts: Parts, arrays: Sequence[Array]) -> list[Array]:
    """Return CMVN statistics, float64 (2, columns + 1), of each matrix: sums and count, and sums of squares and 0."""
    sums = arrays[3]
    counts = np.zeros((len(parts.shapes), 2, 1))
    counts[:, 0, 0] = [rows for rows, _ in parts.shapes]
    return list(np.concatenate((sums, counts), 2))


def _compressed(
    features: Tensor,
    places: Sequence[tuple[int, int]],
    members: list[int],
    method: CompressionMethod,
    with_sums: bool,
) -> Parts:
    kind, top, fixed = _FORMATS[method]
    if kind == b"CM":
        return _speech(features, places, members, with_sums)
    return _integers(features, places, members, kind, top, fixed, with_sums)


class _Launch(NamedTuple):
    """Matrices and their ranges, as the kernels take them."""

    grid: tuple[int, int]
    table: Tensor
    ranges: Tensor
    zeros: Tensor
    headers: Tensor
    shapes: list[tuple[int, int]]
    starts: list[int]
    elements: int
    steps: int
    groups: int


def _launch(features: Tensor, places: Sequence[tuple[int, int]], members: list[int]) -> _Launch:
    dim = features.shape[1]
    own = np.array([places[i] for i in members], np.int64)
    ends = np.cumsum(own[:, 1] * dim)
    starts = np.concatenate(([0], ends[:-1]))
    grid = (len(members), -(-dim // COLUMNS))
    scratch = np.cumsum(-(-own[:, 1] // FRAMES) * FRAMES * grid[1] * COLUMNS)
    places_of_steps = np.concatenate(([0], scratch[:-1]))
    table = to_device(torch.from_numpy(np.column_stack((own, starts, places_of_steps))), features.device)
    ranges = features.new_empty((*grid, 2))
    zeros = features.new_empty(grid, dtype=torch.int32)
    with torch.cuda.device_of(features):  # type: ignore[no-untyped-call]
        ranges_kernel[grid](features, table, ranges, zeros, features.stride(0), dim, **_tile(64))
    shapes = [(count, dim) for count in own[:, 1].tolist()]
    headers = features.new_empty((len(members), 2))
    groups = 1 << (grid[1] - 1).bit_length()
    return _Launch(
        grid, table, ranges, zeros, headers, shapes, starts.tolist(), int(ends[-1]), int(scratch[-1]), groups
    )


def _tile(frames: int) -> dict[str, Any]:
    # Fused multiply-adds would round otherwise than Kaldi.
    return {"FRAMES": frames, "COLUMNS": COLUMNS, "num_warps": 4, "enable_fp_fusion": False}


def _speech(features: Tensor, places: Sequence[tuple[int, int]], members: list[int], with_sums: bool) -> Parts:
    made, dim = _launch(features, places, members), features.shape[1]
    percentiles = features.new_empty((len(members), dim, 4), dtype=torch.int16)
    steps = features.new_empty(made.steps, dtype=torch.int16)
    codes = features.new_empty(made.elements, dtype=torch.uint8)
    sums = features.new_empty((len(members) if with_sums else 0, 2, dim), dtype=torch.float64)
    with torch.cuda.device_of(features):  # type: ignore[no-untyped-call]
        speech_kernel[made.grid](
            features,
            made.table,
            made.ranges,
            made.zeros,
            made.headers,
            percentiles,
            steps,
            codes,
            sums if with_sums else made.headers,
            features.stride(0),
            dim,
            GROUPS=made.groups,
            SUMS=with_sums,
            **_tile(FRAMES),
        )
    return Parts(members, b"CM", made.shapes, made.starts, (made.headers, percentiles, codes, sums))


def _integers(
    features: Tensor,
    places: Sequence[tuple[int, int]],
    members: list[int],
    kind: bytes,
    top: int,
    fixed: tuple[float, float] | None,
    with_sums: bool,
) -> Parts:
    made, dim = _launch(features, places, members), features.shape[1]
    codes = features.new_empty(made.elements if top else 0, dtype=torch.int16 if top == 65535 else torch.uint8)
    sums = features.new_empty((len(members) if with_sums else 0, 2, dim), dtype=torch.float64)
    low, width = fixed or (0.0, 1.0)
    with torch.cuda.device_of(features):  # type: ignore[no-untyped-call]
        integers_kernel[made.grid](
            features,
            made.table,
            made.ranges,
            made.zeros,
            made.headers,
            codes if top else made.headers,
            sums if with_sums else made.headers,
            features.stride(0),
            dim,
            low,
            width,
            GROUPS=made.groups,
            TOP=top,
            FIXED=fixed is not None,
            SUMS=with_sums,
            **_tile(64),
        )
    percentiles = features.new_empty((0, dim, 4), dtype=torch.int16)
    return Parts(members, kind, made.shapes, made.starts, (made.headers, percentiles, codes, sums))


@functools.cache
def fault_of_compression(device: torch.device) -> str:
    """Compare the kernels with the codec on a device, once; return their fault, or an empty string."""
    with compiling_alone():
        fault = _fault(device)
    if fault:
        logger.warning("compressing what is computed on %s on the CPU: %s", device, fault)
    return fault


def _fault(device: torch.device) -> str:
    values = np.random.default_rng(0).normal(3, 4, (145, 9)).astype(np.float32)
    values[5] = np.round(values[5])
    try:
        features = to_device(torch.from_numpy(values), device)
        places = [(0, 7), (7, 138)]
        for method in CompressionMethod:
            for parts in compress_rows(features, places, method):
                found = matrices_of(parts, [each.cpu().numpy() for each in parts.tensors])
                for i, each in zip(parts.members, found, strict=True):
                    first, count = places[i]
                    if _content(each) != _content(compress(values[first : first + count], method)):
                        return f"compression by method {method} differs from Kaldi's: please report it"
    except Exception as error:  # Triton's and its compilers' errors have no common base
        if is_out_of_memory(error):
            raise
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return ""


def _content(matrix: CompressedMatrix) -> tuple[object, ...]:
    header = np.array([matrix.minimum, matrix.range], np.float32).tobytes()
    return matrix.format, header, matrix.codes.tobytes(), np.asarray(matrix.percentiles).tobytes()
