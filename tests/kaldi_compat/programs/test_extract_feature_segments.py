"""Tests of extract-feature-segments that the stored commands of Kaldi do not cover."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from io_ark.blocks import Skip
from kaldi_compat.cli.segments import parse_segment
from kaldi_compat.programs import extract_feature_segments


def test_bounds_of_segments_in_frames() -> None:
    feats = np.arange(100, dtype=np.float32)[:, None]

    def bounds(line: str, **options: Any) -> tuple[int, int]:
        cut = extract_feature_segments.cut(feats, parse_segment(line), extract_feature_segments.Options(**options))
        return int(cut[0, 0]), int(cut[-1, 0])

    assert bounds("s u 0.1 0.5") == (10, 47)  # two frames fewer, as if the audio had been cut
    assert bounds("s u 0.1 0.5", snip_edges=False) == (10, 49)
    assert bounds("s u 0.105 0.505", snip_edges=False) == (11, 50)
    assert bounds("s u 0.1 1.1", snip_edges=False, max_overshoot=0.2) == (10, 99)
    for wrong in ("s u 0.1 1.5", "s u 1.0 1.2", "s u 0.1 0.2"):
        with pytest.raises(Skip):
            bounds(wrong)
