"""Compressing: feature matrices to the bytes that stand in the archive, and their statistics."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from io_ark.codecs import codec
from io_ark.errors import ArkError
from io_ark.streams.source import BytesSource
from kaldi_compat.dump.options import DumpOptions
from kaldi_compat.dump.read import Failure
from kaldi_compat.dump.spectral import Computed
from kaldi_compat.functional.cmvn import cmvn_stats


@dataclass(frozen=True)
class Encoded:
    """An utterance as it will stand in the archive.

    Attributes:
        key: its name.
        data: the matrix's bytes.
        frames: its rows.
        duration: of the audio, in seconds.
        stats: CMVN statistics of what the bytes read back as, shape (2, dim + 1); None if nobody wants them.
    """

    key: str
    data: bytes
    frames: int
    duration: float
    stats: npt.NDArray[np.float64] | None = None


class Encoder:
    """Turns features into bytes as ``copy-feats --compress`` does."""

    def __init__(self, options: DumpOptions, *, with_stats: bool) -> None:
        self.with_stats = with_stats
        self.reader = codec("matrix")
        if options.compress:
            self.codec = codec("compressed-matrix", method=options.compression_method)
        else:
            self.codec = codec("matrix")

    def __call__(self, computed: Computed) -> Encoded | Failure:
        """The bytes, and the statistics if they are wanted; a failure where the features cannot be compressed."""
        sink = io.BytesIO()
        try:
            self.codec.write(sink, computed.features, binary=True)
        except ArkError as error:
            return Failure(computed.index, computed.key, str(error))
        data = sink.getvalue()
        frames = computed.features.shape[0]
        stats = None
        if self.with_stats and frames:
            # Later steps of a recipe read the features back from the archive, so that is what is counted.
            stats = cmvn_stats(np.asarray(self.reader.read(BytesSource(data))))
        return Encoded(computed.key, data, frames, computed.duration, stats)
