"""apply-cmvn-online: normalize each frame by statistics of the frame and the frames before it."""

from collections.abc import Iterator
from functools import cache

import io_ark
from io_ark.blocks import ArrayBlock, Block, ObjectBlock
from kaldi_compat.cli.dims import parse_dims
from kaldi_compat.cli.finite import GIVEN_STATISTICS, FiniteCheck
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import map_table, stack_rows
from kaldi_compat.cli.program import program
from kaldi_compat.cli.tables import Tables
from kaldi_compat.functional.online_cmvn import OnlineCmvn
from kaldi_compat.options.declaration import option
from kaldi_compat.options.postprocessing import OnlineCmvnOptions

USAGE = """
Normalizes the mean, and optionally the variance, of each frame as in online decoding. The statistics come from the
frame and the frames before it, from earlier utterances of the speaker with --spk2utt, and from a corpus.

Usage: apply-cmvn-online [options] <global-cmvn-stats> <feats-rspecifier> <feats-wspecifier>
e.g.:  apply-cmvn-online "matrix-sum scp:data/train/cmvn.scp - |" scp:feats.scp ark:-
       apply-cmvn-online --spk2utt=ark:spk2utt global_cmvn.stats scp:feats.scp ark:-
"""

UTTERANCES_PER_BLOCK = 16  # Number of a speaker's utterances that are in memory at the same time.


class Options(OnlineCmvnOptions):
    skip_dims: str = option("", "dimensions to leave unchanged, e.g. 13:14:15")
    spk2utt: str = option("", "rspecifier of each speaker's utterances, which are normalized one after the other")

    def __post_init__(self) -> None:
        """Check nothing here. As in Kaldi, the options are checked at the first utterance, after opening the output."""


@program("apply-cmvn-online", USAGE, Options)
def main(options: Options, statistics_source: str, source: str, target: str) -> int:
    """Normalize a table of features by utterance or by speaker. Return 0 if any utterance is written, otherwise 1."""
    statistics = io_ark.load(statistics_source, kind="double-matrix")
    num_frames = 0
    check = FiniteCheck()
    # Without norm_vars, the sums of squares are not used, so only the sums are checked.
    check.check_arrays(GIVEN_STATISTICS, [(statistics_source, statistics[: 1 + options.norm_vars])])

    @cache
    def get_normalizer() -> OnlineCmvn:
        """Return the normalizer. The first call creates it, and checks the options, as Kaldi does at an utterance."""
        OnlineCmvnOptions.__post_init__(options)
        return OnlineCmvn(statistics, options, skip_dims=parse_dims(options.skip_dims, "--skip-dims"))

    def normalize_features(block: ArrayBlock) -> ArrayBlock:
        """Normalize a block of utterances, count the frames, and warn about features that are not finite."""
        nonlocal num_frames
        bounds = block.compute_row_bounds()
        result = get_normalizer().utterances(stack_rows(block), bounds, adapts=bool(options.spk2utt))
        num_frames += len(result)
        check.check_last_rows(block, result, bounds)
        return block.with_rows(result)

    with Tables() as tables:
        writer = tables.open_writer("matrix", target)
        if options.spk2utt:
            speakers, table = tables.read("token-vector", options.spk2utt), tables.open_lookup("matrix", source)

            def list_groups() -> Iterator[Block]:
                """Yield the utterance names of each speaker in blocks, and reset the normalizer before each speaker."""
                for block in speakers:
                    for _, names in block.entries():
                        yield from group_utterances(names, get_normalizer())

            def look_up_and_normalize(group: Block) -> ArrayBlock:
                """Normalize the features of a group of utterances. Raise Skip if an utterance has no features."""
                feats = table.require_values(group, "No features for utterance {}".format)
                return normalize_features(ArrayBlock.from_arrays(group.decode_keys(), feats))

            counts = map_table(list_groups(), writer, look_up_and_normalize)
        else:
            counts = map_table(tables.read("matrix", source), writer, normalize_features)
    logger.info("Applied online CMVN to %d files, or %d frames.", counts.done, num_frames)
    return counts.status


def group_utterances(names: list[str], normalizer: OnlineCmvn) -> Iterator[Block]:
    """Reset the normalizer for a speaker, and yield the names of the speaker's utterances in blocks."""
    normalizer.reset()
    for first in range(0, len(names), UTTERANCES_PER_BLOCK):
        group = names[first : first + UTTERANCES_PER_BLOCK]
        yield ObjectBlock.from_values(group, group)
