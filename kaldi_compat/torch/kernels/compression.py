"""Compression of matrices on a GPU, with the kernels of :mod:`kaldi_compat.torch.kernels.compress`."""

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
from kaldi_compat.torch.kernels import describe_fault, lock_compilation
from kaldi_compat.torch.kernels.compress import integers_kernel, ranges_kernel, speech_kernel
from kaldi_compat.torch.tensors.copies import to_device

logger = logging.getLogger("kaldi_compat")

Array = npt.NDArray[Any]
# Exclusive limit on the number of elements of a matrix that the kernels compress, because they store twice the index
# of an element in an int32.
MAX_ELEMENTS = 1 << 30
# With method AUTO, Kaldi compresses matrices with fewer rows to two bytes per value.
MIN_SPEECH_ROWS = 9
COLUMNS = 8  # Number of columns that a program compresses. Eight float32 numbers are one memory transaction.
FRAMES = 128  # Number of frames that a program of speech_kernel reads at a time.
OTHER_FRAMES = 64  # Number of frames that a program of the other kernels reads at a time.
# Format, largest code, and the fixed minimum and range of values of each method. With None, each matrix is scaled by
# its own minimum and range.
_FORMATS: dict[CompressionMethod, tuple[bytes, int, tuple[float, float] | None]] = {
    CompressionMethod.TWO_BYTE_AUTO: (b"CM2", 65535, None),
    CompressionMethod.TWO_BYTE_SIGNED_INTEGER: (b"CM2", 65535, (-32768.0, 65535.0)),
    CompressionMethod.ONE_BYTE_AUTO: (b"CM3", 255, None),
    CompressionMethod.ONE_BYTE_UNSIGNED_INTEGER: (b"CM3", 255, (0.0, 255.0)),
    CompressionMethod.ONE_BYTE_ZERO_ONE: (b"CM3", 255, (0.0, 1.0)),
}


class CompressedMatrices(NamedTuple):
    """Compressed matrices of one format.

    Attributes:
        members: indices of the matrices, (matrices,).
        columns: number of columns.
        kind: format: CM, CM2 or CM3.
        counts: number of rows of each matrix, (matrices,).
        tensors: minima and ranges, float32 (matrices, 2); percentiles, int16 (matrices, columns, 4) or empty; codes,
            uint8 or int16.
    """

    members: Integers
    columns: int
    kind: bytes
    counts: Integers
    tensors: tuple[Tensor, Tensor, Tensor]

    def cut_objects(self, arrays: Sequence[Array]) -> tuple[list[bytes | None], list[memoryview]]:
        """Return two lists of bytes for an archive: the header of each matrix, and its codes, which follow the header.

        The header of a matrix is None if its range is not finite, so that the matrix cannot be compressed. ``arrays``
        are the ``tensors`` on the host.
        """
        (ranges, percentiles, codes), columns = arrays, self.columns
        token = b"\0B" + self.kind + b" "
        fields: list[Any] = [("token", f"S{len(token)}"), ("least", "<f4"), ("range", "<f4"), ("rows", "<i4")]
        fields += [("columns", "<i4"), ("percentiles", "<i2", (columns, 4) if self.kind == b"CM" else (0,))]
        headers = np.empty(len(ranges), fields)
        headers["token"], headers["columns"], headers["rows"] = token, columns, self.counts
        headers["least"], headers["range"] = ranges.T
        if self.kind == b"CM":
            headers["percentiles"] = percentiles
        data, size, is_finite = headers.tobytes(), headers.itemsize, np.isfinite(ranges[:, 1]).tolist()
        header_bytes = [data[i * size : (i + 1) * size] if is_finite[i] else None for i in range(len(headers))]
        ends = (np.cumsum(self.counts) * columns * codes.itemsize).tolist()
        view = codes.reshape(-1).view(np.uint8).data
        return header_bytes, [view[begin:end] for begin, end in itertools.pairwise([0, *ends])]


def has_short_indices(counts: Integers, dim: int) -> npt.NDArray[np.bool_]:
    """Return a mask (matrices,) of the matrices whose element indices fit into the kernels' 32-bit integers.

    ``counts`` are the numbers of rows of the matrices, (matrices,), and ``dim`` is the number of columns.
    """
    return counts * max(dim, COLUMNS) < MAX_ELEMENTS


def compress_rows(features: Tensor, matrix_rows: Integers, method: CompressionMethod) -> list[CompressedMatrices]:
    """Compress matrices that are ranges of rows of a tensor. Return their codes on the device, grouped by format.

    :func:`has_short_indices` must be True for all matrices.

    Args:
        features: float32 (frames, dim) on a GPU, or on any device for Triton's interpreter.
        matrix_rows: first row and number of rows (at least 1) of each matrix, (matrices, 2).
        method: compression method.
    """
    members = np.arange(len(matrix_rows))
    groups: list[tuple[Integers, CompressionMethod]]
    if method != CompressionMethod.AUTO:
        groups = [(members, method)]
    else:
        is_long = matrix_rows[:, 1] >= MIN_SPEECH_ROWS
        long, short = members[is_long], members[~is_long]
        candidates = (long, CompressionMethod.SPEECH_FEATURE), (short, CompressionMethod.TWO_BYTE_AUTO)
        groups = [(indices, group_method) for indices, group_method in candidates if len(indices)]
    compressed = []
    for indices, group_method in groups:
        compress = _compress_speech if group_method == CompressionMethod.SPEECH_FEATURE else _compress_integers
        kind, tensors = compress(_launch_ranges_kernel(features, matrix_rows[indices]), group_method)
        compressed.append(CompressedMatrices(indices, features.shape[1], kind, matrix_rows[indices, 1], tensors))
    return compressed


class _Launch(NamedTuple):
    """Arguments of the compression kernels. For the tensors, see :func:`~.compress.speech_kernel`."""

    features: Tensor
    grid: tuple[int, int]  # Number of matrices, and number of groups of columns in each matrix.
    places: Tensor
    ranges: Tensor
    zeros: Tensor
    headers: Tensor
    num_elements: int  # Number of elements of all matrices.
    num_steps: int  # Number of elements of the scratch memory ``steps``.
    num_groups: int  # Number of groups of columns, rounded up to a power of two, as Triton requires.

    @property
    def arguments(self) -> tuple[Tensor, ...]:
        return self.features, self.places, self.ranges, self.zeros, self.headers


def _launch_ranges_kernel(features: Tensor, matrix_rows: Integers) -> _Launch:
    """Compute the ranges of matrices, and return the arguments of the kernels that compress the matrices.

    For the arguments, see :func:`compress_rows`.
    """
    dim, row, counts = features.shape[1], features.stride(0), matrix_rows[:, 1]
    grid = (len(matrix_rows), -(-dim // COLUMNS))
    code_ends = np.cumsum(counts * dim)
    step_counts = -(-counts // FRAMES) * FRAMES * grid[1] * COLUMNS
    step_ends = np.cumsum(step_counts)
    host_places = np.column_stack((matrix_rows, code_ends - counts * dim, step_ends - step_counts))
    places = to_device(torch.from_numpy(host_places), features.device)
    ranges = features.new_empty((*grid, 2))
    zeros = features.new_empty(grid, dtype=torch.int32)
    with torch.cuda.device_of(features):  # type: ignore[no-untyped-call]
        ranges_kernel[grid](features, places, ranges, zeros, row, dim, **_make_tile_options(OTHER_FRAMES))
    headers = features.new_empty((len(matrix_rows), 2))
    return _Launch(
        features, grid, places, ranges, zeros, headers, num_elements=int(code_ends[-1]), num_steps=int(step_ends[-1]),
        num_groups=1 << (grid[1] - 1).bit_length(),
    )  # fmt: skip


def _make_tile_options(frames: int) -> dict[str, Any]:
    """Return the compile-time options of a kernel that reads ``frames`` frames at a time."""
    # Fusion is disabled, because fused multiply-adds would round differently from Kaldi.
    return {"FRAMES": frames, "COLUMNS": COLUMNS, "num_warps": 4, "enable_fp_fusion": False}


def _compress_speech(launch: _Launch, method: CompressionMethod) -> tuple[bytes, tuple[Tensor, Tensor, Tensor]]:
    """Compress by SPEECH_FEATURE; ``method`` is not used. Return ``kind`` and ``tensors`` of CompressedMatrices."""
    features, dim = launch.features, launch.features.shape[1]
    percentiles = features.new_empty((launch.grid[0], dim, 4), dtype=torch.int16)
    steps = features.new_empty(launch.num_steps, dtype=torch.int16)
    codes = features.new_empty(launch.num_elements, dtype=torch.uint8)
    arguments = (*launch.arguments, percentiles, steps, codes, features.stride(0), dim)
    with torch.cuda.device_of(features):  # type: ignore[no-untyped-call]
        speech_kernel[launch.grid](*arguments, GROUPS=launch.num_groups, **_make_tile_options(FRAMES))
    return b"CM", (launch.headers, percentiles, codes)


def _compress_integers(launch: _Launch, method: CompressionMethod) -> tuple[bytes, tuple[Tensor, Tensor, Tensor]]:
    """Compress matrices by ``method``, a key of _FORMATS. Return ``kind`` and ``tensors`` of CompressedMatrices."""
    features, dim = launch.features, launch.features.shape[1]
    kind, top, fixed_range = _FORMATS[method]
    codes = features.new_empty(launch.num_elements, dtype=torch.int16 if top == 65535 else torch.uint8)
    low, width = fixed_range or (0.0, 1.0)
    arguments = (*launch.arguments, codes, features.stride(0), dim, low, width)
    constants = {"GROUPS": launch.num_groups, "TOP": top, "FIXED": fixed_range is not None}
    with torch.cuda.device_of(features):  # type: ignore[no-untyped-call]
        integers_kernel[launch.grid](*arguments, **constants, **_make_tile_options(OTHER_FRAMES))
    return kind, (launch.headers, features.new_empty((0, dim, 4), dtype=torch.int16), codes)


@functools.cache
def find_compression_fault(device: torch.device) -> str:
    """Test the compression kernels, once per device. Return the description of a fault, or an empty string."""
    with lock_compilation(("compression", device)):
        fault = _test_compression(device)
    if fault:
        logger.warning("matrices that are computed on %s are compressed on the CPU: %s", device, fault)
    return fault


def _test_compression(device: torch.device) -> str:
    """Compare the kernels with the codec for every method. Return the description of a fault, or an empty string."""
    # Both matrices have more than COLUMNS columns, so that a kernel processes several groups of columns. The first has
    # fewer rows than MIN_SPEECH_ROWS, and the second more than FRAMES rows, so that both formats are compared.
    values = np.random.default_rng(0).normal(3, 4, (145, 9)).astype(np.float32)
    values[5] = np.round(values[5])
    matrix_rows = np.array([[0, 7], [7, 138]])
    try:
        features = to_device(torch.from_numpy(values), device)
        for method in CompressionMethod:
            for matrices in compress_rows(features, matrix_rows, method):
                objects = zip(*matrices.cut_objects([tensor.cpu().numpy() for tensor in matrices.tensors]), strict=True)
                rows = matrix_rows[matrices.members].tolist()
                for (first, count), (header, codes) in zip(rows, objects, strict=True):
                    if header is None or header + codes != _encode_matrix(values[first : first + count], method):
                        return f"the result of compression method {method} differs from Kaldi's: please report it"
    except Exception as error:  # The errors of Triton and its compilers have no common base class.
        return describe_fault(error, device)
    return ""


def _encode_matrix(matrix: Array, method: CompressionMethod) -> bytes:
    """Return the bytes of a matrix (rows, columns) that the codec compresses on the CPU."""
    sink = io.BytesIO()
    codec("compressed-matrix", method=method).write(sink, matrix, binary=True)
    return sink.getvalue()
