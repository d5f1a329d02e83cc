"""Products of matrices around the limits at which OpenBLAS changes the order of its sums.

``python -m tests.support.products DIRECTORY`` runs Kaldi's programs in a directory, and stores checksums of their
outputs in ``products.json``. Kaldi must use OpenBLAS's SkylakeX kernels:
``OPENBLAS_CORETYPE=SkylakeX OPENBLAS_NUM_THREADS=1``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import io_ark

STORED = Path(__file__).with_suffix(".json")
Array = np.ndarray[Any, Any]
Shape = tuple[int, int, int]  # rows, terms and columns of a product
_MOST = 1_000_000  # multiplications up to which there are kernels for small matrices

_SMALL = [(rows, depth, width) for rows in (1, 4, 7) for depth in (31, 32, 33, 40, 48) for width in range(1, 34)]
_AROUND_MOST = [
    (_MOST // (depth * width) + more, depth, width)
    for depth, width in ((40, 117), (100, 100), (448, 24), (500, 25), (833, 8), (896, 17), (897, 8), (1345, 3))
    for more in (0, 1)
]
_PANELS = [(90, depth, 25) for depth in (447, 448, 449, 463, 464, 465, 895, 896, 897, 1343, 1345)]
_AROUND_1200 = [(rows, depth, 1200 // rows + more) for rows in (2, 30, 48) for depth in (31, 32, 40) for more in (0, 1)]
_VECTORS = [
    *((1, depth, width) for depth in (*range(1, 20), 31, 32, 33, 63, 64, 65) for width in (1, 2, 3, 4, 6, 7, 40)),
    *(
        (1, depth, width)
        for depth in (4092, 4095, 4096, 4097, 4100, 4104, 8191, 8192, 8197, 12292)
        for width in (1, 2, 7)
    ),
    *((1, depth, width) for depth in (4, 8) for width in (16384, 16385, 16387)),
]
SHAPES: dict[str, list[Shape]] = {
    "compose-transforms": [(40, 40, 117), *_SMALL, *_AROUND_MOST, *_PANELS],
    "transform-feats": [*_SMALL, *_AROUND_1200, *_AROUND_MOST, *_PANELS],
    "transform-vec": _VECTORS,
    "transform-vec with an offset": _VECTORS,
}


def numbers(rows: int, columns: int, seed: int) -> Array:
    """A matrix whose sums of products are rounded: integers, the same on each machine."""
    places = np.arange(rows * columns, dtype=np.int64) + seed
    return ((places * 7919 + places**2 % 10007 * 31) % 20011 - 10005).astype(np.float32).reshape(rows, columns)


def factors(shape: Shape) -> tuple[Array, Array, Array]:
    """The first factor, (rows, terms), the transposed second one, (columns, terms), and an offset, (columns,)."""
    rows, depth, width = shape
    return numbers(rows, depth, 1), numbers(width, depth, 5), numbers(1, width, 9)[0]


def checksum(product: Array) -> str:
    """Checksum of the bytes of a product."""
    return f"{zlib.crc32(np.ascontiguousarray(product, '<f4').tobytes()):08x}"


def write(path: Path, kind: Any, arrays: Iterator[Array] | list[Array]) -> None:
    with io_ark.Writer[Any](f"ark:{path}", kind=kind) as writer:
        for number, array in enumerate(arrays):
            writer[str(number)] = array


def by_kaldi(directory: Path, work: Path, program: str, shapes: list[Shape]) -> list[Array]:
    """The products of these shapes, as a program of Kaldi computes them."""

    def run(*arguments: str) -> None:
        command = [str(directory / program.split()[0]), *arguments, f"ark:{work}/out"]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)

    if program.startswith("transform-vec"):
        products = []
        for shape in shapes:
            (vector,), matrix, offset = factors(shape)
            write(work / "vector", "vector", [vector])
            whole = np.column_stack((matrix, offset)) if "offset" in program else matrix
            io_ark.save(str(work / "matrix"), whole, kind="matrix")
            run(f"{work}/matrix", f"ark:{work}/vector")
            products += [value for _, value in io_ark.read(f"ark:{work}/out", kind="vector")]
        return products
    compose = program == "compose-transforms"
    write(work / "a", "matrix", (factors(shape)[0] for shape in shapes))
    write(work / "b", "matrix", (factors(shape)[1].T if compose else factors(shape)[1] for shape in shapes))
    run(*(f"ark:{work}/{name}" for name in ("ab" if compose else "ba")))
    return [value for _, value in io_ark.read(f"ark:{work}/out", kind="matrix")]


def main() -> None:
    with tempfile.TemporaryDirectory() as work:
        stored = {
            program: "".join(map(checksum, by_kaldi(Path(sys.argv[1]), Path(work), program, shapes)))
            for program, shapes in SHAPES.items()
        }
    STORED.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
