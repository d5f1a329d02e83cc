"""wav-copy: copy audio."""

import io_ark
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import convert_table_or_file
from kaldi_compat.cli.program import NoOptions, program

USAGE = """
Copies audio in WAV format.

Usage: wav-copy [options] <wav-rspecifier> <wav-wspecifier>
   or: wav-copy [options] <wav-rxfilename> <wav-wxfilename>
e.g.:  wav-copy scp:wav.scp ark:-
       wav-copy wav.ark:123456 -
"""


@program("wav-copy", USAGE)
def main(options: NoOptions, source: str, target: str) -> int:
    """Copy a table or a single file of audio. The exit status is 0 if an entry is written, otherwise 1."""
    counts = convert_table_or_file(lambda block: block, "wave", source, target)
    if io_ark.is_table_wspecifier(target):
        logger.info("Copied %d wave files", counts.done)
    return counts.status
