"""compare-feats: how similar two sets of features are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

import io_ark
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import Counts, Table
from kaldi_compat.cli.objects import DoubleMatrix, Matrix
from kaldi_compat.cli.program import program
from kaldi_compat.errors import FeatureError
from kaldi_compat.options.base import option

USAGE = """
Logs how similar two sets of features are, in each dimension and on average: 1 if they are identical, less if not. The
exit status is 0 if the average reaches the threshold.

Usage: compare-feats [options] <feats-rspecifier1> <feats-rspecifier2>
e.g.:  compare-feats ark:1.ark ark:2.ark
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of compare-feats."""

    threshold: float = option(0.99, "average similarity from which on features are similar")


@program("compare-feats", USAGE, Options)
def main(options: Options, first: str, second: str) -> int:
    """Compare the utterances of the first table with those of the second."""
    with (
        io_ark.SequentialReader[Matrix]("matrix", first) as reader,
        io_ark.RandomAccessReader[Matrix]("matrix", second) as other,
    ):
        products, counts = summed_products(reader, other)
    logger.info("self-product of 1st features for each column dimension: %s", in_brackets(products[0]))
    logger.info("self-product of 2nd features for each column dimension: %s", in_brackets(products[1]))
    logger.info("cross-product for each column dimension: %s", in_brackets(products[2]))
    with np.errstate(divide="ignore", invalid="ignore"):
        similarity = 2.0 * products[2] / (products[0] + products[1])
    overall = float(similarity.mean()) if counts.done else np.nan
    note = "(1.0 means identical, the smaller the more different)"
    logger.info("Similarity metric for each dimension %s %s", in_brackets(similarity), note)
    logger.info("Overall similarity for the two feats is:%g %s", overall, note)
    logger.info("Processed %d feature files, %d had errors.", counts.done, counts.failed)
    if not counts.done:
        return 1
    similar = overall >= options.threshold
    sign = ">=" if similar else "<"
    word = "similar" if similar else "dissimilar"
    logger.info("Features are considered %s since %g %s %g", word, overall, sign, options.threshold)
    return 0 if similar else 1


def summed_products(entries: Iterable[tuple[str, Matrix]], other: Table[Matrix]) -> tuple[DoubleMatrix, Counts]:
    """Each column's products with itself, of both tables, and of one table's with the other's: ``(3, dim)``.

    Raises:
        FeatureError: the dimension changes from one utterance to another.
    """
    counts = Counts()
    total = np.zeros((3, 0))
    for key, feats in entries:
        if key not in other:
            logger.warning("Second table has no feature for utterance %s", key)
            counts.failed += 1
            continue
        others = other[key]
        if feats.shape != others.shape or feats.size == 0:
            logger.warning(
                "Shapes differ, or are empty, for utterance %s: %s and %s; skipping it.", key, feats.shape, others.shape
            )
            counts.failed += 1
            continue
        if not counts.done:
            total = np.zeros((3, feats.shape[1]))
        if feats.shape[1] != total.shape[1]:
            raise FeatureError(f"{key}: dimension {feats.shape[1]}, but {total.shape[1]} before")
        for row, terms in zip(total, (feats * feats, others * others, feats * others), strict=True):
            row += terms.sum(axis=0, dtype=np.float64)
        counts.done += 1
    return total, counts


def in_brackets(values: DoubleMatrix) -> str:
    """A vector as Kaldi logs it."""
    return " [ " + "".join(f"{value:g} " for value in values) + "]"
