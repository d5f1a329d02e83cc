"""Encoding: feature matrices to the bytes in the archive, and their statistics."""

from __future__ import annotations

import io
import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.codecs import Codec, codec
from io_ark.errors import ArkError, FormatError
from io_ark.streams.source import BytesSource
from kaldi_compat.dump.options import DumpOptions
from kaldi_compat.dump.read import Failure, failed
from kaldi_compat.dump.spectral import Computed
from kaldi_compat.exact.ragged import stats as cmvn_stats

__all__ = ["Encoded", "Encoder"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Encoded:
    """An utterance as it is stored in the archive.

    Attributes:
        key: its name.
        data: the matrix's bytes.
        frames: its rows.
        duration: of the audio, in seconds.
        stats: CMVN statistics of what the bytes read back as, shape (2, dim + 1); None if they are not needed.
        left_uncompressed: whether it should have been compressed, but has values that cannot be.
    """

    key: str
    data: bytes
    frames: int
    duration: float
    stats: npt.NDArray[np.float64] | None = None
    left_uncompressed: bool = False


class Encoder:
    """Turns features into bytes as ``copy-feats --compress`` does."""

    def __init__(self, options: DumpOptions, *, with_stats: bool) -> None:
        self.with_stats = with_stats
        self.matrix = codec("matrix")
        self.compressed = codec("compressed-matrix", method=options.compression_method) if options.compress else None

    def __call__(self, computed: Computed) -> Encoded | Failure:
        """Return the bytes, and the statistics if they are needed; a failure if the features cannot be encoded."""
        try:
            data, left_uncompressed = self._data(computed)
        except ArkError as error:
            return failed(computed.index, computed.key, error)
        frames = computed.features.shape[0]
        stats = computed.stats
        if self.with_stats and frames and stats is None:
            # Later steps of a recipe read the features back from the archive, so these are the ones to count.
            stored = np.ascontiguousarray(self.matrix.read(BytesSource(data)), np.float32)
            stats = cmvn_stats(stored, np.array([0, frames]))[0]
        return Encoded(computed.key, data, frames, computed.duration, stats, left_uncompressed)

    def _data(self, computed: Computed) -> tuple[bytes, bool]:
        if self.compressed is None:
            return _written(self.matrix, computed.features), False
        try:
            return _written(self.compressed, computed.features), False
        except FormatError as error:
            logger.warning("%s: written uncompressed: %s", computed.key, error)
            return _written(self.matrix, computed.features), True


def _written(writer: Codec[Any], features: Any) -> bytes:
    sink = io.BytesIO()
    writer.write(sink, features, binary=True)
    return sink.getvalue()
