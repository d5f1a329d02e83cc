"""select-voiced-frames: keep the voiced frames of features."""

from __future__ import annotations

import numpy as np

from io_ark.codecs.blocks import ArrayBlock
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import BlockTable, LookupReader, Skip, convert_table
from kaldi_compat.cli.objects import Matrix, Vector
from kaldi_compat.cli.program import NoOptions, program
from kaldi_compat.functional.vad import select_voiced

USAGE = """
Copies the voiced frames of features. The decisions, 1 for voiced and 0 for unvoiced, come from compute-vad or similar.

Usage: select-voiced-frames [options] <feats-rspecifier> <vad-rspecifier> <feats-wspecifier>
e.g.:  select-voiced-frames scp:feats.scp scp:vad.scp ark:-
"""


@program("select-voiced-frames", USAGE)
def main(options: NoOptions, source: str, decisions: str, target: str) -> int:
    """Select frames of each utterance of a table."""
    with LookupReader[Vector]("vector", decisions) as reader:
        vad = BlockTable(reader)

        def select(key: str, feats: Matrix) -> Matrix:
            if len(feats) == 0:
                raise Skip(f"Empty feature matrix for utterance {key}")
            if key not in vad:
                raise Skip(f"No VAD input found for utterance {key}")
            voiced = vad[key]
            if len(voiced) != len(feats):
                raise Skip(
                    f"Mismatch in number for frames {len(feats)} for features and VAD {len(voiced)}, "
                    f"for utterance {key}"
                )
            if not voiced.any():
                raise Skip(f"No features were judged as voiced for utterance {key}")
            return select_voiced(feats, voiced)

        def of_block(block: ArrayBlock) -> ArrayBlock | None:
            feats, found = block.matrix(), vad.values(block.names())
            if feats is None or found is None:
                return None
            if not np.array_equal([len(each) for each in found], block.shapes[:, 0]):
                return None
            voiced = np.concatenate(found)
            chosen = voiced == 1
            numbers = np.add.reduceat(chosen, block.rows()[:-1], dtype=np.int64)
            if not numbers.all() or not (chosen | (voiced == 0)).all():
                return None
            return block.with_rows(feats[chosen], numbers)

        counts = convert_table("matrix", source, target, select, block_function=of_block)
    logger.info("Done selecting voiced frames; processed %d utterances, %d had errors.", counts.done, counts.failed)
    return counts.status
