"""Encode feature matrices as the bytes of an archive."""

from __future__ import annotations

import io
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from io_ark.blocks import ArrayBlock, PackedBlock, pack_arrays
from io_ark.codecs import Codec, codec, compressed_block
from io_ark.errors import ArkError, FormatError
from kaldi_compat.dump.entries import Encoded, Failure, Features, make_failure
from kaldi_compat.dump.model import MATRIX, Trial
from kaldi_compat.dump.options import DumpOptions
from kaldi_compat.exact.arrays import Integers

logger = logging.getLogger(__name__)


class Encoder:
    """Encodes features as entries of archives, with the bytes of Kaldi's ``copy-feats``, compressed or not.

    The options of the dump select the compression, and ``trial`` has the kind of each output, such as a matrix.
    """

    def __init__(self, options: DumpOptions, trial: Trial) -> None:
        self.trial = trial
        self.matrix_codec, self.integer_codec = codec("matrix"), codec("int-vector")
        self.method = options.compression_method if options.compress else None  # None if features are not compressed.
        self.compressing_codec = codec("compressed-matrix", method=self.method) if options.compress else None

    def __call__(self, features: Features) -> Sequence[Encoded | Failure]:
        """Encode features as one block if possible, otherwise one by one. Return encoded features unchanged."""
        if isinstance(features, Encoded):
            return [features]
        block = features.block
        if isinstance(block, ArrayBlock) and self.trial.outputs[features.name][0] != MATRIX:
            return [self._encode_uncompressed(features, block)]
        if isinstance(block, ArrayBlock) and (packed := self._encode_matrices(block)) is not None:
            return [_make_encoded(features, packed, block.shapes[:, 0])]
        if len(features) > 1:
            return [encoded for utterance in features.separate() for encoded in self(utterance)]
        return [self._encode_single_matrix(features)]

    def _encode_uncompressed(self, features: Features, block: ArrayBlock) -> Encoded:
        """Encode float32 vectors, matrices of integers stored as float32, or a single int32 vector, uncompressed."""
        if block.values.dtype == np.int32:
            packed = _make_entry(block.keys, _encode_object(self.integer_codec, features.value))
        else:
            packed = _pack_uncompressed(block)
        return _make_encoded(features, packed, block.shapes[:, 0])

    def _encode_matrices(self, block: ArrayBlock) -> PackedBlock | None:
        """Encode all matrices of a block. Return None if a matrix is empty, or if compression of the block fails."""
        if not block.shapes.all():
            return None
        if self.method is not None:
            return compressed_block(block, self.method)
        return _pack_uncompressed(block)

    def _encode_single_matrix(self, features: Features) -> Encoded | Failure:
        """Encode the matrix of one utterance, or return a failure. Warn about a matrix that cannot be compressed."""
        key, matrix, first_codec = features.key, features.value, self.compressing_codec or self.matrix_codec
        try:
            try:
                data, left_uncompressed = _encode_object(first_codec, matrix), False
            except FormatError as error:
                if first_codec is self.matrix_codec:
                    raise
                logger.warning("%s: written uncompressed: %s", key, error)
                data, left_uncompressed = _encode_object(self.matrix_codec, matrix), True
        except ArkError as error:
            return make_failure(features.index, key, error)
        encoded = _make_encoded(features, _make_entry(features.block.keys, data), np.array([len(matrix)]))
        return replace(encoded, left_uncompressed=left_uncompressed)


def _make_encoded(features: Features, block: PackedBlock, frames: Integers) -> Encoded:
    return Encoded(features.index, block, features.durations, features.name, frames=frames)


def _pack_uncompressed(block: ArrayBlock) -> PackedBlock:
    """Encode arrays as entries of an archive, without compression."""
    data, objects, _ = pack_arrays(block.keys, block.shapes, block.dimensions, block.values)
    return PackedBlock(block.keys, data, objects)


def _make_entry(key_line: bytes, data: bytes) -> PackedBlock:
    """Make the archive entry of one object: its key, a space, and ``data``. ``key_line`` is the key and a newline."""
    # The object starts after the key and the space, which are as long as the key and the newline.
    return PackedBlock(key_line, np.frombuffer(key_line[:-1] + b" " + data, np.uint8), np.array([len(key_line)]))


def _encode_object(codec_of_value: Codec[Any], value: Any) -> bytes:
    """Return the bytes of an object in Kaldi's binary format, without a key."""
    sink = io.BytesIO()
    codec_of_value.write(sink, value, binary=True)
    return sink.getvalue()
