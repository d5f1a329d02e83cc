"""hmm-info: print properties of a transition model."""

from kaldi_compat.cli.files import write_text
from kaldi_compat.cli.program import NoOptions, program
from kaldi_compat.programs.am_info import read_properties

USAGE = """
Prints the numbers of phones, pdfs, transition-ids and transition-states of a transition model.

Usage: hmm-info [options] <model>
e.g.:  hmm-info final.mdl
"""


@program("hmm-info", USAGE)
def main(options: NoOptions, source: str) -> int:
    """Print properties of the transition model in a file, and return the exit status 0."""
    write_text("-", read_properties(source))
    return 0
