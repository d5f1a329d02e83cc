"""wav-to-duration: write the duration of audio files."""

from typing import Any

import numpy as np

import io_ark
from io_ark.blocks import ArrayBlock, Block, WaveBlock
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import convert_table
from kaldi_compat.cli.objects import compute_duration
from kaldi_compat.cli.program import program
from kaldi_compat.cli.sums import add_in_order
from kaldi_compat.errors import AudioError
from kaldi_compat.options.base import BaseOptions
from kaldi_compat.options.declaration import option

USAGE = """
Writes a table of the durations of audio files in seconds.

Usage: wav-to-duration [options] <wav-rspecifier> <duration-wspecifier>
e.g.:  wav-to-duration scp:wav.scp ark,t:-
"""


class Options(BaseOptions):
    read_entire_file: bool = option(False, "read and count the samples instead of trusting the header")


@program("wav-to-duration", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Write durations of a table of audio, and log their mean and range. Return 0 if an entry is written, else 1."""
    durations: list[float] = []

    def measure_wave(_: str, wave: Any) -> float:
        """Return the duration in s from the samples or the header. Raise AudioError if the header lacks the count."""
        num_samples = wave.samples.shape[1] if options.read_entire_file else wave.sample_count
        if num_samples is None:
            raise AudioError("no duration in header. Check the source, and/or try --read-entire-file.")
        return compute_duration(num_samples, wave.sample_frequency)

    def measure_block(block: Block) -> Block:
        """Return a block with the duration of each wave file, and store the durations for the log."""
        if isinstance(block, WaveBlock):
            block_durations = block.compute_durations().astype(np.float32)
            durations.extend(block_durations.tolist())
            # The values are scalars, which have the shape (0, 0) in a block.
            return ArrayBlock(block.keys, block_durations, np.zeros((len(block), 2), np.int64), dimensions=0)
        seconds = block.map(measure_wave)
        durations.extend(value for _, value in seconds.entries())
        return seconds

    kind: io_ark.Kind = "wave" if options.read_entire_file else "wave-info"
    counts = convert_table(measure_block, kind, source, target, kind_out="float", output_first=True)
    logger.info("Printed duration for %d audio files.", counts.done)
    if durations:
        logger.info(
            "Mean duration was %g, min and max durations were %g, %g",
            add_in_order(durations, 0.0) / len(durations), min(durations), max(durations),
        )  # fmt: skip
    return counts.status
