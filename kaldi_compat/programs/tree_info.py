"""tree-info: print properties of a decision tree."""

import io_ark
from kaldi_compat.cli.files import write_text
from kaldi_compat.cli.program import NoOptions, program

USAGE = """
Prints the number of pdfs, the context width and the central position of a decision tree.

Usage: tree-info [options] <tree>
e.g.:  tree-info exp/tri1/tree
"""


@program("tree-info", USAGE)
def main(options: NoOptions, source: str) -> int:
    """Print properties of a decision tree, and return the exit status 0."""
    tree = io_ark.load(source, kind="tree")
    write_text("-", f"num-pdfs {tree.num_pdfs}\ncontext-width {tree.width}\ncentral-position {tree.central}\n")
    return 0
