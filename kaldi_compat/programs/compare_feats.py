"""compare-feats: measure the similarity of two sets of features."""

from typing import Any

import numpy as np

from io_ark.blocks import ArrayBlock, Skip
from io_ark.text import format_count
from kaldi_compat.cli.log import format_number, logger
from kaldi_compat.cli.loop import Counts, compute_results, require_one_entry, stack_matrices, stack_rows
from kaldi_compat.cli.objects import DoubleMatrix, Matrix
from kaldi_compat.cli.program import program
from kaldi_compat.cli.tables import LookupReader, Tables
from kaldi_compat.errors import FeatureError
from kaldi_compat.exact.sums import compute_dot_products
from kaldi_compat.options.base import BaseOptions, as_float32
from kaldi_compat.options.declaration import option

USAGE = """
Logs the similarity of two sets of features, per dimension and on average. The similarity is 1 if they are identical,
and less otherwise. The exit status is 0 if the average reaches the threshold.

Usage: compare-feats [options] <feats-rspecifier1> <feats-rspecifier2>
e.g.:  compare-feats ark:1.ark ark:2.ark
"""


class Options(BaseOptions):
    threshold: float = option(0.99, "minimum average similarity for the exit status 0")


@program("compare-feats", USAGE, Options)
def main(options: Options, first: str, second: str) -> int:
    """Compare two tables. The exit status is 0 if their average similarity reaches the threshold, otherwise 1."""
    counts = Counts()
    with Tables() as tables:
        blocks, other = tables.read("matrix", first), tables.open_lookup("matrix", second)
        sums = np.zeros((3, 0))
        for products in compute_results(lambda block: sum_products(block, other), blocks, counts):
            sums = add_products(sums, products)
    logger.info("self-product of 1st features for each column dimension: %s", format_vector(sums[0]))
    logger.info("self-product of 2nd features for each column dimension: %s", format_vector(sums[1]))
    logger.info("cross-product for each column dimension: %s", format_vector(sums[2]))
    with np.errstate(divide="ignore", invalid="ignore"):
        similarity = 2.0 * sums[2] / (sums[0] + sums[1])
    overall = float(similarity.mean()) if counts.done else -np.nan
    note = "(1.0 means identical, the smaller the more different)"
    logger.info("Similarity metric for each dimension %s\n %s", format_vector(similarity), note)
    logger.info("Overall similarity for the two feats is:%s %s", format_number(overall), note)
    logger.info("Processed %d feature files, %d had errors.", counts.done, counts.failed)
    if not counts.done:
        return 1
    threshold = as_float32(options.threshold)
    is_similar = overall >= threshold
    sign = ">=" if is_similar else "<"
    word = "similar" if is_similar else "dissimilar"
    logger.info("Features are considered %s since %s %s %g", word, format_number(overall), sign, threshold)
    return 0 if is_similar else 1


def add_products(sums: DoubleMatrix, block: Any) -> DoubleMatrix:
    """Add the products of the utterances of a block, one by one, to the sums over earlier utterances.

    Args:
        sums: sums (3, dim) over earlier utterances, or (3, 0) before the first utterance.
        block: result of :func:`sum_products`.

    Returns:
        The new sums (3, dim).

    Raises:
        FeatureError: the dimension differs from the dimension of the first utterance.
    """
    products = stack_matrices(block).astype(np.float64)
    if sums.size and products.shape[2] != sums.shape[1]:
        key = block.decode_keys()[0]
        raise FeatureError(
            f"{key}: the features have dimension {products.shape[2]}, but earlier features have {sums.shape[1]}: "
            "compare features of one dimension"
        )
    total: DoubleMatrix = np.add.reduce(np.concatenate([sums[None], products] if sums.size else [products]), axis=0)
    return total


def sum_products(block: ArrayBlock, table: LookupReader[Matrix]) -> ArrayBlock:
    """Compute the dot products, over frames, of the columns of each utterance's features in two tables.

    ``block`` has the features of the first table, and ``table`` is the second table.

    Returns:
        A matrix (3, dim) for each utterance: self-products of the first features, self-products of the second features,
        and products of the first and the second features.

    Raises:
        Skip: the second table lacks an utterance, the dimensions differ, or the features are empty.
        FeatureError: the features of an utterance differ in number of frames, so that Kaldi's program aborts.
    """
    others = table.require_values(block, lambda key: f"Second table has no feature for utterance {key}")
    shapes, (key, *_) = block.shapes.tolist(), block.decode_keys()
    if [list(other.shape) for other in others] != shapes:
        (num_frames, dim), (other_num_frames, other_dim) = require_one_entry(block, shapes[0]), others[0].shape
        if dim != other_dim:
            raise Skip(f"Feature dimensions differ for utterance {key}, {dim} vs. {other_dim}, skipping utterance.")
        raise FeatureError(
            f"{format_count(num_frames, 'frame')} in the first table, but {other_num_frames} in the second: "
            "compare features of equal lengths"
        )
    feats = stack_rows(block)
    if feats.size == 0:
        raise Skip(f"Both features of utterance {key} are empty, skipping utterance.")
    return block.with_matrices(
        compute_dot_products(
            feats, block.compute_row_bounds(), others[0] if len(others) == 1 else np.concatenate(others)
        )
    )


def format_vector(values: DoubleMatrix) -> str:
    """Format a vector as in Kaldi's logs, such as " [ 1 2.5 ]"."""
    return " [ " + "".join(format_number(value) + " " for value in values) + "]"
