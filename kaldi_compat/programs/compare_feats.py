"""compare-feats: measure the similarity of two sets of features."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import numpy as np

import io_ark
from io_ark.codecs.blocks import ArrayBlock
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import BlockTable, Counts, LookupReader, Table, items_of
from kaldi_compat.cli.objects import DoubleMatrix, Matrix
from kaldi_compat.cli.program import program
from kaldi_compat.errors import FeatureError
from kaldi_compat.exact.ragged import products
from kaldi_compat.options.base import BaseOptions, option

USAGE = """
Logs the similarity of two sets of features, per dimension and on average: 1 if they are identical, less otherwise. The
exit status is 0 if the average reaches the threshold.

Usage: compare-feats [options] <feats-rspecifier1> <feats-rspecifier2>
e.g.:  compare-feats ark:1.ark ark:2.ark
"""


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """Options of compare-feats."""

    threshold: float = option(0.99, "minimum average similarity of features that count as similar")


@program("compare-feats", USAGE, Options)
def main(options: Options, first: str, second: str) -> int:
    """Compare utterances of two tables."""
    with (
        io_ark.SequentialReader[Matrix]("matrix", first, blocks=True) as reader,
        LookupReader[Matrix]("matrix", second) as other,
    ):
        sums, counts = summed_products(reader, BlockTable(other))
    logger.info("self-product of 1st features for each column dimension: %s", in_brackets(sums[0]))
    logger.info("self-product of 2nd features for each column dimension: %s", in_brackets(sums[1]))
    logger.info("cross-product for each column dimension: %s", in_brackets(sums[2]))
    with np.errstate(divide="ignore", invalid="ignore"):
        similarity = 2.0 * sums[2] / (sums[0] + sums[1])
    overall = float(similarity.mean()) if counts.done else -np.nan
    note = "(1.0 means identical, the smaller the more different)"
    logger.info("Similarity metric for each dimension %s\n %s", in_brackets(similarity), note)
    logger.info("Overall similarity for the two feats is:%s %s", as_text(overall), note)
    logger.info("Processed %d feature files, %d had errors.", counts.done, counts.failed)
    if not counts.done:
        return 1
    similar = overall >= options.threshold
    sign = ">=" if similar else "<"
    word = "similar" if similar else "dissimilar"
    logger.info("Features are considered %s since %s %s %g", word, as_text(overall), sign, options.threshold)
    return 0 if similar else 1


def summed_products(entries: Iterable[tuple[str, Matrix]], other: BlockTable[Matrix]) -> tuple[DoubleMatrix, Counts]:
    """Sum the products of each column with itself, for both tables, and of one table with the other: ``(3, dim)``.

    Raises:
        FeatureError: the dimension differs between utterances.
    """
    counts = Counts()
    total = np.zeros((3, 0))
    for item in items_of(entries):
        sums = None if isinstance(item, tuple) else products_of_block(cast(ArrayBlock, item), other)
        if sums is not None and (not counts.done or sums.shape[2] == total.shape[1]):
            before = [total[None]] if counts.done else []
            total = np.add.reduce(np.concatenate([*before, sums]), axis=0)
            counts.done += len(sums)
        else:
            total = add_products([item] if isinstance(item, tuple) else item.entries(), other, total, counts)
    return total, counts


def products_of_block(block: ArrayBlock, other: BlockTable[Matrix]) -> DoubleMatrix | None:
    """Return the sums of each utterance ``(utterances, 3, dim)``; None for one utterance, or if anything is unusual."""
    if len(block.shapes) == 1:
        return None  # it may be large
    feats, found = block.matrix(), other.values(block.names())
    if feats is None or found is None or not np.array_equal([each.shape for each in found], block.shapes):
        return None
    return products(feats, block.rows(), np.concatenate(found)).astype(np.float64)


def add_products(
    entries: Iterable[tuple[str, Matrix]], other: Table[Matrix], total: DoubleMatrix, counts: Counts
) -> DoubleMatrix:
    """Add the sums of some utterances to those before them, and count the utterances.

    Raises:
        FeatureError: the dimension differs between utterances.
    """
    for key, feats in entries:
        if key not in other:
            logger.warning("Second table has no feature for utterance %s", key)
            counts.failed += 1
            continue
        others = other[key]
        if feats.shape == others.shape and feats.size == 0:
            logger.warning("Both features of utterance %s are empty, skipping utterance.", key)
            counts.failed += 1
            continue
        if feats.shape != others.shape:
            logger.warning(
                "Feature dimensions differ for utterance %s, %s vs. %s, skipping utterance.",
                key,
                _shape(feats),
                _shape(others),
            )
            counts.failed += 1
            continue
        if not counts.done:
            total = np.zeros((3, feats.shape[1]))
        if feats.shape[1] != total.shape[1]:
            raise FeatureError(f"{key}: dimension {feats.shape[1]}, but {total.shape[1]} before")
        total = total + products(feats, np.array([0, len(feats)]), others)[0]
        counts.done += 1
    return total


def _shape(matrix: Matrix) -> str:
    return f"{matrix.shape[0]}x{matrix.shape[1]}"


def in_brackets(values: DoubleMatrix) -> str:
    """Format a vector as Kaldi logs it."""
    return " [ " + "".join(as_text(value) + " " for value in values) + "]"


def as_text(value: float) -> str:
    """Format a number as C++ does, with the sign of NaN."""
    return "-nan" if np.isnan(value) and np.signbit(value) else f"{value:g}"
