"""ivector-mean: average speaker vectors over utterances."""

from functools import reduce

import numpy as np

import io_ark
from io_ark.blocks import Block, Skip
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import map_table
from kaldi_compat.cli.objects import Vector
from kaldi_compat.cli.program import program
from kaldi_compat.cli.speakers import find_speaker_vectors
from kaldi_compat.cli.sums import add_in_order, sum_vectors
from kaldi_compat.cli.tables import Tables
from kaldi_compat.errors import FeatureError, OptionError
from kaldi_compat.exact.products import scale_vector
from kaldi_compat.exact.sums import compute_signal_sums
from kaldi_compat.options.base import BaseOptions
from kaldi_compat.options.declaration import option

USAGE = """
Averages the vectors of the utterances of each speaker. Given four arguments, also writes the numbers of utterances.
Given two arguments, averages all vectors of a table and writes a file.

Usage: ivector-mean [options] <spk2utt-rspecifier> <ivector-rspecifier> <ivector-wspecifier> [<num-utts-wspecifier>]
   or: ivector-mean [options] <ivector-rspecifier> <mean-wxfilename>
e.g.:  ivector-mean ark:data/spk2utt scp:ivector.scp ark:spk_ivector.ark ark,t:num_utts.ark
       ivector-mean scp:ivector.scp mean.vec
"""


class Options(BaseOptions):
    binary: bool = option(False, "write a single file in binary (for tables, the wspecifier decides)")


@program("ivector-mean", USAGE, Options)
def main(options: Options, first: str, second: str, target: str | None = None, counts_target: str | None = None) -> int:
    """Write the mean of the table ``first`` to the file ``second``. With ``target``, write the means of speakers.

    Then ``first`` is the spk2utt table and ``second`` is the table of vectors. Return 0, or 1 if no speaker has a mean.
    """
    if target is None:
        return average_table(options, first, second)
    return average_speakers(first, second, target, counts_target)


def average_table(options: Options, source: str, target: str) -> int:
    """Write the mean of a table's vectors to a file. Return the exit status 0. Raise OptionError without vectors."""
    with Tables() as tables:
        total, count = sum_vectors(tables.read("vector", source))
    if not count:
        raise OptionError("No iVectors read")
    io_ark.save(target, total * (1.0 / count), kind="double-vector", binary=options.binary)
    return 0


def average_speakers(spk2utt: str, source: str, target: str, counts_target: str | None) -> int:
    """Write the mean vector of each speaker to a table. Return 0 if a speaker has a mean, otherwise 1.

    With ``counts_target``, also write the number of averaged vectors of each speaker to this table.
    """
    square_sum, mean_sum, dim, num_present, num_missing = 0.0, np.zeros(0), 0, 0, 0
    with Tables() as tables:
        table, speakers = tables.open_lookup("vector", source), tables.read("token-vector", spk2utt)
        writer = tables.open_writer("vector", target)
        counts_writer = tables.open_writer("int", counts_target) if counts_target else None

        def average_speaker(speaker: str, utterances: list[str]) -> Vector:
            """Return the mean vector (dim,) of a speaker. Update totals, and write the vector count if requested.

            Raise Skip if the speaker has no vectors, or FeatureError if their dimension differs from earlier vectors.
            """
            nonlocal dim, num_present, num_missing
            vectors = [vector for _, vector in find_speaker_vectors(table, utterances)]
            num_present += len(vectors)
            num_missing += len(utterances) - len(vectors)
            if not vectors:
                raise Skip(f"Not producing output for speaker {speaker} since no utterances had iVectors")
            dim = dim or len(vectors[0])
            if len(vectors[0]) != dim:
                raise FeatureError(
                    f"vectors have dimension {len(vectors[0])}, but earlier vectors {dim}: extract all with one model"
                )
            if counts_writer is not None:
                counts_writer[speaker] = len(vectors)
            return scale_vector(reduce(np.add, vectors), 1.0 / len(vectors))

        def average_block(block: Block) -> Block:
            """Average the vectors of each speaker in a block, and add the means to the sums that are logged."""
            nonlocal square_sum, mean_sum
            result = block.map(average_speaker)
            means = [mean for _, mean in result.entries()]
            if means:
                elements = np.concatenate(means)
                squares = compute_signal_sums(elements, dim * np.arange(len(means) + 1))[:, 0]
                square_sum = add_in_order(squares.tolist(), square_sum)
                mean_sum = np.add.reduce([mean_sum if len(mean_sum) else np.zeros(dim), *means])
            return result

        counts = map_table(speakers, writer, average_block)
    logger.info(
        "Computed mean of %d speakers (%d with no utterances), consisting of %d utterances (%d absent from input).",
        counts.done, counts.failed, num_present, num_missing,
    )  # fmt: skip
    if counts.done:
        logger.info(
            "Norm of mean of speakers is %g, root-mean-square speaker-iVector length divided by sqrt(dim) is %g",
            np.linalg.norm(mean_sum / counts.done),
            np.sqrt(square_sum / counts.done) / np.sqrt(max(len(mean_sum), 1)),
        )  # fmt: skip
    return counts.status
