"""Look up vectors of speakers, and score trials, for the programs of speaker verification."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from io_ark.codecs.text_format import format_row
from io_ark.streams import open_input, open_output
from io_ark.tables.overwriting import refuse_overwriting
from io_ark.text import format_count, split_words
from kaldi_compat.cli.log import format_number, logger
from kaldi_compat.cli.loop import Counts
from kaldi_compat.cli.objects import Vector
from kaldi_compat.cli.sums import add_in_order
from kaldi_compat.cli.tables import LookupReader
from kaldi_compat.errors import FeatureError, OptionError

Find = Callable[[Sequence[str]], Iterable[Any]]
_TRIALS_PER_BLOCK = 1024  # Number of trials that are scored together, so that their vectors fit into the cache.
_AFTER_ERROR = object()  # Marker for the values after an error, which are not looked up.


def find_speaker_vectors(table: LookupReader[Vector], utterances: Sequence[str]) -> list[tuple[str, Vector]]:
    """Return the vectors of a speaker's utterances, as pairs (utterance, vector). Log utterances without a vector.

    Raise FeatureError if the speaker has no utterances, or the vectors differ in dimension.
    """
    if not utterances:
        raise FeatureError("Speaker with no utterances.")
    vectors = []
    table.prefetch(utterances)
    for utterance in utterances:
        (vector,) = table.find_values([utterance])
        if vector is None:
            logger.warning("No iVector present in input for utterance %s", utterance)
        else:
            vectors.append((utterance, vector))
    dims = ", ".join(map(str, sorted({len(vector) for _, vector in vectors})))
    if "," in dims:
        raise FeatureError(f"the utterances have vectors of dimensions {dims}: extract all vectors with one model")
    return vectors


def require_usable_vector(key: str, vector: Vector, dim: int, owner: str) -> None:
    """Raise :class:`FeatureError` if a vector is empty, lacks the expected dimension, or contains NaN or infinities.

    Args:
        key: key of the vector.
        vector: the vector, (dim,).
        dim: the expected dimension.
        owner: subject and verb before the expected dimension in the message, such as "the PLDA model has".
    """
    if not len(vector):
        raise FeatureError(f"{key}: the vector is empty: remove the utterance")
    if len(vector) != dim:
        raise FeatureError(f"{key}: the vector has {format_count(len(vector), 'dimension')}, but {owner} {dim}: "
                           "extract all vectors with one model")  # fmt: skip
    if not np.isfinite(vector).all():
        raise FeatureError(f"{key}: the vector contains NaN or infinities: remove the utterance")


@dataclass
class Trials:
    """Scores the trials in a file. A trial is a pair of keys.

    Attributes:
        name: name of a score in the log.
        tables: names of the tables of the first and of the second keys, for warnings.
        find: two functions, which return the values of the first and of the second keys, or None for a missing key.
        score: function that returns the scores, (trials,), of the values of the first and of the second keys.
    """

    name: str
    tables: tuple[str, str]
    find: tuple[Find, Find]
    score: Callable[[list[Any], list[Any]], Vector]

    def write_scores(self, source: str, target: str, *tables: str) -> Counts:
        """Write a line for each trial that has a score, and log the mean and the standard deviation of the scores.

        Args:
            source: file of the trials, with two keys in each line.
            target: file that the scores are written to.
            tables: rspecifiers of tables that are read while the scores are written.

        Returns:
            The numbers of trials with and without a score.

        Raises:
            OptionError: a line does not have two fields.
            SpecifierError: the target is an input.
            ArkError, FeatureError: a value cannot be read, or a pair cannot be scored. Earlier scores are written.
        """
        refuse_overwriting(target, [source, *tables])
        counts, score_sum, square_sum = Counts(), 0.0, 0.0
        with open_input(source) as opened, open_output(target) as output:
            for lines in opened.source.read_line_lists():
                for start in range(0, len(lines), _TRIALS_PER_BLOCK):
                    group = [line.decode(errors="surrogateescape") for line in lines[start : start + _TRIALS_PER_BLOCK]]
                    pairs = [split_words(line) for line in group]
                    bad_line = next((index for index, pair in enumerate(pairs) if len(pair) != 2), len(pairs))
                    scored_pairs, scores, error = self._score_pairs(pairs[:bad_line])
                    score_rows = zip(scored_pairs, format_row(scores).split(), strict=True)
                    text = "".join(f"{first} {second} {score}\n" for (first, second), score in score_rows)
                    output.write(text.encode(errors="surrogateescape"))
                    score_sum = add_in_order(scores, score_sum)
                    square_sum = add_in_order(np.square(scores, dtype=np.float32).tolist(), square_sum)
                    if error is not None:
                        raise error
                    counts.done += len(scores)
                    counts.failed += bad_line - len(scores)
                    if bad_line < len(pairs):
                        raise _make_trial_error(source, counts.total, group[bad_line])
        if counts.done:
            mean, mean_square = np.float32(score_sum / counts.done), np.float32(square_sum / counts.done)
            deviation = np.sqrt(mean_square - mean * mean)
            logger.info(
                "Mean %s was %s, standard deviation was %s", self.name, format_number(mean), format_number(deviation)
            )
        elif counts.failed:
            logger.warning("No trial has a key of the %s and a key of the %s: check the order of the keys in the "
                           "trials, and the order of the two tables", *self.tables)  # fmt: skip
        return counts

    def _score_pairs(self, pairs: list[list[str]]) -> tuple[list[list[str]], list[float], Exception | None]:
        """Score the pairs whose keys both have values. Stop before the pair that causes an error. Log missing keys.

        Returns:
            The scored pairs, their scores, and the error, or None if all pairs could be read and scored.
        """
        first_values, error = _collect_values(self.find[0]([first for first, _ in pairs]))
        second_keys = [pair[1] for pair, first in zip(pairs, first_values, strict=False) if first is not None]
        second_values, second_error = _collect_values(self.find[1](second_keys))
        # These second keys belong to pairs before the first error, so an error of a second key is earlier.
        error, remaining = second_error or error, iter(second_values)
        scored_pairs, value_pairs = list[list[str]](), list[tuple[Any, Any]]()
        for pair, first in zip(pairs, first_values, strict=False):
            second = None if first is None else next(remaining, _AFTER_ERROR)
            if second is _AFTER_ERROR:
                break
            if second is None:
                missing = 0 if first is None else 1
                logger.warning("Key %s not present in %s.", pair[missing], self.tables[missing])
            else:
                scored_pairs.append(pair)
                value_pairs.append((first, second))
        try:
            scores = self.score(*map(list, zip(*value_pairs, strict=True))).tolist() if value_pairs else []
            return scored_pairs, scores, error
        except FeatureError:  # Score one by one before the pair whose dimensions differ.
            single_scores = (self.score([first], [second]).item() for first, second in value_pairs)
            scores, earlier_error = _collect_values(single_scores)
            return scored_pairs[: len(scores)], scores, earlier_error or error


def _make_trial_error(source: str, index: int, line: str) -> OptionError:
    """Log how to correct the line with the index ``index`` (from 0) of the file ``source``. Return Kaldi's error."""
    advice = "remove other columns, for example with awk '{print $1, $2}'"
    if len(split_words(line)) < 2:
        advice = "add the missing key, or remove the line"
    logger.warning("Line %d of the trials must have two keys: %s", index + 1, advice)
    return OptionError(f"{source}: Bad line {index} in input (expected two fields: key1 key2): {line}")


def _collect_values(values: Iterable[Any]) -> tuple[list[Any], Exception | None]:
    """Return the values before the first error that the iteration raises, and this error (None if there is none)."""
    collected = list[Any]()
    try:
        collected.extend(values)  # If an error is raised, earlier values stay in the list.
    except Exception as error:
        return collected, error
    return collected, None
