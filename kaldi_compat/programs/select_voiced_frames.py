"""select-voiced-frames: keep the voiced frames of features."""

from __future__ import annotations

from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import LookupReader, Skip, convert_table
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
    with LookupReader[Vector]("vector", decisions) as vad:

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

        counts = convert_table("matrix", source, target, select)
    logger.info("Done selecting voiced frames; processed %d utterances, %d had errors.", counts.done, counts.failed)
    return counts.status
