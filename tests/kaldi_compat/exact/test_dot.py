"""The dot product in OpenBLAS's order, against OpenBLAS."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kaldi_compat.exact.dot import dot

# In a process of its own, where OpenBLAS is told to compute as on a processor with AVX-512.
OPENBLAS = """
import sys, numpy as np
inputs = np.load(sys.argv[1])
np.save(sys.argv[2], [np.dot(inputs[f"x{i}"], inputs[f"y{i}"]) for i in range(len(inputs) // 2)])
"""


def has_avx512() -> bool:
    """Whether this processor has it, and NumPy comes with OpenBLAS."""
    try:
        processor = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"]
    return "avx512f" in processor and "openblas" in blas


@pytest.mark.skipif(not has_avx512(), reason="OpenBLAS adds in this order on processors with AVX-512 alone")
def test_same_bits_as_openblas(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lengths = [*range(200), *rng.integers(200, 9000, 100)]
    pairs = [(1000 * rng.standard_normal((2, n))).astype(np.float32) for n in lengths]
    named = {f"{name}{i}": row for i, pair in enumerate(pairs) for name, row in zip("xy", pair, strict=True)}
    np.savez(tmp_path / "inputs.npz", **named)
    environment = os.environ | {"OPENBLAS_CORETYPE": "SkylakeX", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", OPENBLAS, str(tmp_path / "inputs.npz"), str(tmp_path / "dots.npy")]
    subprocess.run(command, check=True, env=environment)
    ours = np.array([dot(*pair) for pair in pairs])
    np.testing.assert_array_equal(ours, np.load(tmp_path / "dots.npy"))


def test_near_the_exact_sum() -> None:
    x = np.random.default_rng(1).standard_normal(1000).astype(np.float32)
    assert dot(x, x) == pytest.approx(np.sum(x.astype(np.float64) ** 2), rel=1e-6)
