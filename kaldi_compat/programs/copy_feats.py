"""copy-feats: feature matrices from one table or file to another, changing the format on the way."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import io_ark
from io_ark.codecs.htk import HtkFeatures
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import are_tables, convert_table
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.program import program
from kaldi_compat.options.base import option, require

USAGE = """
Copies features, and changes their format: text or binary, compressed or not, from HTK's or Sphinx's format.

Usage: copy-feats [options] <feats-rspecifier> <feats-wspecifier>
   or: copy-feats [options] <feats-rxfilename> <feats-wxfilename>
e.g.:  copy-feats --compress=true ark:- ark,scp:feats.ark,feats.scp
       copy-feats --binary=false feats.ark:1234 -
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of copy-feats."""

    htk_in: bool = option(False, "read files in HTK's format")
    sphinx_in: bool = option(False, "read files in Sphinx's format")
    binary: bool = option(True, "write a single file in binary (a table's wspecifier says so itself)")
    compress: bool = option(False, "write compressed matrices (tables only)")
    compression_method: int = option(1, "how to compress, 1 to 7 (src/matrix/compressed-matrix.h)")
    write_num_frames: str = option("", "wspecifier for each utterance's number of frames, e.g. ark,t:utt2num_frames")

    @property
    def kind_in(self) -> io_ark.Kind:
        """What is read, as io_ark calls it."""
        return "htk" if self.htk_in else "sphinx" if self.sphinx_in else "matrix"


@program("copy-feats", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Copy a table, or a single file."""
    if are_tables(source, target):
        return copy_table(options, source, target)
    require(not options.compress, "--compress works on tables, not on single files")
    require(not options.write_num_frames, "--write-num-frames works on tables, not on single files")
    require(not options.sphinx_in, "--sphinx-in works on tables, not on single files")
    io_ark.write_object("matrix", target, matrix_of(io_ark.read_object(options.kind_in, source)), binary=options.binary)
    logger.info("Copied features from %s to %s", source, target)
    return 0


def copy_table(options: Options, source: str, target: str) -> int:
    """Copy a table, compressed if asked to, and note the numbers of frames."""
    with ExitStack() as stack:
        num_frames = None
        if options.write_num_frames:
            num_frames = stack.enter_context(io_ark.Writer[int]("int", options.write_num_frames))

        def copy(key: str, value: Any) -> Matrix:
            matrix = matrix_of(value)
            if num_frames is not None:
                num_frames[key] = len(matrix)
            return matrix

        compressed: dict[str, Any] = {"kind_out": "compressed-matrix", "method": options.compression_method}
        form = compressed if options.compress else {"kind_out": "matrix"}
        counts = convert_table(options.kind_in, source, target, copy, **form)
    logger.info("Copied %d feature matrices.", counts.done)
    return counts.status


def matrix_of(value: Any) -> Matrix:
    """The matrix of what was read: an HTK file has a header beside it."""
    matrix: Matrix = value.features if isinstance(value, HtkFeatures) else value
    return matrix
