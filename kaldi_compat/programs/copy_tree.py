"""copy-tree: copy a decision tree."""

from __future__ import annotations

from dataclasses import dataclass

import io_ark
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.program import program
from kaldi_compat.options.base import BaseOptions, option

USAGE = """
Copies a decision tree, to binary or to text.

Usage: copy-tree [options] <tree> <tree-wxfilename>
e.g.:  copy-tree --binary=false tree -
"""


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """Options of copy-tree."""

    binary: bool = option(True, "write in binary")


@program("copy-tree", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Copy a tree."""
    io_ark.save(target, io_ark.load(source, kind="tree"), binary=options.binary)
    logger.info("Copied tree")
    return 0
