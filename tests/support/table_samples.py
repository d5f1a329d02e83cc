"""Tables of every kind of object that the C library scans: archives as bytes."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from io_ark.codecs import codec

_RNG = np.random.default_rng(7)


def _lengths(limit: int, count: int = 60) -> list[int]:
    return [int(n) for n in _RNG.integers(0, limit, count)]


def _pairs(limit: int) -> list[tuple[int, float]]:
    return [(int(_RNG.integers(4000)), float(np.float32(_RNG.random()))) for _ in range(int(_RNG.integers(0, limit)))]


VALUES: dict[str, list[Any]] = {
    "vector": [_RNG.standard_normal(n).astype(np.float32) for n in _lengths(40)],
    "double-vector": [_RNG.standard_normal(n) for n in _lengths(40)],
    "matrix": [_RNG.standard_normal((n, 3)).astype(np.float32) for n in _lengths(9)],
    "double-matrix": [_RNG.standard_normal((2, 4)) for _ in range(60)],
    "int-vector": [_RNG.integers(-(10**9), 10**9, n) for n in _lengths(40)],
    "int8-vector": [_RNG.integers(-128, 127, n) for n in _lengths(40)],
    "int-pair-vector": [_RNG.integers(0, 4000, (n, 2)) for n in _lengths(20)],
    "float-pair-vector": [_RNG.standard_normal((n, 2)) for n in _lengths(20)],
    "int": [0, -1, 2**31 - 1, -(2**31), *_RNG.integers(-5000, 5000, 200).tolist()],
    "float": [0.0, -0.0, 1e30, *_RNG.standard_normal(200).astype(np.float32).tolist()],
    "double": [0.0, -0.0, 1e300, *_RNG.standard_normal(200).tolist()],
    "bool": (_RNG.random(200) > 0.5).tolist(),
    "token": ["w\u00f6rter", "\udcff", *[f"spk{i}" for i in _lengths(4000, 200)]],
    "token-vector": [[f"w{i}" for i in _lengths(4000, n)] for n in _lengths(9)],
    "posterior": [[_pairs(4) for _ in range(n)] for n in _lengths(12)] + [[[(3, 0.5)]] * 4],
    "int-vector-vector": [[_lengths(100, m) for m in _lengths(5, n)] for n in _lengths(12)],
}
"""Values of each kind, some of them empty."""


def archive(kind: str, binary: bool) -> bytes:
    """Return an archive of the values of a kind."""
    sink = io.BytesIO()
    for i, value in enumerate(VALUES[kind]):
        sink.write(f"utt-{i} ".encode())
        codec(kind).write(sink, value, binary=binary)
    return sink.getvalue()
