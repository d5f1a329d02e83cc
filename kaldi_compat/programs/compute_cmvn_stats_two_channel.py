"""compute-cmvn-stats-two-channel: compute normalization statistics of calls, from the louder side of each frame."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import io_ark
from io_ark.text import split_words
from kaldi_compat.cli.files import text_lines
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import Counts, LookupReader
from kaldi_compat.cli.objects import DoubleMatrix, Matrix
from kaldi_compat.cli.program import program
from kaldi_compat.errors import FeatureError
from kaldi_compat.functional.cmvn import cmvn_stats, two_channel_weights
from kaldi_compat.options.base import BaseOptions, option

USAGE = """
Computes normalization statistics of recordings with two sides, such as telephone calls. In each frame, the louder side
has weight 1 and the other a small weight; loudness is the first column (energy or C0). A line of the first file is
  <utterance> <call> <side>
The utterances of calls that do not have two sides are treated separately.

Usage: compute-cmvn-stats-two-channel [options] <reco2file-and-channel> <feats-rspecifier> <stats-wspecifier>
e.g.:  compute-cmvn-stats-two-channel data/train_unseg/reco2file_and_channel scp:data/train_unseg/feats.scp ark,t:-
"""


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """Options of compute-cmvn-stats-two-channel."""

    quieter_channel_weight: float = option(
        0.01, "weight of the quieter side; above 0, so that a silent side has statistics, too"
    )


@program("compute-cmvn-stats-two-channel", USAGE, Options)
def main(options: Options, calls: str, source: str, target: str) -> int:
    """Write the statistics of each utterance, call by call."""
    counts = Counts()
    with (
        LookupReader[Matrix]("matrix", source) as feats,
        io_ark.Writer[DoubleMatrix]("double-matrix", target) as writer,
    ):
        for sides in groups(text_lines(calls), calls):
            present = [key for key in sides if key in feats]
            for key in sides:
                if key not in present:
                    logger.warning("No feature data for utterance %s", key)
            counts.failed += len(sides) - len(present)
            for key, stats in zip(present, stats_of(present, [feats[key] for key in present], options), strict=True):
                writer[key] = stats
                counts.done += 1
    logger.info("Done accumulating CMVN stats for %d utterances; %d had errors.", counts.done, counts.failed)
    return counts.status


def groups(lines: Iterable[str], name: str) -> list[list[str]]:
    """Group utterances by call, in order of the calls' names; calls without two sides give groups of one.

    Raises:
        FeatureError: a line does not have three fields.
    """
    calls: dict[str, list[str]] = {}
    for number, line in enumerate(lines, 1):
        fields = split_words(line)
        if len(fields) != 3:
            raise FeatureError(
                f"Expecting 3 fields per line of reco2file_and_channel file {name}, got: {line} (line {number})"
            )
        calls.setdefault(fields[1], []).append(fields[0])
    found = []
    for call, utterances in sorted(calls.items()):
        if len(utterances) == 2:
            found.append(utterances)
        else:
            logger.warning("Call %s has %d utterances, expected two; treating them singly.", call, len(utterances))
            found += [[each] for each in utterances]
    return found


def stats_of(keys: list[str], feats: list[Matrix], options: Options) -> list[DoubleMatrix]:
    """Compute the statistics of the two sides of a call, or of its single utterance.

    Raises:
        FeatureError: the sides differ in dimension.
    """
    if len(feats) == 2:
        one, other = feats
        if one.shape[1] != other.shape[1]:
            raise FeatureError(f"{keys[0]} has dimension {one.shape[1]}, but {keys[1]} has {other.shape[1]}")
        if len(one) == len(other):
            weights = two_channel_weights(one, other, options.quieter_channel_weight)
            return [cmvn_stats(one, weights=weights[0]), cmvn_stats(other, weights=weights[1])]
        logger.warning(
            "Number of frames differ between %s and %s: %d vs. %d, treating them separately.",
            *keys,
            len(one),
            len(other),
        )
    return [cmvn_stats(each) for each in feats]
