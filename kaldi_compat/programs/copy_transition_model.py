"""copy-transition-model: copy a transition model."""

import io_ark
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.program import FileOptions, program

USAGE = """
Copies a transition model, which may be at the start of an acoustic model.

Usage: copy-transition-model [options] <model> <transition-model-wxfilename>
e.g.:  copy-transition-model --binary=false final.mdl transitions.txt
"""


# Kaldi's program does not initialize --binary, so its default is undefined there. Here it is true.
@program("copy-transition-model", USAGE, FileOptions)
def main(options: FileOptions, source: str, target: str) -> int:
    """Copy the transition model of a file, and return the exit status 0."""
    io_ark.save(target, io_ark.load(source, kind="transition-model"), binary=options.binary)
    logger.info("Copied transition model.")
    return 0
