"""ivector-compute-dot-products: score trials with dot products of vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kaldi_compat.cli.log import logger
from kaldi_compat.cli.objects import Vector
from kaldi_compat.cli.program import NoOptions, program
from kaldi_compat.cli.speakers import Find, Trials
from kaldi_compat.cli.tables import LookupReader, Tables
from kaldi_compat.errors import FeatureError
from kaldi_compat.exact.sums import dot

USAGE = """
Computes the dot products of the vectors of trials. A line of the trials has a key of the first table and a key of the
second table, and a line of the scores has the same keys and the dot product. Trials with missing vectors have no score.

Usage: ivector-compute-dot-products [options] <trials-rxfilename> <ivector1-rspecifier> <ivector2-rspecifier>
                                    <scores-wxfilename>
e.g.:  ivector-compute-dot-products trials ark:spk_ivectors.ark scp:ivectors.scp scores
See also: ivector-plda-scoring
"""


@program("ivector-compute-dot-products", USAGE)
def main(options: NoOptions, trials: str, first: str, second: str, target: str) -> int:
    """Score the trials of a file."""
    with Tables() as tables:
        finds = find_in(tables.lookup("vector", first)), find_in(tables.lookup("vector", second))
        names = "1st table of ivectors", "2nd table of ivectors"
        counts = Trials("dot-product", names, finds, dot_products).write(trials, target, first, second)
    logger.info("Processed %d trials %d had errors.", counts.done, counts.failed)
    return counts.status


def find_in(table: LookupReader[Vector]) -> Find:
    """Return a function that looks up keys one by one, as Kaldi does."""

    def find(keys: Sequence[str]) -> list[Vector | None]:
        table.prefetch(keys)
        return [table.find_each([key])[0] for key in keys]

    return find


def dot_products(first: list[Vector], second: list[Vector]) -> Vector:
    """Return the dot products of vectors.

    Raises:
        FeatureError: the vectors differ in dimension.
    """
    dims = {len(vector) for vector in (*first, *second)}
    if len(dims) > 1:
        raise FeatureError(f"the vectors of the trials differ in dimension: {', '.join(map(str, sorted(dims)))}")
    with np.errstate(over="ignore", invalid="ignore"):
        return dot(np.stack(first), np.stack(second))
