"""Calls of streams, for type checkers and editors: see ``calls.pyi``, written by ``make generate``.

When it runs, these classes are empty, as those of :mod:`kaldi_compat.torch.features.calls`.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

Warp = float | Sequence[float] | Tensor


class StreamCall:
    """Call of most streams."""


class FeatureStreamCall(StreamCall):
    """Call of the streams of spectral features."""


class ProcessPitchStreamCall(StreamCall):
    """Call of the streams that process pitch."""


class ChainCall:
    """Call of a chain: as of its first stream."""
