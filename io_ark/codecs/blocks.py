"""The names of :mod:`io_ark.blocks` until all programs use those."""

from io_ark.blocks import BLOCK_BYTES, ArrayBlock, Block, ObjectBlock, PackedBlock, PosteriorBlock, compressed_block
from io_ark.blocks.base import encode_keys, split_keys

ListBlock = ObjectBlock

__all__ = ["BLOCK_BYTES", "ArrayBlock", "Block", "ListBlock", "PackedBlock", "PosteriorBlock", "compressed_block",
           "encode_keys", "split_keys"]  # fmt: skip
