"""Create blocks from keys and values, and from other blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from io_ark.blocks.base import Array, ArrayBlock, Block, ObjectBlock, create_array_or_object_block, encode_keys
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
    if len(set(map(_get_layout, blocks))) == 1:
        same_blocks: Sequence[Any] = blocks

        def join(name: str) -> Array:
            """Concatenate the attribute ``name`` of all blocks, which is an array."""
            return np.concatenate([getattr(block, name) for block in same_blocks])

        if isinstance(first, ArrayBlock):
            return ArrayBlock(keys, join("values"), join("shapes"), first.dimensions)
        if isinstance(first, ShapeBlock):
            return replace(first, keys=keys, shapes=join("shapes"))
        if isinstance(first, PosteriorBlock):
            posteriors = PosteriorArrays.concatenate([block.posteriors for block in same_blocks])
            return PosteriorBlock(keys, join("frames"), posteriors)
        if isinstance(first, WaveBlock):
            begins = np.cumsum([0, *(len(block.samples) for block in same_blocks)])
            starts = np.concatenate([block.starts + begin for block, begin in zip(same_blocks, begins, strict=False)])
            return WaveBlock(keys, join("samples"), starts, join("lengths"), join("rates"), first.only_headers)
    return ObjectBlock(keys, lambda: [value for block in blocks for _, value in block.entries()], keys.count(b"\n"))


def _get_layout(block: Block) -> tuple[object, ...]:
    """Return the properties that blocks must share, so that :func:`concatenate` keeps their class."""
    if isinstance(block, ArrayBlock):
        return ArrayBlock, block.values.dtype, block.dimensions
    if isinstance(block, ShapeBlock):
        return ShapeBlock, block.dtype
    return (WaveBlock, block.only_headers) if isinstance(block, WaveBlock) else (type(block),)
