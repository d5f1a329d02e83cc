"""ivector-plda-scoring: score trials with a PLDA model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import io_ark
from io_ark.blocks import Block
from io_ark.models import Plda
from kaldi_compat.cli.log import format_number, logger
from kaldi_compat.cli.objects import Vector
from kaldi_compat.cli.program import program
from kaldi_compat.cli.speakers import Trials
from kaldi_compat.cli.sums import add_in_order
from kaldi_compat.cli.tables import LookupReader, Tables
from kaldi_compat.errors import FeatureError, OptionError
from kaldi_compat.options.base import BaseOptions
from kaldi_compat.options.declaration import option

USAGE = """
Computes the log-likelihood ratios of trials with a PLDA model. A line of the trials has the keys of a speaker and of an
utterance, and a line of the scores has the same keys and the score:
  <speaker> <utterance> <score>
A speaker is represented by the mean of its vectors (see ivector-mean). Trials with missing vectors have no score.

Usage: ivector-plda-scoring [options] <plda-rxfilename> <train-ivector-rspecifier> <test-ivector-rspecifier>
                            <trials-rxfilename> <scores-wxfilename>
e.g.:  ivector-plda-scoring --num-utts=ark:num_utts.ark plda ark:spk_ivectors.ark scp:ivectors.scp trials scores
See also: ivector-compute-dot-products, ivector-compute-plda
"""


class Options(BaseOptions):
    normalize_length: bool = option(True, "scale vectors, by default to their expected length under the model")
    simple_length_normalization: bool = option(
        False, "scale vectors to the square root of the dimension instead of their expected length"
    )
    num_utts: str = option("", "table of the numbers of utterances of speakers; 1 for all speakers if empty")


@program("ivector-plda-scoring", USAGE, Options)
def main(options: Options, model: str, train: str, test: str, trials: str, target: str) -> int:
    """Score trials, which pair keys of the tables ``train`` and ``test``. Return 0 if a trial is scored, else 1."""
    plda = io_ark.load(model, kind="plda")
    with Tables() as tables:
        train_blocks, test_blocks = tables.read("vector", train), tables.read("vector", test)
        numbers = tables.open_lookup("int", options.num_utts) if options.num_utts else None
        logger.info("Reading train iVectors")
        speakers, num_missing = Vectors("training", "speaker"), 0
        for block in train_blocks:
            entries, num_utts = (
                select_pairs_with_counts(block, numbers) if numbers is not None else (list(block.entries()), None)
            )
            num_missing += len(block) - len(entries)
            speakers.add_vectors(plda, options, entries, num_utts)
        logger.info("Read %d training iVectors, errors on %d", len(speakers.mapped), num_missing)
        speakers.log_mean_scale()
        logger.info("Reading test iVectors")
        utterances = Vectors("test", "utterance")
        for block in test_blocks:
            utterances.add_vectors(plda, options, list(block.entries()), None)
        logger.info("Read %d test iVectors.", len(utterances.mapped))
        utterances.log_mean_scale()

    def score_pairs(first: list[tuple[Vector, int]], second: list[tuple[Vector, int]]) -> Vector:
        """Return the scores (trials,). An item of ``first`` or ``second`` is (vector, number of utterances)."""
        enrolled, tested = (np.stack([vector for vector, _ in side]) for side in (first, second))
        return plda.score_trials(enrolled, tested, [number for _, number in first]).astype(np.float32)

    names = "training iVectors", "test iVectors"
    counts = Trials("score", names, (speakers.find, utterances.find), score_pairs).write_scores(trials, target)
    logger.info("Processed %d trials, %d had errors.", counts.done, counts.failed)
    return counts.status


def select_pairs_with_counts(block: Block, numbers: LookupReader[int]) -> tuple[list[tuple[str, Vector]], list[int]]:
    """Return the entries whose keys have a number of utterances in ``numbers``, and the numbers. Log the other keys."""
    entries, counts = [], []
    for key, vector in block.entries():
        if numbers.has_key(key):
            entries.append((key, vector))
            counts.append(numbers[key])
        else:
            logger.warning("Number of utterances not given for speaker %s", key)
    return entries, counts


class Vectors:
    """Vectors of a table, mapped to the space of a PLDA model.

    Args:
        name: name of the table in messages.
        owner: noun for a key of the table in messages, "speaker" or "utterance".
    """

    def __init__(self, name: str, owner: str) -> None:
        self.name, self.owner = name, owner
        self.mapped: dict[str, tuple[Vector, int]] = {}  # Maps keys to (vector, number of utterances).
        self.total_scale = 0.0  # Sum of the factors that normalize the lengths of the vectors.

    def add_vectors(
        self, plda: Plda, options: Options, entries: list[tuple[str, Vector]], num_utts: list[int] | None
    ) -> None:
        """Map the vectors of ``entries`` to the space of a model, and store them under their keys.

        ``num_utts`` lists the number of utterances that were averaged to each vector. None stands for one utterance.
        Vectors are scaled if ``options.normalize_length`` is True. The factors are always added to ``total_scale``.

        Raises:
            OptionError: a key is repeated.
            FeatureError: a vector does not have the dimension of the model, or a number of utterances is below 1.
        """
        num_utts = num_utts or [1] * len(entries)
        for (key, vector), number in zip(entries, num_utts, strict=True):
            if key in self.mapped:
                raise OptionError(f"Duplicate {self.name} iVector found for {self.owner} {key}")
            if len(vector) != plda.dim:
                raise FeatureError(
                    f"{key}: the vector has {len(vector)} dimension{'s' * (len(vector) != 1)}, "
                    f"but the PLDA model has {plda.dim}: "
                    "use the model that was estimated from vectors of this dimension"
                )
            if number < 1:
                raise FeatureError(f"{key}: the number of utterances must be positive, not {number}")
            self.mapped[key] = vector, number  # This marks the key as used. The mapped vector replaces it below.
        if not entries:
            return
        doubles = np.stack([vector for _, vector in entries]).astype(np.float64)
        mapped = plda.transform_vectors(doubles, normalize_length=False)
        simple = options.simple_length_normalization
        factors = plda.compute_length_factors(mapped, num_utts, simple_length_normalization=simple)
        self.total_scale = add_in_order(factors.astype(np.float32).tolist(), self.total_scale)
        if options.normalize_length:
            mapped *= factors[:, None]
        for (key, _), vector, number in zip(entries, mapped.astype(np.float32), num_utts, strict=True):
            self.mapped[key] = vector, number

    def log_mean_scale(self) -> None:
        """Log the mean of the factors that normalize the lengths. Raise OptionError if there are no vectors."""
        if not self.mapped:
            raise OptionError(f"No {self.name} iVectors present.")
        mean = format_number(self.total_scale / len(self.mapped))
        logger.info("Average renormalization scale on %s iVectors was %s", self.name, mean)

    def find(self, keys: Sequence[str]) -> list[tuple[Vector, int] | None]:
        """Return the vector and the number of utterances of each key, or None for a key that is missing."""
        return [self.mapped.get(key) for key in keys]
