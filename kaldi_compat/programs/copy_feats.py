"""copy-feats: copy feature matrices and change their format."""

from typing import Any

import io_ark
from io_ark.blocks import ArrayBlock, Block
from io_ark.codecs import CompressionMethod, GeneralMatrix, HtkFeatures, compress, compressed_block
from io_ark.errors import FormatError
from kaldi_compat.cli.files import format_rxfilename, format_wxfilename
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import are_tables, map_table
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.program import FileOptions, program
from kaldi_compat.cli.tables import Tables
from kaldi_compat.options.base import require
from kaldi_compat.options.declaration import option

USAGE = """
Copies features and optionally changes their format to text, binary or compressed. Also reads HTK and Sphinx files.

Usage: copy-feats [options] <feats-rspecifier> <feats-wspecifier>
   or: copy-feats [options] <feats-rxfilename> <feats-wxfilename>
e.g.:  copy-feats --compress=true ark:- ark,scp:feats.ark,feats.scp
       copy-feats --binary=false feats.ark:1234 -
"""


class Options(FileOptions):
    htk_in: bool = option(False, "read files in HTK format")
    sphinx_in: bool = option(False, "read files in Sphinx format")
    compress: bool = option(False, "write compressed matrices (tables only)")
    compression_method: int = option(1, "how to compress, 1 to 7 (src/matrix/compressed-matrix.h)")
    write_num_frames: str = option("", "wspecifier for each utterance's number of frames, e.g. ark,t:utt2num_frames")

    @property
    def kind_in(self) -> io_ark.Kind:
        """Kind of the input objects, as named in ``io_ark``."""
        return "htk" if self.htk_in else "sphinx" if self.sphinx_in else "matrix"


@program("copy-feats", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Copy a table or a single file of features. The exit status is 1 for a table without output, otherwise 0."""
    if are_tables(source, target):
        return copy_table(options, source, target)
    require(
        not options.compress, "--compress works on tables, not on single files: use ark: or scp: for input and output"
    )
    require(not options.write_num_frames, "--write-num-frames option not supported when writing/reading single files.")
    require(not options.sphinx_in, "For single files, sphinx input is not yet supported.")
    io_ark.save(target, unwrap_matrix(io_ark.load(source, kind=options.kind_in)), kind="matrix", binary=options.binary)
    logger.info("Copied features from %s to %s", format_rxfilename(source), format_wxfilename(target))
    return 0


def copy_table(options: Options, source: str, target: str) -> int:
    """Copy a table, and return the exit status: 0 if an entry is written, otherwise 1.

    With --compress, matrices are compressed. With --write-num-frames, the numbers of frames are also written.
    """
    with Tables() as tables:
        num_frames_writer = tables.open_writer("int", options.write_num_frames) if options.write_num_frames else None
        writer = tables.open_writer("general-matrix", target)
        method = CompressionMethod.of(options.compression_method) if options.compress else None

        def copy_block(block: Block) -> Block:
            """Return the matrices, compressed with --compress. With --write-num-frames, write the numbers of frames."""
            matrices = block.map(lambda _, value: unwrap_matrix(value)) if options.htk_in else block
            result = matrices if method is None else compress_block(matrices, method, writer)
            if num_frames_writer is not None:
                num_frames_writer.write_block(matrices.map(lambda _, matrix: len(matrix)))
            return result

        counts = map_table(tables.read(options.kind_in, source), writer, copy_block)
    logger.info("Copied %d feature matrices.", counts.done)
    return counts.status


def compress_block(block: Block, method: CompressionMethod, writer: io_ark.Writer[Any]) -> Block:
    """Compress a block's matrices with ``method``, except matrices that :func:`compress_matrix` returns unchanged."""
    if isinstance(block, ArrayBlock) and writer.takes_packed(block.keys):
        packed = compressed_block(block, method)
        if packed is not None:
            return packed
    return block.map(lambda key, matrix: compress_matrix(key, matrix, method))


def compress_matrix(key: str, matrix: Matrix, method: CompressionMethod) -> GeneralMatrix:
    """Compress a matrix. Return it unchanged, with a warning, if it has NaN, infinities or a range beyond float32."""
    try:
        return compress(matrix, method)
    except FormatError as error:
        logger.warning("%s: %s; writing this matrix uncompressed", key, error.message)
        return matrix


def unwrap_matrix(value: Any) -> Matrix:
    """Return the matrix of an object that was read from an HTK file. Return matrices unchanged."""
    matrix: Matrix = value.features if isinstance(value, HtkFeatures) else value
    return matrix
