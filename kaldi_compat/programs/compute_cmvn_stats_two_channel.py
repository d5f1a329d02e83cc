"""compute-cmvn-stats-two-channel: compute normalization statistics of calls, from the louder side of each frame."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from io_ark.blocks import BLOCK_BYTES, ArrayBlock
from io_ark.errors import ArkError
from io_ark.text import split_words
from kaldi_compat.cli.files import read_lines
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import Counts
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.program import program
from kaldi_compat.cli.tables import LookupReader, Tables
from kaldi_compat.errors import FeatureError
from kaldi_compat.functional.block_cmvn import compute_statistics
from kaldi_compat.functional.cmvn import weigh_two_channels
from kaldi_compat.options.base import BaseOptions
from kaldi_compat.options.declaration import option

USAGE = """
Computes normalization statistics of recordings with two sides, such as telephone calls. In each frame, the louder side
has weight 1 and the other a small weight; loudness is the first column (energy or C0). A line of the first file is
  <utterance> <call> <side>
The utterances of calls that do not have two sides are treated separately.

Usage: compute-cmvn-stats-two-channel [options] <reco2file-and-channel> <feats-rspecifier> <stats-wspecifier>
e.g.:  compute-cmvn-stats-two-channel data/train_unseg/reco2file_and_channel scp:data/train_unseg/feats.scp ark,t:-
"""

CALLS_PER_LOOKUP = 256  # Number of calls whose features are read together. It bounds the memory.
ALONE, FIRST_SIDE, SECOND_SIDE = range(3)  # Roles of an utterance: no side of a call, first side, second side.


class Options(BaseOptions):
    quieter_channel_weight: float = option(
        0.01, "weight of the quieter side; above 0, so that a silent side has statistics, too"
    )


@program("compute-cmvn-stats-two-channel", USAGE, Options)
def main(options: Options, sides: str, source: str, target: str) -> int:
    """Write CMVN statistics of utterances, weighting the sides of a call. Return 0 if an entry is written, else 1."""
    counts = Counts()
    calls = group_by_call(read_lines(sides), sides)
    with Tables() as tables:
        table, writer = tables.open_lookup("matrix", source), tables.open_writer("double-matrix", target)
        calls_per_lookup = CALLS_PER_LOOKUP if table.can_find_many(source) else 1
        for block in read_calls(calls, table, calls_per_lookup, counts):
            if block.keys:
                writer.write_block(block.compute_statistics(options.quieter_channel_weight))
    logger.info("Done accumulating CMVN stats for %d utterances; %d had errors.", counts.done, counts.failed)
    return counts.status


def group_by_call(lines: Iterable[str], name: str) -> list[list[str]]:
    """Return groups of utterances: a pair for each call with two utterances, otherwise one group per utterance.

    The groups are sorted by the name of the call. Calls that do not have two utterances are logged.

    Args:
        lines: lines of the file, with an utterance, its call, and its channel.
        name: name of the file, for errors.

    Raises:
        FeatureError: a line does not have three fields.
    """
    calls: dict[str, list[str]] = {}
    for line_number, line in enumerate(lines, 1):
        fields = split_words(line)
        if len(fields) != 3:
            raise FeatureError(
                f"Expecting 3 fields per line of reco2file_and_channel file {name}, got: {line} (line {line_number})"
            )
        calls.setdefault(fields[1], []).append(fields[0])
    grouped = []
    for call, utterances in sorted(calls.items()):
        if len(utterances) == 2:
            grouped.append(utterances)
        else:
            logger.warning("Call %s has %d utterances, expected two; treating them singly.", call, len(utterances))
            grouped += [[utterance] for utterance in utterances]
    return grouped


@dataclass
class CallBlock:
    """Utterances of calls whose features have the same dimension, so that they can be computed together."""

    keys: list[str] = field(default_factory=list)
    feats: list[Matrix] = field(default_factory=list)
    # Role of each utterance: ALONE, FIRST_SIDE or SECOND_SIDE. The second side directly follows the first side.
    roles: list[int] = field(default_factory=list)
    size: int = 0  # Size of the features in bytes.

    def can_add_features(self, feats: list[Matrix]) -> bool:
        """Return True if the block is empty, or if it has room and its features have the dimension of all ``feats``."""
        if not self.feats:
            return True
        return self.size < BLOCK_BYTES and {matrix.shape[1] for matrix in feats} <= {self.feats[0].shape[1]}

    def add_call(self, keys: list[str], feats: list[Matrix], roles: list[int]) -> None:
        """Add utterances of one call.

        Args:
            keys: keys of the utterances.
            feats: features (frames, dim) of each utterance.
            roles: ``FIRST_SIDE`` and ``SECOND_SIDE`` for the two sides of a call that are compared, else ``ALONE``.
        """
        self.keys += keys
        self.feats += feats
        self.roles += roles
        self.size += sum([matrix.nbytes for matrix in feats])

    def compute_statistics(self, quieter_channel_weight: float) -> ArrayBlock:
        """Compute the CMVN statistics (2, dim + 1) of each utterance.

        In each frame of a call, the quieter side has the weight ``quieter_channel_weight``, and the louder side 1.
        Frames of utterances that are processed separately have the weight 1.
        """
        lengths = np.array(list(map(len, self.feats)))
        rows = self.feats[0] if len(self.feats) == 1 else np.concatenate(self.feats)
        if not rows.size:
            return ArrayBlock.from_arrays(self.keys, list(np.zeros((len(lengths), 2, rows.shape[1] + 1))))
        roles = np.repeat(self.roles, lengths)
        is_first, is_second = roles == FIRST_SIDE, roles == SECOND_SIDE
        loudness = rows[:, :1]  # The first column is the energy or C0.
        weights = np.ones(len(rows), np.float32)
        weights[is_first], weights[is_second] = weigh_two_channels(
            loudness[is_first], loudness[is_second], quieter_channel_weight
        )
        bounds = np.concatenate(([0], np.cumsum(lengths)))
        return ArrayBlock.from_arrays(self.keys, list(compute_statistics(rows, bounds, weights=weights)))


def read_calls(
    calls: list[list[str]], table: LookupReader[Matrix], calls_per_lookup: int, counts: Counts
) -> Iterator[CallBlock]:
    """Yield the utterances of calls in blocks, and count utterances with and without features.

    Args:
        calls: the utterances of each call.
        table: table of the features.
        calls_per_lookup: number of calls that are looked up at once.
        counts: counts that are increased.

    Raises:
        FeatureError: the sides of a call differ in dimension. Earlier calls have been yielded.
        ArkError: features cannot be read. Earlier calls have been yielded.
    """
    block = CallBlock()
    try:
        for index, utterances in enumerate(calls):
            if index % calls_per_lookup == 0:
                table.prefetch(list(chain.from_iterable(calls[index : index + calls_per_lookup])))
            keys, feats = find_features(utterances, table)
            counts.failed += len(utterances) - len(keys)
            roles = [FIRST_SIDE, SECOND_SIDE] if are_comparable(keys, feats) else [ALONE] * len(keys)
            if not block.can_add_features(feats):
                yield block
                block = CallBlock()
            block.add_call(keys, feats, roles)
            counts.done += len(keys)
    except (ArkError, FeatureError):
        yield block
        raise
    yield block


def find_features(utterances: list[str], table: LookupReader[Matrix]) -> tuple[list[str], list[Matrix]]:
    """Look up the features of a call, and log a warning for each utterance without features.

    Returns:
        Keys of the utterances that have features, and their features (frames, dim).
    """
    keys, feats = [], []
    for key in utterances:
        (value,) = table.find_values([key])
        if value is None:
            logger.warning("No feature data for utterance %s", key)
        else:
            keys.append(key)
            feats.append(value)
    return keys, feats


def are_comparable(keys: list[str], feats: list[Matrix]) -> bool:
    """Return True if both sides of a call have features, with the same positive number of frames.

    ``keys`` are the utterances of the call that have features, and ``feats`` are these features, each (frames, dim).
    Log a warning if the two sides have different numbers of frames.

    Raises:
        FeatureError: the sides differ in dimension.
    """
    if len(feats) != 2:
        return False
    first, second = feats
    if first.shape[1] != second.shape[1]:
        raise FeatureError(
            f"{keys[0]} has dimension {first.shape[1]}, but {keys[1]} has {second.shape[1]}: compute both "
            "with one configuration"
        )
    if len(first) != len(second):
        logger.warning(
            "Number of frames differ between %s and %s: %d vs. %d, treating them separately.",
            *keys, len(first), len(second),
        )  # fmt: skip
    return len(first) == len(second) > 0
