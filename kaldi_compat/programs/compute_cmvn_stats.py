"""compute-cmvn-stats: compute statistics for mean and variance normalization."""

from collections.abc import Iterable, Iterator
from contextlib import suppress

import numpy as np

import io_ark
from io_ark.blocks import ArrayBlock, Block, Skip
from io_ark.errors import ArkError
from io_ark.specifier import parse_rspecifier
from kaldi_compat.cli.files import format_wxfilename
from kaldi_compat.cli.finite import NEW_STATISTICS, FiniteCheck
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import Counts, map_table, stack_rows, visit_blocks
from kaldi_compat.cli.objects import DoubleMatrix, Matrix, Vector
from kaldi_compat.cli.program import program
from kaldi_compat.cli.tables import LookupReader, Tables
from kaldi_compat.errors import FeatureError, OptionError
from kaldi_compat.functional.block_cmvn import compute_statistics
from kaldi_compat.options.base import BaseOptions
from kaldi_compat.options.declaration import option

USAGE = """
Computes statistics for cepstral mean and variance normalization. The statistics are those of each utterance, of each
speaker with --spk2utt, or of all utterances together if the output is a file.

Usage: compute-cmvn-stats [options] <feats-rspecifier> (<stats-wspecifier>|<stats-wxfilename>)
e.g.:  compute-cmvn-stats --spk2utt=ark:data/train/spk2utt scp:data/train/feats.scp ark,scp:cmvn.ark,cmvn.scp
"""

UTTERANCES_PER_BLOCK = 64  # Number of a speaker's utterances that are looked up together.


class Options(BaseOptions):
    spk2utt: str = option("", "rspecifier of each speaker's utterances; computes statistics per speaker")
    binary: bool = option(True, "write global statistics in binary (for tables, the wspecifier decides)")
    weights: str = option("", "rspecifier of a vector of frame weights for each utterance")


@program("compute-cmvn-stats", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Write CMVN statistics of speakers, utterances, or the whole table. Return 0 if an utterance is used, else 1."""
    to_table = io_ark.is_table_wspecifier(target)
    if options.spk2utt and not to_table:
        raise OptionError(f"--spk2utt option not compatible with wxfilename as output: {target} (did you forget ark:?)")
    check = FiniteCheck()
    with Tables() as tables:
        weights = tables.open_lookup("vector", options.weights) if options.weights else None
        if options.spk2utt:
            counts = write_speaker_sums(tables, options.spk2utt, source, target, weights, check)
        elif to_table:
            writer = tables.open_writer("double-matrix", target)
            blocks = tables.read("matrix", source)
            counts = map_table(blocks, writer, lambda block: compute_utterance_statistics(block, weights, check))
        else:
            counts = write_global_sum(tables.read("matrix", source), target, weights, check, binary=options.binary)
    logger.info("Done accumulating CMVN stats for %d utterances; %d had errors.", counts.done, counts.failed)
    return counts.status


def get_weighted_frames(block: ArrayBlock, weights: LookupReader[Vector] | None) -> tuple[Matrix, Vector | None]:
    """Return the frames of a block, and look up their weights.

    Args:
        block: features of the utterances.
        weights: table of the weights of each utterance's frames. None for no weights.

    Returns:
        The frames (frames, dim) of all utterances, and the weights (frames,) of these frames, or None without a table.

    Raises:
        Skip: an utterance is empty or lacks weights, or the number of weights is wrong.
    """
    feats, (key, *_) = stack_rows(block), block.decode_keys()
    if feats.size == 0:
        raise Skip(f"Empty feature matrix for utterance {key}")
    if weights is None:
        return feats, None
    vectors = weights.require_values(block, lambda key: f"No weights available for utterance {key}")
    if list(map(len, vectors)) != block.shapes[:, 0].tolist():
        raise Skip(f"Weights for utterance {key} have wrong dimension {len(vectors[0])} vs. {len(feats)}")
    return feats, np.concatenate(vectors)


def compute_utterance_statistics(
    block: ArrayBlock, weights: LookupReader[Vector] | None, check: FiniteCheck
) -> ArrayBlock:
    """Compute the CMVN statistics (2, dim + 1) of each utterance of a block. ``check`` reports NaN and infinities.

    For ``weights`` and the errors, see :func:`get_weighted_frames`.
    """
    feats, frame_weights = get_weighted_frames(block, weights)
    statistics = compute_statistics(feats, block.compute_row_bounds(), weights=frame_weights)
    if not np.isfinite(statistics.sum()):
        check.check_arrays(NEW_STATISTICS, zip(block.decode_keys(), statistics, strict=True))
    return block.with_matrices(statistics)


class Sum:
    """Sum of the CMVN statistics of utterances. For the arguments, see :func:`compute_utterance_statistics`.

    Attributes:
        statistics: the sum, (2, dim + 1). None without any features, zeros if all utterances were skipped.
    """

    def __init__(self, weights: LookupReader[Vector] | None, check: FiniteCheck) -> None:
        self.statistics: DoubleMatrix | None = None
        self._weights = weights
        self._check = check

    def add_blocks(self, blocks: Iterable[Block], counts: Counts) -> None:
        """Add the statistics of utterances, and count the utterances that were added or skipped."""
        visit_blocks(self._add_block, blocks, counts)

    def _add_block(self, block: ArrayBlock) -> ArrayBlock:
        """Add the statistics of a block of utterances, and return the block.

        Raise Skip as :func:`get_weighted_frames` does, or FeatureError if earlier features have a different dimension.
        """
        dim = stack_rows(block).shape[1]
        if self.statistics is None and dim:
            self.statistics = np.zeros((2, dim + 1))  # A skipped first utterance also sets the size.
        feats, weights = get_weighted_frames(block, self._weights)
        assert self.statistics is not None
        if self.statistics.shape[1] != dim + 1:
            raise FeatureError(
                f"the features have dimension {dim}, but earlier features have {self.statistics.shape[1] - 1}: use "
                "features of one dimension"
            )
        bounds = np.array([0, len(feats)])  # All utterances of the block count as one.
        self.statistics = compute_statistics(feats, bounds, weights=weights, onto=self.statistics[None])[0]
        if not np.isfinite(self.statistics.sum()):
            self._check.check_arrays(NEW_STATISTICS, iterate_statistics(block, feats, weights))
        return block


def iterate_statistics(block: ArrayBlock, feats: Matrix, weights: Vector | None) -> Iterator[tuple[str, DoubleMatrix]]:
    """Yield pairs of the key and the statistics of each utterance. Nothing is computed unless a caller iterates."""
    yield from zip(
        block.decode_keys(), compute_statistics(feats, block.compute_row_bounds(), weights=weights), strict=True
    )


def write_speaker_sums(
    tables: Tables, spk2utt: str, source: str, target: str, weights: LookupReader[Vector] | None, check: FiniteCheck
) -> Counts:
    """Write the CMVN statistics of each speaker, and return the numbers of used and skipped utterances.

    The table ``spk2utt`` has the utterances of each speaker, and the table ``source`` has their features. For
    ``weights`` and ``check``, see :func:`compute_utterance_statistics`.
    """
    counts = Counts()
    writer = tables.open_writer("double-matrix", target)
    speakers = tables.read("token-vector", spk2utt)
    feats: LookupReader[Matrix] = tables.open_lookup("matrix", source)
    group_size = UTTERANCES_PER_BLOCK if feats.can_find_many(source) or parse_rspecifier(source).kind == "scp" else 1

    def compute_speaker_statistics(speaker: str, utterances: list[str]) -> DoubleMatrix:
        """Compute the statistics (2, dim + 1) of a speaker's utterances, which are looked up in groups.

        Raise Skip if the speaker has no features.
        """
        total = Sum(weights, check)
        for first in range(0, len(utterances), group_size):
            total.add_blocks(find_utterances(feats, utterances[first : first + group_size], counts), counts)
        if total.statistics is None:
            raise Skip(f"No stats accumulated for speaker {speaker}")
        return total.statistics

    map_table(speakers, writer, lambda block: block.map(compute_speaker_statistics))
    return counts


def find_utterances(table: LookupReader[Matrix], keys: list[str], counts: Counts) -> Iterator[ArrayBlock]:
    """Yield the features of utterances, in one block if one look-up finds them all, else in blocks of one utterance.

    Utterances without features are logged and counted as failed.
    """
    if len(keys) > 1:
        with suppress(ArkError, Skip):  # The features are then looked up one by one, which raises the error again.
            present_feats = [value for value in table.find_values(keys) if value is not None]
            if len(present_feats) == len(keys):
                yield ArrayBlock.from_arrays(keys, present_feats)
                return
    for key in keys:
        (value,) = table.find_values([key])
        if value is None:
            logger.warning("Did not find features for utterance %s", key)
            counts.failed += 1
        else:
            yield ArrayBlock.from_arrays([key], [value])


def write_global_sum(
    blocks: Iterable[Block], target: str, weights: LookupReader[Vector] | None, check: FiniteCheck, *, binary: bool
) -> Counts:
    """Write the single-precision statistics of all utterances. Return the numbers of added and skipped utterances.

    Without features, write an empty matrix.
    """
    counts, total = Counts(), Sum(weights, check)
    total.add_blocks(blocks, counts)
    if total.statistics is None:
        # As in Kaldi, the failure does not stop the program, and shows only in the exit status.
        logger.warning("There are no features to compute statistics of: writing an empty matrix")
        total.statistics = np.zeros((0, 0))
    io_ark.save(target, total.statistics.astype(np.float32), kind="matrix", binary=binary)
    logger.info("Wrote global CMVN stats to %s", format_wxfilename(target))
    return counts
