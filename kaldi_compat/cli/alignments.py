"""Change blocks of posteriors, and read the text files that go with alignments."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.blocks import ArrayBlock, PosteriorArrays, PosteriorBlock
from io_ark.specifier import is_table_rspecifier
from io_ark.text import parse_integer
from kaldi_compat.cli.files import read_lines
from kaldi_compat.cli.orders import order_keys_by_hash
from kaldi_compat.errors import OptionError
from kaldi_compat.options.base import INT32
from kaldi_compat.options.config import parse_real

Integers = npt.NDArray[np.integer[Any]]
Mask = npt.NDArray[np.bool_]
Weights = npt.NDArray[np.float32]

PART_FRAMES = 1 << 13  # Largest number of frames of a part, so that the arrays of a part fit into a core's cache.


def replace_posteriors(block: PosteriorBlock, posteriors: PosteriorArrays) -> PosteriorBlock:
    """Return a block with the keys and numbers of frames of ``block``, and with other posteriors of these frames."""
    return PosteriorBlock(block.keys, block.frames, posteriors)


def split_for_cache(*sets: PosteriorArrays) -> Iterator[tuple[PosteriorArrays, ...]]:
    """Split sets of posteriors of the same frames every ``PART_FRAMES`` frames. Yield tuples with one part per set."""
    count = len(sets[0].counts)
    part_lengths = np.diff([*range(0, count, PART_FRAMES), count])
    return zip(*(posteriors.split(part_lengths) for posteriors in sets), strict=True)


def map_parts(function: Callable[[PosteriorArrays], PosteriorArrays], posteriors: PosteriorArrays) -> PosteriorArrays:
    """Apply ``function``, which must process frames independently, to parts of posteriors. Concatenate the results."""
    return PosteriorArrays.concatenate([function(part) for (part,) in split_for_cache(posteriors)])


def get_pair_frames(posteriors: PosteriorArrays) -> npt.NDArray[np.int64]:
    """Return the index of the frame to which each pair (integer, weight) belongs, (pairs,)."""
    return np.repeat(np.arange(len(posteriors.counts)), posteriors.counts)


def make_frame_vectors(block: PosteriorBlock, values: Weights) -> ArrayBlock:
    """Make a block with a vector for each utterance of a block. ``values`` holds all vectors in order, (frames,)."""
    return ArrayBlock(block.keys, values, np.column_stack((block.frames, np.zeros_like(block.frames))), dimensions=1)


def sum_by_frame(frames: Integers, weights: Weights, count: int) -> Weights:
    """Return the sum of the weights of each frame, (count,), added in order and in single precision.

    ``frames``, (pairs,), holds the index of the frame of each weight. ``count`` is the number of frames.
    """
    sums = np.zeros(count, np.float32)
    np.add.at(sums, frames, weights)
    return sums


def select_pairs(posteriors: PosteriorArrays, is_selected: Mask) -> PosteriorArrays:
    """Return posteriors with only the pairs (integer, weight) for which the mask ``is_selected``, (pairs,), is True."""
    if is_selected.all():
        return posteriors
    selected_before = np.append(0, np.cumsum(is_selected))
    counts = np.diff(selected_before[np.append(0, np.cumsum(posteriors.counts))])
    return PosteriorArrays(counts, posteriors.integers[is_selected], posteriors.weights[is_selected])


def limit_pairs(max_count: int, posteriors: PosteriorArrays) -> PosteriorArrays:
    """Return posteriors with at most the first ``max_count`` pairs (integer, weight) of each frame."""
    starts = np.cumsum(posteriors.counts) - posteriors.counts
    index_in_frame = np.arange(len(posteriors.integers)) - np.repeat(starts, posteriors.counts)
    return select_pairs(posteriors, index_in_frame < max_count)


def reverse_pairs(posteriors: PosteriorArrays) -> PosteriorArrays:
    """Reverse each frame's pairs, as GNU's hash table does if no two integers of the frame share a bucket."""
    ends = np.cumsum(posteriors.counts)
    starts = ends - posteriors.counts
    order = np.repeat(starts + ends - 1, posteriors.counts) - np.arange(len(posteriors.integers))
    return posteriors._replace(integers=posteriors.integers[order], weights=posteriors.weights[order])


def merge_in_hash_order(posteriors: PosteriorArrays) -> PosteriorArrays:
    """Add up the weights of equal integers in each frame. Return each frame's sums in the order of GNU's hash table."""
    pairs = get_pair_frames(posteriors) << 32 | posteriors.integers  # The frame is in the upper 32 bits.
    unique_pairs, first_indices, inverse = np.unique(pairs, return_index=True, return_inverse=True)
    weights = np.zeros(len(unique_pairs), np.float32)
    np.add.at(weights, inverse, posteriors.weights)
    insertion_order = np.argsort(first_indices)  # Order by frame and then by insertion.
    frames, integers = np.divmod(unique_pairs[insertion_order], 1 << 32)
    counts = np.bincount(frames, minlength=len(posteriors.counts))
    order = insertion_order[order_keys_by_hash(integers, frames, counts)]
    return PosteriorArrays(counts, (unique_pairs[order] % (1 << 32)).astype(np.int32), weights[order])


def scale_posteriors(posteriors: PosteriorArrays, factors: Weights | float) -> PosteriorArrays:
    """Multiply weights by one factor, or by a factor for each frame, (frames,). Remove pairs with the factor 0."""
    repeated_factors = np.repeat(factors, posteriors.counts) if np.ndim(factors) else factors
    pair_factors = np.asarray(repeated_factors, np.float32)
    multiplied = posteriors._replace(weights=posteriors.weights * pair_factors)
    return select_pairs(multiplied, np.broadcast_to(pair_factors != 0, multiplied.weights.shape))


def interleave_frames(first: PosteriorArrays, second: PosteriorArrays) -> tuple[PosteriorArrays, Mask]:
    """Concatenate both sets' pairs in each frame. Also return a mask (pairs,), True for the pairs of ``second``."""
    counts = np.column_stack((first.counts, second.counts))
    is_second = np.repeat(np.tile([False, True], len(counts)), counts.reshape(-1))
    integers, weights = np.empty(len(is_second), np.int32), np.empty(len(is_second), np.float32)
    for mask, posteriors in ((~is_second, first), (is_second, second)):
        integers[mask], weights[mask] = posteriors.integers, posteriors.weights
    return PosteriorArrays(counts.sum(axis=1), integers, weights), is_second


def sum_runs(values: Weights, starts: Integers, sizes: Integers) -> Weights:
    """Return the sum of each run of consecutive values, (runs,), added in order and in single precision.

    ``starts`` and ``sizes``, (runs,), hold the index in ``values`` of the first value of each run, and the number of
    values of each run, which is at least 1.
    """
    sums: Weights = values[starts]
    for offset in range(1, sizes.max(initial=0)):
        longer_runs = np.flatnonzero(sizes > offset)
        sums[longer_runs] += values[starts[longer_runs] + offset]
    return sums


def parse_number(text: str, message: str, end: float = math.inf) -> float:
    """Parse a number, infinity or NaN, and round it to float32.

    Raise OptionError(``message``) for other text, and for a number whose magnitude is at least ``end``.
    """
    number = parse_real(text, end)
    if number is None:
        raise OptionError(message)
    return float(np.float32(number))


def require_single_file(name: str) -> str:
    """Return the name of a single file unchanged. Raise :class:`OptionError` if it is the rspecifier of a table."""
    if is_table_rspecifier(name):
        raise OptionError(f"{name} is a table: name a single file")
    return name


def read_symbols(rxfilename: str) -> dict[int, str]:
    """Read a symbol table such as phones.txt, with a symbol and its number on each line. Return symbols by number.

    As in OpenFst, a NUL ends a line, and a repeated symbol keeps its first number. If several symbols share a number,
    the last symbol is returned. However, if the file starts with the numbers 0, 1, 2 and so on, these numbers keep
    their first symbol. Blank lines are skipped.

    Raises:
        OptionError: the file has an invalid line, or is empty.
        ArkError: the file cannot be read.
    """
    symbols: dict[int, str] = {}
    seen: set[str] = set()
    num_in_order = 0  # The first symbols of the file have the numbers 0 to num_in_order - 1.
    for line_number, line in enumerate(read_lines(rxfilename), 1):
        words = re.findall(r"[^ \t]+", line.split("\0", 1)[0])
        if not words:
            continue
        if len(words) != 2 or not re.fullmatch(r"[\v\f\r]*(\+?\d+|-0+)", words[1], re.ASCII):
            raise OptionError(f"{rxfilename}: line {line_number}: expected a symbol and its number, not {line!r}")
        symbol, number = words[0], parse_integer(words[1].strip())
        if symbol in seen:
            continue
        if number >= num_in_order:
            symbols[number] = symbol
        if number == num_in_order == len(seen):
            num_in_order += 1
        seen.add(symbol)
    if not symbols:
        raise OptionError(f"{rxfilename}: the symbol table is empty: name a file such as phones.txt")
    return symbols


def read_phone_map(rxfilename: str) -> dict[int, int]:
    """Read a map from old to new phones. A line has the numbers of an old phone and its new phone. Skip blank lines.

    Raises:
        OptionError: the file has an invalid line or is empty, or a phone is 0 or occurs twice as an old phone.
        ArkError: the file cannot be read.
    """
    new_phones: dict[int, int] = {}
    for line_number, line in enumerate(read_lines(rxfilename), 1):
        if not line.strip():
            continue
        pair = re.fullmatch(r"(\d+)\s+(\d+)", line.strip(), re.ASCII)
        phones = list(map(parse_integer, pair.groups())) if pair else []
        if not phones or not all(phone in INT32 for phone in phones):
            raise OptionError(f"{rxfilename}: line {line_number}: expected an old phone and a new phone, not {line!r}")
        old, new = phones
        if old in new_phones or not old or not new:
            raise OptionError(f"Error reading phone map from {rxfilename}: phone {old} is 0, or mapped twice or to 0")
        new_phones[old] = new
    if not new_phones:
        raise OptionError(f"Read empty phone map from {rxfilename}")
    return new_phones
