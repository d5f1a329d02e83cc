"""compute-cmvn-stats-two-channel: compute normalization statistics of calls, from the louder side of each frame."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np

import io_ark
from io_ark.codecs.blocks import BLOCK_BYTES, ArrayBlock
from io_ark.text import split_words
from kaldi_compat.cli.files import text_lines
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import BlockTable, Counts, LookupReader, Sink, finds_many, write_block
from kaldi_compat.cli.objects import DoubleMatrix, Indices, Matrix, Vector
from kaldi_compat.cli.program import program
from kaldi_compat.errors import FeatureError
from kaldi_compat.exact import ragged
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

CALLS_AT_ONCE = 256
ALONE, ONE, OTHER = range(3)  # roles of utterances in calls


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
        of_calls = groups(text_lines(calls), calls)
        size = CALLS_AT_ONCE if finds_many(feats, source) else 1
        for first in range(0, len(of_calls), size):
            write_stats(of_calls[first : first + size], BlockTable(feats), writer, options, counts)
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


def write_stats(
    of_calls: list[list[str]], feats: BlockTable[Matrix], writer: Sink, options: Options, counts: Counts
) -> None:
    """Write the statistics of the sides of some calls."""
    found = feats.values(list(chain.from_iterable(of_calls))) if len(of_calls) > 1 else None
    if found is not None and len({each.shape[1] for each in found}) == 1 and all(each.size for each in found):
        write_blocks(of_calls, found, writer, options)
        counts.done += len(found)
        return
    for sides in of_calls:
        present = [key for key in sides if key in feats]
        for key in sides:
            if key not in present:
                logger.warning("No feature data for utterance %s", key)
        counts.failed += len(sides) - len(present)
        for key, each in zip(present, stats_of(present, [feats[key] for key in present], options), strict=True):
            writer[key] = each
            counts.done += 1


def write_blocks(of_calls: list[list[str]], feats: list[Matrix], writer: Sink, options: Options) -> None:
    """Write the statistics of calls in blocks.

    Args:
        of_calls: the utterances of each call.
        feats: their features, of one dimension and not empty.
        writer: the table.
        options: options of the program.
    """
    keys: list[str] = []
    block: list[Matrix] = []
    roles: list[int] = []
    size = 0
    left = iter(feats)
    for number, sides in enumerate(of_calls, 1):
        of_sides = list(islice(left, len(sides)))
        keys += sides
        block += of_sides
        roles += [ONE, OTHER] if compared(sides, of_sides) else [ALONE] * len(sides)
        size += sum(each.nbytes for each in of_sides)
        if size >= BLOCK_BYTES or number == len(of_calls):
            stats = stats_of_block(block, np.array(roles), options)
            write_block(writer, ArrayBlock.of(keys, list(stats)))
            keys, block, roles, size = [], [], [], 0


def stats_of_block(feats: list[Matrix], roles: Indices, options: Options) -> DoubleMatrix:
    """Compute the statistics ``(utterances, 2, dim + 1)`` of utterances, of which each OTHER follows its ONE."""
    lengths = np.array([len(each) for each in feats])
    rows = feats[0] if len(feats) == 1 else np.concatenate(feats)
    one, other = (np.repeat(roles == role, lengths) for role in (ONE, OTHER))
    loudness = rows[:, :1]
    weights = np.ones(len(rows), np.float32)
    weights[one], weights[other] = two_channel_weights(loudness[one], loudness[other], options.quieter_channel_weight)
    return ragged.weighted_stats(rows, np.concatenate(([0], np.cumsum(lengths))), weights)


def stats_of(keys: list[str], feats: list[Matrix], options: Options) -> list[DoubleMatrix]:
    """Compute the statistics of the two sides of a call, or of its single utterance.

    Raises:
        FeatureError: the sides differ in dimension.
    """
    if compared(keys, feats):
        weights = two_channel_weights(feats[0][:, :1], feats[1][:, :1], options.quieter_channel_weight)
        return [weighted_stats(each, of_each) for each, of_each in zip(feats, weights, strict=True)]
    return [weighted_stats(each, np.ones(len(each), np.float32)) for each in feats]


def weighted_stats(feats: Matrix, weights: Vector) -> DoubleMatrix:
    """Compute the statistics of an utterance, ``(2, dim + 1)``."""
    if not feats.size:
        return cmvn_stats(feats, weights=weights)
    stats: DoubleMatrix = ragged.weighted_stats(np.ascontiguousarray(feats), np.array([0, len(feats)]), weights)[0]
    return stats


def compared(keys: list[str], feats: list[Matrix]) -> bool:
    """Return True if two utterances are sides of equal length with frames, which are compared.

    Raises:
        FeatureError: the sides differ in dimension.
    """
    if len(feats) != 2:
        return False
    one, other = feats
    if one.shape[1] != other.shape[1]:
        raise FeatureError(f"{keys[0]} has dimension {one.shape[1]}, but {keys[1]} has {other.shape[1]}")
    if len(one) != len(other):
        logger.warning(
            "Number of frames differ between %s and %s: %d vs. %d, treating them separately.",
            *keys,
            len(one),
            len(other),
        )
    return len(one) == len(other) > 0
