"""compute-cmvn-stats: compute statistics for mean and variance normalization."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import cast

import numpy as np

import io_ark
from io_ark.codecs.blocks import ArrayBlock, Block
from kaldi_compat.cli.files import printable_wxfilename
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import Counts, LookupReader, Skip, items_of, map_table
from kaldi_compat.cli.objects import DoubleMatrix, Matrix, Vector
from kaldi_compat.cli.program import program
from kaldi_compat.errors import FeatureError, OptionError
from kaldi_compat.exact.ragged import stats
from kaldi_compat.functional.cmvn import cmvn_stats
from kaldi_compat.options.base import BaseOptions, option

USAGE = """
Computes statistics for cepstral mean and variance normalization: of each utterance, of each speaker with --spk2utt, or
of all utterances together if the output is a file.

Usage: compute-cmvn-stats [options] <feats-rspecifier> (<stats-wspecifier>|<stats-wxfilename>)
e.g.:  compute-cmvn-stats --spk2utt=ark:data/train/spk2utt scp:data/train/feats.scp ark,scp:cmvn.ark,cmvn.scp
"""


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """Options of compute-cmvn-stats."""

    spk2utt: str = option("", "rspecifier of each speaker's utterances; computes statistics per speaker")
    binary: bool = option(True, "write global statistics in binary (for tables, the wspecifier decides)")
    weights: str = option("", "rspecifier of a vector of frame weights for each utterance")


Accumulate = Callable[[str, Matrix, "DoubleMatrix | None"], DoubleMatrix]


@program("compute-cmvn-stats", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Compute statistics per utterance, per speaker or of all utterances."""
    to_table = io_ark.is_table_wspecifier(target)
    if options.spk2utt and not to_table:
        raise OptionError(f"--spk2utt option not compatible with wxfilename as output: {target} (did you forget ark:?)")
    with ExitStack() as stack:
        weights = None
        if options.weights:
            weights = stack.enter_context(LookupReader[Vector]("vector", options.weights))
        accumulate = accumulator(weights)
        if options.spk2utt:
            counts = by_speaker(options.spk2utt, source, target, accumulate)
        elif to_table:
            writer = stack.enter_context(io_ark.Writer[DoubleMatrix]("double-matrix", target))
            reader = stack.enter_context(io_ark.SequentialReader[Matrix]("matrix", source, blocks=weights is None))

            def of_block(block: ArrayBlock) -> ArrayBlock | None:
                feats = block.matrix()
                if feats is None or weights is not None:
                    return None
                each = stats(feats, block.rows())
                return block.with_rows(each.reshape(-1, each.shape[-1]), np.full(len(block), 2))

            counts = map_table(reader, writer, lambda key, feats: accumulate(key, feats, None), of_block)
        else:
            reader = stack.enter_context(io_ark.SequentialReader[Matrix]("matrix", source, blocks=weights is None))
            items = items_of(reader, only_blocks=weights is None)
            counts = of_all(items, target, accumulate, binary=options.binary)
    logger.info("Done accumulating CMVN stats for %d utterances; %d had errors.", counts.done, counts.failed)
    return counts.status


def accumulator(weights: LookupReader[Vector] | None) -> Accumulate:
    """Return a function that adds the statistics of an utterance to those of others."""

    def accumulate(key: str, feats: Matrix, onto: DoubleMatrix | None) -> DoubleMatrix:
        if feats.size == 0:
            raise Skip(f"Empty feature matrix for utterance {key}")
        if onto is not None and onto.shape[1] != feats.shape[1] + 1:
            raise FeatureError(f"{key}: dimension {feats.shape[1]}, but {onto.shape[1] - 1} before")
        if weights is None:
            before = None if onto is None else onto[None]
            total: DoubleMatrix = stats(np.ascontiguousarray(feats), np.array([0, len(feats)]), onto=before)[0]
            return total
        if key not in weights:
            raise Skip(f"No weights available for utterance {key}")
        each = weights[key]
        if len(each) != len(feats):
            raise Skip(f"Weights for utterance {key} have wrong dimension {len(each)} vs. {len(feats)}")
        return cmvn_stats(feats, weights=each, onto=onto)

    return accumulate


def add_up(
    entries: Iterable[tuple[str, Matrix | None]],
    accumulate: Accumulate,
    counts: Counts,
    total: DoubleMatrix | None = None,
) -> DoubleMatrix | None:
    """Sum the statistics of several utterances onto others: None without any features, zeros if all were skipped."""
    for key, feats in entries:
        try:
            if feats is None:
                raise Skip(f"Did not find features for utterance {key}")
            if total is None and feats.size:
                total = np.zeros((2, feats.shape[1] + 1))
            total = accumulate(key, feats, total)
        except Skip as reason:
            counts.failed += 1
            logger.warning("%s", reason)
        else:
            counts.done += 1
    return total


def by_speaker(spk2utt: str, source: str, target: str, accumulate: Accumulate) -> Counts:
    """Write statistics for each speaker, and count utterances."""
    counts = Counts()

    def of_speaker(speaker: str, utterances: list[str]) -> DoubleMatrix:
        total = add_up(((key, feats.get(key)) for key in utterances), accumulate, counts)
        if total is None:
            raise Skip(f"No stats accumulated for speaker {speaker}")
        return total

    with (
        io_ark.Writer[DoubleMatrix]("double-matrix", target) as writer,
        io_ark.SequentialReader[list[str]]("token-vector", spk2utt) as speakers,
        LookupReader[Matrix]("matrix", source) as feats,
    ):
        map_table(speakers, writer, of_speaker)
    return counts


def of_all(items: Iterable[Block | tuple[str, Matrix]], target: str, accumulate: Accumulate, *, binary: bool) -> Counts:
    """Write the statistics of all utterances together, in single precision as in Kaldi.

    Args:
        items: entries, and blocks of entries whose frames have no weights.
        target: name of the file.
        accumulate: adds the statistics of an entry.
        binary: write in binary.
    """
    counts = Counts()
    total: DoubleMatrix | None = None
    for item in items:
        feats = None if isinstance(item, tuple) else cast(ArrayBlock, item).matrix()
        if feats is not None and (total is None or total.shape[1] == feats.shape[1] + 1):
            total = stats(feats, np.array([0, len(feats)]), onto=None if total is None else total[None])[0]
            counts.done += len(cast(ArrayBlock, item))
        else:
            total = add_up([item] if isinstance(item, tuple) else item.entries(), accumulate, counts, total)
    if total is None:
        # As in Kaldi, only the exit status reports the failure.
        logger.warning("There are no features to compute statistics of: writing an empty matrix")
        total = np.zeros((0, 0))
    io_ark.write_object("matrix", target, total.astype(np.float32), binary=binary)
    logger.info("Wrote global CMVN stats to %s", printable_wxfilename(target))
    return counts
