"""process-kaldi-pitch-feats: compute features for speech recognition from tracked pitch."""

from io_ark.blocks import ArrayBlock, Block
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import convert_table, stack_rows
from kaldi_compat.cli.program import program
from kaldi_compat.exact.rand import KaldiRandom
from kaldi_compat.options.declaration import option
from kaldi_compat.options.pitch import ProcessPitchOptions
from kaldi_compat.pitch.process import can_process_together, process_pitch, process_utterances

USAGE = """
Computes features for speech recognition from the output of compute-kaldi-pitch-feats. There are four, in this order,
each selected by an option; the default is the first three:
  a warped correlation, high in unvoiced frames (--add-pov-feature);
  the log pitch minus its mean over 1.5 seconds, weighted by the probability of voicing (--add-normalized-log-pitch);
  the delta of the log pitch, with a little noise (--add-delta-pitch);
  the log pitch (--add-raw-log-pitch).

Usage: process-kaldi-pitch-feats [options] <feats-rspecifier> <feats-wspecifier>
e.g.:  compute-kaldi-pitch-feats scp:wav.scp ark:- | process-kaldi-pitch-feats ark:- ark:feats.ark

See also: compute-kaldi-pitch-feats, compute-and-process-kaldi-pitch-feats
"""


class Options(ProcessPitchOptions):
    srand: int = option(0, "seed of the noise that is added to the delta of the log pitch")


@program("process-kaldi-pitch-feats", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Compute features from a table of pitch tracks. The exit status is 0 if an utterance is written, otherwise 1."""
    random = KaldiRandom(options.srand)

    def process_block(block: ArrayBlock) -> Block:
        """Compute features from the tracks of a block, singly unless all pitches are positive. Keep empty tracks."""
        tracks = stack_rows(block)
        if tracks.size == 0:
            return block
        if not can_process_together(tracks):  # process_utterances() takes only positive pitches.
            return block.map(lambda _, track: process_pitch(track, options, generator=random))
        return block.with_rows(*process_utterances(tracks, block.compute_row_bounds(), options, random))

    counts = convert_table(process_block, "matrix", source, target)
    logger.info("Post-processed pitch for %d utterances.", counts.done)
    return counts.status
