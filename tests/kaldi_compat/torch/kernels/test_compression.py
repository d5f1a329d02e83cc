"""The kernels that compress give the bytes of the codec, which are Kaldi's, on a GPU or in Triton's interpreter."""

from __future__ import annotations

import io
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

import io_ark
from io_ark.codecs import codec
from io_ark.codecs.compressed import CompressionMethod, compress
from io_ark.errors import FormatError
from kaldi_compat.errors import KaldiCompatError
from kaldi_compat.torch import kernels

pytest.importorskip("triton", minversion="3.6")
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")  # the interpreter is NumPy

DEVICE = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
EXAMPLES = int(os.environ.get("KALDI_COMPAT_EXAMPLES", 25))
KALDI = os.environ.get("KALDI_PROGRAMS")
KINDS = (
    "normal",
    "rounded",
    "constant",
    "constant column",
    "tiny",
    "narrow",
    "zeros of both signs",
    "integers",
    "shares",
    "huge",
)


def values_of(kind: str, rows: int, dim: int, scale: float, seed: int) -> np.ndarray:
    """Make a matrix, float32."""
    rng = np.random.default_rng(seed)
    values = rng.normal(0, 10**scale, (rows, dim))
    if kind == "rounded":
        values = np.round(values)
    elif kind == "constant":
        values[:] = rng.choice([3.5, 0.0, -0.0, -7e20, 1e-40])
    elif kind == "constant column":
        values[:, 0] = 1.0
    elif kind == "tiny":
        values *= 1e-38
    elif kind == "narrow":
        values = 1e6 + np.round(values / 10**scale, 2)
    elif kind == "zeros of both signs":
        values = rng.choice([0.0, -0.0, 1.0, 2.0], (rows, dim))
    elif kind == "integers":
        values = rng.integers(-40000, 40000, (rows, dim)) + rng.choice([0.0, 0.499, 0.5, 0.501], (rows, dim))
    elif kind == "shares":
        values = rng.uniform(-0.2, 1.2, (rows, dim))
    elif kind == "huge":
        values *= 1e33
    return values.astype(np.float32)


def stored(matrix: np.ndarray, method: int) -> bytes:
    """Return the codec's bytes."""
    sink = io.BytesIO()
    codec("compressed-matrix").write(sink, compress(matrix, method))
    return sink.getvalue()


def on_device(matrices: list[np.ndarray], method: int) -> dict[int, bytes | None]:
    """Compress matrices of one width on the device; return their bytes, None for those that have no codes."""
    from kaldi_compat.torch.kernels.compression import compress_rows

    gap = np.full((3, matrices[0].shape[1]), np.nan, np.float32)
    features = torch.from_numpy(np.concatenate([each for matrix in matrices for each in (gap, matrix)])).to(DEVICE)
    ends = np.cumsum([3 + len(matrix) for matrix in matrices])
    places = np.array([(end - len(matrix), len(matrix)) for end, matrix in zip(ends, matrices, strict=True)])
    found: dict[int, bytes | None] = {}
    for parts in compress_rows(features, places, CompressionMethod(method)):
        arrays = [each.cpu().numpy() for each in parts.tensors]
        objects = zip(*parts.cut_objects(arrays), strict=True)
        made = [None if head is None else head + codes for head, codes in objects]
        found |= dict(zip(parts.members.tolist(), made, strict=True))
    return found


@settings(max_examples=EXAMPLES, phases=[Phase.explicit, Phase.generate])  # to shrink would take minutes
@example(lengths=[5, 4], dim=3, scale=0.0, kind="zeros of both signs", method=2, seed=0)
@example(lengths=[12, 1], dim=2, scale=0.0, kind="constant", method=1, seed=0)
@given(
    lengths=st.lists(st.integers(1, 150) | st.integers(1, 12), min_size=1, max_size=3),
    dim=st.integers(1, 10),
    scale=st.floats(-3, 5),
    kind=st.sampled_from(KINDS),
    method=st.integers(1, 7),
    seed=st.integers(0, 2**31),
)
def test_bytes_are_those_of_the_codec(
    lengths: list[int], dim: int, scale: float, kind: str, method: int, seed: int
) -> None:
    matrices = [values_of(kind, rows, dim, scale, seed + i) for i, rows in enumerate(lengths)]
    found = on_device(matrices, method)
    assert sorted(found) == list(range(len(lengths)))
    for i, matrix in enumerate(matrices):
        try:
            compress(matrix, method)
        except FormatError:
            assert found[i] is None
            continue
        assert found[i] == stored(matrix, method)


@pytest.mark.parametrize("method", range(1, 8))
def test_matrices_that_have_no_codes_are_told_apart(method: int) -> None:
    good = values_of("normal", 20, 9, 0.0, 1)
    with_nan, with_infinity = good.copy(), good.copy()
    with_nan[13, 8], with_infinity[2, 0] = np.nan, -np.inf
    found = on_device([with_nan, good, with_infinity], method)
    assert found[0] is None and found[1] == stored(good, method)
    # The range of some methods is fixed.
    assert found[2] == (stored(with_infinity, method) if method in (4, 6, 7) else None)


def test_kernels_that_compress_wrongly_are_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from kaldi_compat.torch.kernels import compression

    right = compression.ranges_kernel
    compression.find_compression_fault.cache_clear()
    assert compression.find_compression_fault(DEVICE) == ""

    class Broken:
        def __getitem__(self, grid: tuple[int, ...]) -> object:
            def run(features: torch.Tensor, *rest: object, **options: object) -> None:
                right[grid](features * 1.001, *rest, **options)

            return run

    monkeypatch.setattr(compression, "ranges_kernel", Broken())
    compression.find_compression_fault.cache_clear()
    assert "differs" in compression.find_compression_fault(DEVICE) and "on the CPU" in caplog.text
    compression.find_compression_fault.cache_clear()


def test_a_device_that_compression_broke_is_not_used_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    from kaldi_compat.torch.kernels import compression

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    compression.find_compression_fault.cache_clear()
    monkeypatch.setattr(compression, "compress_rows", broken)
    monkeypatch.setattr(kernels, "is_broken", lambda device: True)
    with pytest.raises(KaldiCompatError, match="KALDI_COMPAT_KERNELS=0"):
        compression.find_compression_fault(DEVICE)


@pytest.mark.skipif(not KALDI, reason="KALDI_PROGRAMS does not name the directory of Kaldi's programs")
@pytest.mark.parametrize("method", range(1, 8))
def test_bytes_are_those_of_copy_feats(tmp_path: Path, method: int) -> None:
    matrices = {
        f"{kind}-{rows}": values_of(kind, rows, 5, 1.0, rows)
        for kind in KINDS
        if kind != "huge"
        for rows in (1, 3, 8, 9, 140)
    }
    with io_ark.Writer(f"ark:{tmp_path / 'in.ark'}", kind="matrix") as writer:
        for key, value in matrices.items():
            writer[key.replace(" ", "_")] = value
    line = [f"{KALDI}/copy-feats", "--compress=true", f"--compression-method={method}"]
    subprocess.run(
        [*line, f"ark:{tmp_path / 'in.ark'}", f"ark:{tmp_path / 'out.ark'}"], check=True, stderr=subprocess.DEVNULL
    )
    found, _ = on_device(list(matrices.values()), method)
    expected = b"".join(f"{key.replace(' ', '_')} ".encode() + found[i] for i, key in enumerate(matrices))
    assert (tmp_path / "out.ark").read_bytes() == expected
