"""ali-to-pdf: convert alignments from transition-ids to pdfs."""

import io_ark
from io_ark.blocks import ArrayBlock
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import convert_table
from kaldi_compat.cli.program import NoOptions, program

USAGE = """
Converts alignments from transition-ids to pdfs, which are numbered from 0.

Usage: ali-to-pdf [options] <model> <alignments-rspecifier> <pdfs-wspecifier>
e.g.:  ali-to-pdf final.mdl "ark:gunzip -c ali.1.gz |" ark,t:-
"""


@program("ali-to-pdf", USAGE)
def main(options: NoOptions, model: str, source: str, target: str) -> int:
    """Convert the transition-ids of alignments to pdfs. As in Kaldi, the exit status is 0 even for an empty table."""
    transitions = io_ark.load(model, kind="transition-model")

    def convert_to_pdfs(block: ArrayBlock) -> ArrayBlock:
        return block.with_vectors(transitions.pdfs(block.values))

    counts = convert_table(convert_to_pdfs, "int-vector", source, target)
    logger.info("Converted %d alignments to pdf sequences.", counts.done)
    return 0
