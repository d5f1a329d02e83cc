"""append-vector-to-feats: append the same vector to each frame."""

import numpy as np

import io_ark
from io_ark.blocks import ArrayBlock, Skip
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import convert_file, map_table, stack_rows
from kaldi_compat.cli.objects import Vector
from kaldi_compat.cli.paste import log_status
from kaldi_compat.cli.program import FileOptions, program
from kaldi_compat.cli.tables import Tables
from kaldi_compat.functional import columns

USAGE = """
Appends an utterance's vector to each frame of its features.

Usage: append-vector-to-feats [options] <feats-rspecifier> <vector-rspecifier> <feats-wspecifier>
   or: append-vector-to-feats [options] <feats-rxfilename> <vector-rxfilename> <feats-wxfilename>
e.g.:  append-vector-to-feats scp:feats.scp scp:ivectors.scp ark:-
"""


EMPTY_ENTRY, EMPTY_FILE = "Empty feature matrix for utterance {}", "the feature matrix is empty"


@program("append-vector-to-feats", USAGE, FileOptions)
def main(options: FileOptions, source: str, vectors: str, target: str) -> int:
    """Append vectors to a table or file of features. Return 255 for a table without output, otherwise 0."""
    if not io_ark.is_table_rspecifier(source):
        feats, vector = io_ark.load(source, kind="matrix"), io_ark.load(vectors, kind="vector")
        convert_file(
            lambda block: append_to_frames(block, [vector], EMPTY_FILE), feats, source, target, binary=options.binary
        )
        logger.info("Wrote appended features to %s", target)
        return 0
    with Tables() as tables:
        blocks, table = tables.read("matrix", source), tables.open_lookup("vector", vectors)
        writer = tables.open_writer("matrix", target)
        missing = "Could not read vector for utterance {}".format
        counts = map_table(blocks, writer, lambda block: append_to_frames(block, table.require_values(block, missing)))
    return log_status(counts)


def append_to_frames(block: ArrayBlock, vectors: list[Vector], warning: str = EMPTY_ENTRY) -> ArrayBlock:
    """Append the vector of each utterance to all frames of the utterance.

    ``warning`` is the warning about an empty matrix, with ``{}`` in place of the key.

    Raises:
        Skip: a matrix is empty, or the vectors of several utterances differ in length.
    """
    feats, (key, *_) = stack_rows(block), block.decode_keys()
    if feats.size == 0:
        raise Skip(warning.format(key))
    if len({len(vector) for vector in vectors}) > 1:
        raise Skip  # An empty Skip asks the caller to split the block.
    return block.with_rows(columns.append_vectors(feats, block.compute_row_bounds(), np.stack(vectors)))
