"""copy-vector: copy vectors, optionally scaled or with another dimension."""

import numpy as np

import io_ark
from io_ark.blocks import ArrayBlock
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import are_tables, convert_table_or_file
from kaldi_compat.cli.program import FileOptions, program
from kaldi_compat.exact.products import scale_vector
from kaldi_compat.options.base import as_float32
from kaldi_compat.options.declaration import option

USAGE = """
Copies vectors, and optionally scales them or changes their dimension.

Usage: copy-vector [options] <vector-rspecifier> <vector-wspecifier>
   or: copy-vector [options] <vector-rxfilename> <vector-wxfilename>
e.g.:  copy-vector --binary=false 1.vec -
       copy-vector ark:2.vec ark,t:-
"""


class Options(FileOptions):
    change_dim: int = option(
        -1,
        "truncate vectors to this dimension or append zeros up to it; negative keeps the dimension",
        flag="change_dim",
    )
    scale: float = option(1.0, "factor on each vector of a table")


@program("copy-vector", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Copy a table or file of vectors, resized and scaled on request. Return 0 if an entry is written, else 1."""
    scale = as_float32(options.scale)
    if scale != 1.0 and not are_tables(source, target):
        logger.warning(
            "--scale has no effect on single files, as in Kaldi; use a table, e.g. scp:'echo x %s |'", source
        )
        scale = 1.0
    counts = convert_table_or_file(
        lambda block: resize_and_scale_vectors(block, options.change_dim, scale), "vector", source, target,
        binary=options.binary, output_first=True,
    )  # fmt: skip
    if not io_ark.is_table_wspecifier(target):
        logger.info("Copied vector to %s", target)
    elif options.change_dim < 0 and scale == 1.0:
        logger.info("Copied %d vectors.", counts.done)
    else:
        logger.info("Copied %d vectors, setting dim to %d scaled by %g", counts.done, options.change_dim, scale)
    return counts.status


def resize_and_scale_vectors(block: ArrayBlock, dim: int, scale: float) -> ArrayBlock:
    """Scale vectors, after truncating or zero-padding them to ``dim`` elements if ``dim`` is not negative."""
    if dim >= 0:
        values = np.zeros((len(block), dim), np.float32)
        index_in_vector = np.arange(len(block.values)) - np.repeat(block.compute_row_bounds()[:-1], block.shapes[:, 0])
        values[np.arange(dim) < block.shapes[:, :1]] = block.values[index_in_vector < dim]
        block = block.with_vectors(values.reshape(-1), np.full(len(block), dim))
    return block if scale == 1.0 else block.with_vectors(scale_vector(block.values, scale))
