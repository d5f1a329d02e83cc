"""ali-to-phones: convert alignments from transition-ids to phones."""

from collections.abc import Callable
from itertools import chain, pairwise

import numpy as np

import io_ark
from io_ark.blocks import ArrayBlock
from io_ark.models import TransitionModel, split_to_phones
from io_ark.streams import open_output
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import Sink, map_table
from kaldi_compat.cli.program import program
from kaldi_compat.cli.tables import Tables
from kaldi_compat.options.base import BaseOptions, require
from kaldi_compat.options.declaration import option

USAGE = """
Converts alignments from transition-ids to phones. Writes one integer for each phone, or one for each frame with
--per-frame. With --write-lengths, writes each phone and its number of frames. With --ctm-output, writes a file of
times.

Usage: ali-to-phones [options] <model> <alignments-rspecifier> (<phones-wspecifier>|<ctm-wxfilename>)
e.g.:  ali-to-phones final.mdl "ark:gunzip -c ali.1.gz |" ark:-
       ali-to-phones --ctm-output final.mdl ark:1.ali 1.ctm
"""


class Options(BaseOptions):
    ctm_output: bool = option(False, "write a CTM file: utterance, channel 1, start, duration and phone")
    frame_shift: float = option(0.01, "seconds between frames, for the times of the CTM file")
    per_frame: bool = option(False, "write the phone of each frame")
    write_lengths: bool = option(False, "write each phone with its number of frames")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            not (self.per_frame and self.write_lengths),
            "--per-frame and --write-lengths exclude each other: set one of them",
        )


@program("ali-to-phones", USAGE, Options)
def main(options: Options, model: str, source: str, target: str) -> int:
    """Convert alignments to phones. As in Kaldi, the exit status is 0 even for an empty table."""
    transitions = io_ark.load(model, kind="transition-model")
    with Tables() as tables:
        blocks = tables.read("int-vector", source)
        if options.ctm_output:
            sink: Sink = CtmFile(tables.enter_context(open_output(target)).write, options.frame_shift)
        else:
            sink = tables.open_writer("int-pair-vector" if options.write_lengths else "int-vector", target)
        form = "frames" if options.per_frame else "phones"
        form = "lengths" if options.ctm_output or options.write_lengths else form
        counts = map_table(blocks, sink, lambda block: convert_to_phones(block, transitions, form))
    logger.info("Done %d utterances.", counts.done)
    return 0


def convert_to_phones(block: ArrayBlock, model: TransitionModel, form: str) -> ArrayBlock:
    """Convert the transition-ids of alignments to phones.

    ``form`` is "frames" for the phone of each frame, "phones" for the sequence of phones, or "lengths" for the sequence
    of pairs of a phone and its number of frames.
    """
    segments = split_to_phones(model, block.values, block.compute_row_bounds())
    if form == "frames":
        return block.with_vectors(np.repeat(segments.phones, segments.lengths))
    if form == "lengths":
        return block.with_rows(np.column_stack((segments.phones, segments.lengths)).astype(np.int32), segments.counts)
    return block.with_vectors(segments.phones, segments.counts)


class CtmFile:
    """Passes the lines of a CTM file of phones to ``write``. ``frame_shift`` is in seconds."""

    def __init__(self, write: Callable[[bytes], object], frame_shift: float) -> None:
        self._write = write
        self._shift = np.float32(frame_shift)
        # Kaldi compares the shift in single precision, in which its default of 0.01 is less than 0.01.
        self._time_format = "%.2f" if float(self._shift) >= 0.01 else "%.3f"

    def write_block(self, block: ArrayBlock) -> None:
        """Write a CTM line, with times in seconds, for each pair (phone, number of frames). Round as Kaldi does."""
        phones, lengths = block.values.reshape(-1, 2).T
        durations = self._shift * lengths.astype(np.float32)
        starts = np.zeros_like(durations)  # A start is the sum of the earlier durations.
        starts[1:] = durations[:-1]
        for begin, end in pairwise(block.compute_row_bounds().tolist()):
            starts[begin : begin + 1] = 0  # A slice, because an utterance may have no phones.
            np.add.accumulate(starts[begin:end], out=starts[begin:end])
        line = f" 1 {self._time_format} {self._time_format} %d\n"  # The channel is 1.
        phone_counts = zip(block.decode_keys(), block.shapes[:, 0].tolist(), strict=True)
        line_formats = "".join([(key.replace("%", "%%") + line) * count for key, count in phone_counts])
        fields = zip(starts.tolist(), durations.tolist(), phones.tolist(), strict=True)
        self._write((line_formats % tuple(chain.from_iterable(fields))).encode(errors="surrogateescape"))
