"""apply-cmvn-online: normalize each frame by statistics of the frames before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import io_ark
from io_ark.blocks import ArrayBlock, Block, block_of
from kaldi_compat.cli.dims import parse_dims
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import map_table
from kaldi_compat.cli.objects import DoubleMatrix, Matrix
from kaldi_compat.cli.program import program
from kaldi_compat.cli.tables import Tables
from kaldi_compat.exact.online_cmvn import normalized, speaker_stats
from kaldi_compat.options.base import option
from kaldi_compat.options.online_cmvn import OnlineCmvnOptions

USAGE = """
Normalizes the mean, and optionally the variance, of each frame by statistics of the frames before it, of earlier
utterances of the speaker with --spk2utt, and of a corpus.

Usage: apply-cmvn-online [options] <global-cmvn-stats> <feats-rspecifier> <feats-wspecifier>
e.g.:  apply-cmvn-online "matrix-sum scp:data/train/cmvn.scp - |" scp:feats.scp ark:-
       apply-cmvn-online --spk2utt=ark:spk2utt global_cmvn.stats scp:feats.scp ark:-
"""


@dataclass(frozen=True, kw_only=True)
class Options(OnlineCmvnOptions):
    """Options of apply-cmvn-online."""

    skip_dims: str = option("", "dimensions to leave unchanged, e.g. 13:14:15")
    spk2utt: str = option("", "rspecifier of each speaker's utterances, which are normalized one after the other")


@program("apply-cmvn-online", USAGE, Options)
def main(options: Options, stats_source: str, source: str, target: str) -> int:
    """Normalize a table, or the utterances of speakers."""
    of_corpus: DoubleMatrix = io_ark.read_object("double-matrix", stats_source)
    skipped = parse_dims(options.skip_dims, "--skip-dims")
    frames = 0

    def normalize(feats: Matrix, of_speaker: DoubleMatrix | None) -> Matrix:
        nonlocal frames
        frames += len(feats)
        return normalized(feats, options, of_corpus, of_speaker, skipped)

    with Tables() as tables:
        writer = tables.write("matrix", target)
        if options.spk2utt:
            speakers, table = tables.read("token-vector", options.spk2utt), tables.lookup("matrix", source)

            def of_speakers(speaker: str, names: list[str]) -> Iterator[Block]:
                """Yield the results of one speaker, whose statistics grow."""
                state: DoubleMatrix | None = None
                for name in names:
                    if name not in table:
                        logger.warning("No features for utterance %s", name)
                        continue
                    feats = table[name]
                    yield block_of([name], [normalize(feats, state)])
                    if len(feats):
                        state = speaker_stats(feats, state)

            blocks = (each for block in speakers for entry in block.entries() for each in of_speakers(*entry))
            counts = map_table(blocks, writer, lambda block: block)
        else:
            each: Iterator[ArrayBlock] = tables.read("matrix", source)
            counts = map_table(each, writer, lambda block: block.map(lambda key, feats: normalize(feats, None)))
    logger.info("Applied online CMVN to %d files, or %d frames.", counts.done, frames)
    return counts.status
