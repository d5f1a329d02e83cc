"""ivector-compute-plda: estimate a PLDA model of speaker vectors."""

from __future__ import annotations

import numpy as np

import io_ark
from io_ark.blocks import Block, Skip
from io_ark.models import Plda
from io_ark.models.speaker_statistics import PldaStatistics
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import visit_blocks
from kaldi_compat.cli.program import FileOptions, program
from kaldi_compat.cli.speakers import find_speaker_vectors, require_usable_vector
from kaldi_compat.cli.tables import Tables
from kaldi_compat.errors import OptionError
from kaldi_compat.options.declaration import option

USAGE = """
Estimates a PLDA model from the vectors of the utterances of speakers.

Usage: ivector-compute-plda [options] <spk2utt-rspecifier> <ivector-rspecifier> <plda-wxfilename>
e.g.:  ivector-compute-plda ark:data/train/spk2utt scp:ivectors.scp plda
"""


class Options(FileOptions):
    num_em_iters: int = option(10, "number of iterations of the EM algorithm")


@program("ivector-compute-plda", USAGE, Options)
def main(options: Options, spk2utt: str, source: str, target: str) -> int:
    """Estimate a PLDA model from the vectors of a table, write it to a file, and return the exit status 0."""
    statistics, num_missing = PldaStatistics(), 0
    with Tables() as tables:
        speakers, table = tables.read("token-vector", spk2utt), tables.open_lookup("vector", source)

        def add_speaker(speaker: str, utterances: list[str]) -> list[str]:
            """Add the vectors of a speaker to the statistics. The result, ``utterances``, is only counted.

            Raise Skip if no utterance of the speaker has a vector.
            """
            nonlocal num_missing
            vectors = find_speaker_vectors(table, utterances)
            num_missing += len(utterances) - len(vectors)
            if not vectors:
                raise Skip(f"Not producing output for speaker {speaker} since no utterances had iVectors")
            for utterance, vector in vectors:
                require_usable_vector(utterance, vector, statistics.dim or len(vector), "earlier vectors have")
            statistics.add_speaker(np.stack([vector for _, vector in vectors]))
            return utterances

        def add_speakers(block: Block) -> Block:
            return block.map(add_speaker)

        counts = visit_blocks(add_speakers, speakers)
    if not counts.done:
        logger.warning(
            "No utterance of the spk2utt table %s has a vector in %s: check that both tables have the same "
            "utterances, and that each line is '<speaker> <utterance> ...', not '<utterance> <speaker>' as in utt2spk",
            spk2utt, source,
        )  # fmt: skip
        raise OptionError("No stats accumulated, unable to estimate PLDA.")
    logger.info(
        "Accumulated stats from %d speakers (%d with no utterances), consisting of %d utterances "
        "(%d absent from input).",
        counts.done, counts.failed, statistics.num_vectors, num_missing,
    )  # fmt: skip
    io_ark.save(target, Plda(*statistics.estimate_plda(options.num_em_iters)), binary=options.binary)
    return 0
