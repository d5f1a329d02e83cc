"""ivector-compute-dot-products: score trials with dot products of vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
    """Score trials, which pair keys of the tables ``first`` and ``second``. Return 0 if a trial is scored, else 1."""
    with Tables() as tables:
        finders = make_finder(tables.open_lookup("vector", first)), make_finder(tables.open_lookup("vector", second))
        names = "1st table of ivectors", "2nd table of ivectors"
        counts = Trials("dot-product", names, finders, compute_dot_products).write_scores(trials, target, first, second)
    logger.info("Processed %d trials %d had errors.", counts.done, counts.failed)
    return counts.status


def make_finder(table: LookupReader[Vector]) -> Find:
    """Return a function that looks up the vectors of keys in a table."""

    def find_vectors(keys: Sequence[str]) -> Iterator[Vector | None]:
        """Yield each key's vector, or None if the table lacks it. Look up keys singly, for Kaldi's order of errors."""
        table.prefetch(keys)
        for key in keys:
            yield table.find_values([key])[0]

    return find_vectors


def compute_dot_products(first: list[Vector], second: list[Vector]) -> Vector:
    """Compute the dot products (pairs,) of pairs of vectors. Raise FeatureError if vectors differ in dimension."""
    dims = {len(vector) for vector in (*first, *second)}
    if len(dims) > 1:
        raise FeatureError(
            f"the vectors of the trials have different dimensions, {', '.join(map(str, sorted(dims)))}: use one model"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        return dot(np.stack(first), np.stack(second))
