"""Encoding: feature matrices to the bytes in the archive, and their statistics."""

from __future__ import annotations

import io
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from io_ark.blocks import ArrayBlock, PackedBlock, pack_arrays
from io_ark.codecs import Codec, codec, compressed_block
from io_ark.errors import ArkError, FormatError
from io_ark.streams import BytesSource
from kaldi_compat.dump.entries import Encoded, Failure, Features, failed
from kaldi_compat.dump.model import MATRIX, Trial
from kaldi_compat.dump.options import DumpOptions
from kaldi_compat.exact.arrays import Doubles
from kaldi_compat.functional.block_cmvn import statistics as cmvn_statistics

logger = logging.getLogger(__name__)


class Encoder:
    """Turns features into bytes as ``copy-feats --compress`` does."""

    def __init__(self, options: DumpOptions, *, with_statistics: bool, trial: Trial | None = None) -> None:
        self.with_statistics, self.trial = with_statistics, trial or Trial()
        self.matrix, self.integers = codec("matrix"), codec("int-vector")
        self.method = options.compression_method if options.compress else None
        self.compressed = codec("compressed-matrix", method=options.compression_method) if options.compress else None

    def __call__(self, features: Features) -> Sequence[Encoded | Failure]:
        """Return the bytes, and the statistics if they are needed; a failure if features cannot be encoded."""
        if isinstance(features, Encoded):
            return [features]
        block = features.block
        if isinstance(block, ArrayBlock) and self.trial.outputs[features.name][0] != MATRIX:
            return [self._exact(features, block)]
        if isinstance(block, ArrayBlock) and (packed := self._packed(block)) is not None:
            sums = features.statistics
            if self.with_statistics and sums is None and features.name == self.trial.first:
                sums = self._statistics(packed, block)
            frames = block.shapes[:, 0]
            return [Encoded(features.index, packed, features.durations, sums, features.name, frames=frames)]
        if len(features) > 1:
            return [encoded for each in features.each() for encoded in self(each)]
        return [self._alone(features)]

    def _exact(self, features: Features, block: ArrayBlock) -> Encoded:
        """Return vectors, or the codes of a codec as matrices, as they are."""
        is_labels = block.values.dtype == np.int32
        packed = _entry(block.keys, _written(self.integers, features.value)) if is_labels else _uncompressed(block)
        return Encoded(features.index, packed, features.durations, None, features.name, frames=block.shapes[:, 0])

    def _packed(self, features: ArrayBlock) -> PackedBlock | None:
        """Encode matrices together; None if one of them is empty or cannot be compressed."""
        if not features.shapes.all():
            return None
        if self.method is not None:
            return compressed_block(features, self.method)
        return _uncompressed(features)

    def _statistics(self, packed: PackedBlock, features: ArrayBlock) -> Doubles:
        if self.method is None:
            values = features.values.reshape(-1, int(features.shapes[0, 1]))
            return cmvn_statistics(np.ascontiguousarray(values, np.float32), features.rows())
        # Later steps of a recipe read the features back from the archive, so these are the ones to count.
        stored = (self.matrix.read(BytesSource(packed.data, start)) for start in packed.objects.tolist())
        return np.concatenate([cmvn_statistics(each, np.array([0, len(each)])) for each in stored])

    def _alone(self, features: Features) -> Encoded | Failure:
        """Return the bytes of a matrix that is empty or cannot be compressed."""
        key, matrix, sums, codec = features.key, features.value, features.statistics, self.compressed or self.matrix
        try:
            try:
                data, left_uncompressed = _written(codec, matrix), False
            except FormatError as error:
                if codec is self.matrix:
                    raise
                logger.warning("%s: written uncompressed: %s", key, error)
                data, left_uncompressed = _written(self.matrix, matrix), True
        except ArkError as error:
            return failed(features.index, key, error)
        frames = len(matrix)
        if self.with_statistics and frames and sums is None:
            stored = np.ascontiguousarray(self.matrix.read(BytesSource(data)), np.float32)
            sums = cmvn_statistics(stored, np.array([0, frames]))
        return Encoded(
            features.index, _entry(features.block.keys, data), features.durations, sums, features.name,
            frames=np.array([frames]), left_uncompressed=left_uncompressed,
        )  # fmt: skip


def _uncompressed(block: ArrayBlock) -> PackedBlock:
    data, objects, _ = pack_arrays(block.keys, block.shapes, block.dimensions, block.values)
    return PackedBlock(block.keys, data, objects)


def _entry(keys: bytes, data: bytes) -> PackedBlock:
    """Return the entry of one object: a space follows its key there, and a newline in ``keys``."""
    return PackedBlock(keys, np.frombuffer(keys[:-1] + b" " + data, np.uint8), np.array([len(keys)]))


def _written(writer: Codec[Any], features: Any) -> bytes:
    sink = io.BytesIO()
    writer.write(sink, features, binary=True)
    return sink.getvalue()
