"""Blocks of table entries: many small entries that were read together, or one large entry.

Readers yield blocks (:meth:`io_ark.SequentialReader.blocks`), and writers accept them
(:meth:`io_ark.Writer.write_block`). To process all entries at once, use the arrays of a block. To process one entry
after the other, call :meth:`Block.map`.

>>> import numpy as np
>>> from io_ark.blocks import create_block, concatenate
>>> block = create_block(["a", "b"], [np.eye(2), np.ones((3, 2))])
>>> type(block).__name__, block.values.shape, block.compute_row_bounds().tolist()
('ArrayBlock', (10,), [0, 2, 5])
>>> [(key, matrix.shape) for key, matrix in block.map(lambda key, matrix: matrix[1:]).entries()]
[('a', (1, 2)), ('b', (2, 2))]
>>> concatenate([block, block.select(np.array([False, True]))]).decode_keys()
['a', 'b', 'b']
"""

from io_ark.blocks.base import BLOCK_BYTES as BLOCK_BYTES
from io_ark.blocks.base import MAX_ENTRIES as MAX_ENTRIES
from io_ark.blocks.base import ArrayBlock as ArrayBlock
from io_ark.blocks.base import Block as Block
from io_ark.blocks.base import MapError as MapError
from io_ark.blocks.base import ObjectBlock as ObjectBlock
from io_ark.blocks.base import PackedBlock as PackedBlock
from io_ark.blocks.base import Skip as Skip
from io_ark.blocks.base import join_keys as join_keys
from io_ark.blocks.base import split_keys as split_keys
from io_ark.blocks.construct import concatenate as concatenate
from io_ark.blocks.construct import create_block as create_block
from io_ark.blocks.packing import format_script_lines as format_script_lines
from io_ark.blocks.packing import pack_arrays as pack_arrays
from io_ark.blocks.posterior import PosteriorArrays as PosteriorArrays
from io_ark.blocks.posterior import PosteriorBlock as PosteriorBlock
from io_ark.blocks.shapes import ArrayInfo as ArrayInfo
from io_ark.blocks.shapes import ShapeBlock as ShapeBlock
from io_ark.blocks.wave import Wave as Wave
from io_ark.blocks.wave import WaveBlock as WaveBlock
from io_ark.blocks.wave import WaveInfo as WaveInfo
