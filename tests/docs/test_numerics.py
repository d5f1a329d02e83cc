"""The figures of the page about numerics are those of the repository's recordings."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import io_ark

torch = pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/numerics.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `?(\w+)`?[^|]* \| float(32|64) \| (\S+) \| (\S+) \| (\S+) \|$", re.MULTILINE)


def test_differences_of_the_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    from kaldi_compat import Fbank

    monkeypatch.chdir(ROOT / "reference_data/inputs")
    exact, plain = (Fbank(num_mel_bins=80, dither=0.0, engine=engine) for engine in ("exact", "torch"))
    differences = {}
    for key, wave in io_ark.SequentialReader("scp:main.scp", kind="wave"):
        samples = torch.from_numpy(np.array(wave.samples[0], np.float32))
        expected = exact(samples).double()
        for bits, features in (("32", plain(samples)), ("64", plain(samples.double()))):
            differences[key, bits] = (features.double() - expected).abs().numpy().ravel()
    rows = ROW.findall(PAGE)
    assert len(rows) == 6
    for name, bits, *figures in rows:
        parts = [part for (key, width), part in differences.items() if width == bits and name in (key, "all")]
        measured = np.quantile(np.concatenate(parts), (0.5, 0.999, 1))
        # Single precision depends on the processor's FFT and matrix product.
        assert measured == pytest.approx(list(map(float, figures)), rel=0.05 if bits == "64" else 0.5)
