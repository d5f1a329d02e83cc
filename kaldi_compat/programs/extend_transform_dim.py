"""extend-transform-dim: extend a transform to features of more dimensions."""

import io_ark
from io_ark.blocks import ArrayBlock
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import convert_table_or_file, stack_matrices
from kaldi_compat.cli.program import FileOptions, program
from kaldi_compat.functional.transform import extend_transform
from kaldi_compat.options.base import require
from kaldi_compat.options.declaration import option

USAGE = """
Extends a linear or affine transform to more dimensions, which the transform leaves unchanged.

Usage: extend-transform-dim [options] (<transform-rspecifier>|<transform-rxfilename>)
                            (<transform-wspecifier>|<transform-wxfilename>)
e.g.:  extend-transform-dim --new-dimension=117 in.mat big.mat
"""


class Options(FileOptions):
    new_dimension: int = option(-1, "dimension to extend to (required)")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.new_dimension >= 0,
            "--new-dimension argument invalid or not specified: it is the dimension to extend to",
        )


@program("extend-transform-dim", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Extend the transforms of a table or file to ``--new-dimension``. Return 0 if a transform is written, else 1."""
    old_dim = 0

    def extend_block(block: ArrayBlock) -> ArrayBlock:
        """Extend the transforms of a block, and store their old dimension for the log."""
        nonlocal old_dim
        transforms = stack_matrices(block)
        old_dim = transforms.shape[1]
        return block.with_matrices(extend_transform(transforms, options.new_dimension))

    counts = convert_table_or_file(extend_block, "matrix", source, target, binary=options.binary)
    new_dim = options.new_dimension
    if io_ark.is_table_wspecifier(target):
        logger.info("Increased transform dim to %d for %d matrices.", new_dim, counts.done)
    else:
        logger.info("Increased transform dim from %d to %d and wrote to %s", old_dim, new_dim, target)
    return counts.status
