"""Create blocks from keys and values, and from other blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from io_ark.blocks.base import ArrayBlock, Block, ObjectBlock, create_array_or_object_block, encode_keys
from io_ark.blocks.posterior import PosteriorArrays, PosteriorBlock
from io_ark.blocks.shapes import ArrayInfo, ShapeBlock
from io_ark.blocks.wave import Wave, WaveBlock


def create_block(keys: Sequence[str], values: Sequence[Any]) -> Block:
    """Return a block of keys and values.

    A single wave that :meth:`WaveBlock.can_hold` accepts becomes a :class:`WaveBlock`, a single posterior a
    :class:`PosteriorBlock`, and the shape of a single matrix a :class:`ShapeBlock`. For all other values,
    :func:`create_array_or_object_block` chooses the class.
    """
    if len(values) == 1:
        value = values[0]
        if type(value) is Wave and WaveBlock.can_hold(value):
            return WaveBlock.from_wave(keys[0], value)
        if type(value) is ArrayInfo and value.ndim == 2:
            return ShapeBlock(encode_keys(keys), np.array([value.shape], np.int64), value.dtype)
        if type(value) is PosteriorArrays:
            return PosteriorBlock(encode_keys(keys), np.array([len(value.counts)]), value)
    return create_array_or_object_block(keys, values)


def concatenate(blocks: Sequence[Block]) -> Block:
    """Join blocks that have values. A single block is returned unchanged. Without blocks, the result has no entries.

    Array blocks of one dtype and number of dimensions, shape blocks of one dtype, posterior blocks, and wave blocks
    that agree in ``only_headers`` keep their class. Other blocks become an :class:`ObjectBlock`.
    """
    first = blocks[0] if blocks else ObjectBlock(b"", lambda: (), 0)
    if len(blocks) < 2:
        return first
    keys = b"".join([block.keys for block in blocks])
    if isinstance(first, ArrayBlock):
        array_type = first.values.dtype, first.dimensions
        array_blocks = [b for b in blocks if isinstance(b, ArrayBlock) and (b.values.dtype, b.dimensions) == array_type]
        if len(array_blocks) == len(blocks):
            values = np.concatenate([block.values for block in array_blocks])
            return ArrayBlock(keys, values, np.concatenate([block.shapes for block in array_blocks]), first.dimensions)
    if isinstance(first, ShapeBlock):
        shape_blocks = [block for block in blocks if isinstance(block, ShapeBlock) and block.dtype == first.dtype]
        if len(shape_blocks) == len(blocks):
            return replace(first, keys=keys, shapes=np.concatenate([block.shapes for block in shape_blocks]))
    if isinstance(first, PosteriorBlock):
        posterior_blocks = [block for block in blocks if isinstance(block, PosteriorBlock)]
        if len(posterior_blocks) == len(blocks):
            frame_counts = np.concatenate([block.frames for block in posterior_blocks])
            posteriors = PosteriorArrays.concatenate([block.posteriors for block in posterior_blocks])
            return PosteriorBlock(keys, frame_counts, posteriors)
    if isinstance(first, WaveBlock):
        wave_blocks = [b for b in blocks if isinstance(b, WaveBlock) and b.only_headers == first.only_headers]
        if len(wave_blocks) == len(blocks):
            begins = np.cumsum([0, *(len(block.samples) for block in wave_blocks)])
            return WaveBlock(
                keys,
                np.concatenate([block.samples for block in wave_blocks]),
                np.concatenate([block.starts + begin for block, begin in zip(wave_blocks, begins, strict=False)]),
                np.concatenate([block.lengths for block in wave_blocks]),
                np.concatenate([block.rates for block in wave_blocks]),
                first.only_headers,
            )
    return ObjectBlock(keys, lambda: [value for block in blocks for _, value in block.entries()], keys.count(b"\n"))
