"""append-vector-to-feats: append the same vector to each frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import io_ark
from io_ark.codecs.blocks import ArrayBlock
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import BlockTable, LookupReader, Skip, Table, convert, convert_table, lookup
from kaldi_compat.cli.objects import Matrix, Vector
from kaldi_compat.cli.program import ERROR_STATUS, program
from kaldi_compat.exact import ragged
from kaldi_compat.options.base import BaseOptions, option

USAGE = """
Appends an utterance's vector to each frame of its features.

Usage: append-vector-to-feats [options] <feats-rspecifier> <vector-rspecifier> <feats-wspecifier>
   or: append-vector-to-feats [options] <feats-rxfilename> <vector-rxfilename> <feats-wxfilename>
e.g.:  append-vector-to-feats scp:feats.scp scp:ivectors.scp ark:-
"""


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """Options of append-vector-to-feats."""

    binary: bool = option(True, "write a single file in binary (for tables, the wspecifier decides)")


@program("append-vector-to-feats", USAGE, Options)
def main(options: Options, source: str, vectors: str, target: str) -> int:
    """Append to a table, or to a single file."""
    if not io_ark.is_table_rspecifier(source):
        vector: Vector = io_ark.read_object("vector", vectors)
        convert("matrix", source, target, lambda key, feats: appended(key, feats, vector), binary=options.binary)
        logger.info("Wrote appended features to %s", target)
        return 0
    with LookupReader[Vector]("vector", vectors) as reader:
        table = BlockTable(reader)

        def of_block(block: ArrayBlock) -> ArrayBlock | None:
            feats, found = block.matrix(), table.values(block.names())
            if feats is None or found is None or len({len(each) for each in found}) > 1:
                return None
            return block.with_rows(ragged.appended(feats, block.rows(), np.stack(found)))

        counts = convert_table(
            "matrix",
            source,
            target,
            lambda key, feats: appended(key, feats, find(key, table)),
            block_function=of_block,
        )
    logger.info("Done %d utts, errors on %d", counts.done, counts.failed)
    return 0 if counts.done else ERROR_STATUS


def find(key: str, vectors: Table[Vector]) -> Vector:
    """Return the vector of an utterance.

    Raises:
        Skip: there is none.
    """
    return lookup(key, vectors, f"Could not read vector for utterance {key}")


def appended(key: str, feats: Matrix, vector: Vector) -> Matrix:
    """Append the vector to each row of features.

    Raises:
        Skip: there are no frames.
    """
    if len(feats) == 0:
        raise Skip(f"Empty feature matrix for utterance {key}" if key else "the feature matrix is empty")
    return np.concatenate((feats, np.broadcast_to(vector, (len(feats), len(vector)))), axis=1)
