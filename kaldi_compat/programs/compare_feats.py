"""compare-feats: measure the similarity of two sets of features."""

from typing import Any

import numpy as np

from io_ark.blocks import ArrayBlock, Skip
from kaldi_compat.cli.log import as_text, logger
from kaldi_compat.cli.loop import Counts, features, only, results, stack_matrices
from kaldi_compat.cli.objects import DoubleMatrix, Matrix
from kaldi_compat.cli.program import program
from kaldi_compat.cli.tables import LookupReader, Tables
from kaldi_compat.errors import FeatureError
from kaldi_compat.exact.sums import compute_dot_products
from kaldi_compat.options.base import BaseOptions, option

USAGE = """
Logs the similarity of two sets of features, per dimension and on average: 1 if they are identical, less otherwise. The
exit status is 0 if the average reaches the threshold.

Usage: compare-feats [options] <feats-rspecifier1> <feats-rspecifier2>
e.g.:  compare-feats ark:1.ark ark:2.ark
"""


class Options(BaseOptions):
    threshold: float = option(0.99, "minimum average similarity for the exit status 0")


@program("compare-feats", USAGE, Options)
def main(options: Options, first: str, second: str) -> int:
    counts = Counts()
    with Tables() as tables:
        blocks, other = tables.read("matrix", first), tables.lookup("matrix", second)
        sums = np.zeros((3, 0))
        for products in results(lambda block: products_of_block(block, other), blocks, counts):
            sums = add_block(sums, products)
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


def add_block(sums: DoubleMatrix, block: Any) -> DoubleMatrix:
    """Add the sums of utterances, one by one, to the sums of earlier utterances: (3, dim).

    Raises:
        FeatureError: the dimension differs from that of the first utterance.
    """
    products = stack_matrices(block).astype(np.float64)
    if sums.size and products.shape[2] != sums.shape[1]:
        key = block.names()[0]
        raise FeatureError(f"{key}: dimension {products.shape[2]}, but {sums.shape[1]} before")
    total: DoubleMatrix = np.add.reduce(np.concatenate([sums[None], products] if sums.size else [products]), axis=0)
    return total


def products_of_block(block: ArrayBlock, table: LookupReader[Matrix]) -> ArrayBlock:
    """Sum the products of each column of an utterance with itself, for both tables, and of one table with the other.

    Returns:
        The sums of each utterance, (3, dim).

    Raises:
        Skip: an utterance cannot be compared; with Kaldi's warning.
        FeatureError: an utterance has different numbers of frames, for which Kaldi's program aborts.
    """
    others = table.find(block, lambda key: f"Second table has no feature for utterance {key}")
    shapes, (key, *_) = block.shapes.tolist(), block.names()
    if [list(other.shape) for other in others] != shapes:
        (frames, dim), (other_frames, other_dim) = only(block, shapes[0]), others[0].shape
        if dim != other_dim:
            raise Skip(f"Feature dimensions differ for utterance {key}, {dim} vs. {other_dim}, skipping utterance.")
        raise FeatureError(
            f"{frames} frames in the first table, but {other_frames} in the second: compare features of equal lengths"
        )
    feats = features(block)
    if feats.size == 0:
        raise Skip(f"Both features of utterance {key} are empty, skipping utterance.")
    return block.with_matrices(
        compute_dot_products(feats, block.rows(), others[0] if len(others) == 1 else np.concatenate(others))
    )


def in_brackets(values: DoubleMatrix) -> str:
    """Format a vector as Kaldi logs it."""
    return " [ " + "".join(as_text(value) + " " for value in values) + "]"
