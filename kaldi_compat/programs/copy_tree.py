"""copy-tree: copy a decision tree."""

import io_ark
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.program import FileOptions, program

USAGE = """
Copies a decision tree, to binary or to text.

Usage: copy-tree [options] <tree> <tree-wxfilename>
e.g.:  copy-tree --binary=false tree -
"""


@program("copy-tree", USAGE, FileOptions)
def main(options: FileOptions, source: str, target: str) -> int:
    """Copy a decision tree, and return the exit status 0."""
    io_ark.save(target, io_ark.load(source, kind="tree"), binary=options.binary)
    logger.info("Copied tree")
    return 0
