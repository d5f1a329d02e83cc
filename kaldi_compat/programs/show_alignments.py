"""show-alignments: print alignments with the names of their phones."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

import io_ark
from io_ark.blocks import ArrayBlock
from io_ark.models import TransitionModel, split_to_phones
from io_ark.streams import open_output
from kaldi_compat.cli.alignments import read_symbols
from kaldi_compat.cli.loop import visit_blocks
from kaldi_compat.cli.program import NoOptions, program
from kaldi_compat.cli.tables import Tables

USAGE = """
Prints alignments in readable form. A line has the transition-ids of each phone in brackets, and the next line has the
phones.

Usage: show-alignments [options] <phones.txt> <model> <alignments-rspecifier>
e.g.:  show-alignments phones.txt final.mdl ark:1.ali
"""


@program("show-alignments", USAGE)
def main(options: NoOptions, symbols: str, model: str, source: str) -> int:
    """Print two lines and an empty line for each alignment, and return the exit status."""
    transitions = io_ark.load(model, kind="transition-model")
    names = {phone: split_bytes(name) for phone, name in read_symbols(symbols).items()}
    with Tables() as tables, open_output("-") as output:

        def show(block: ArrayBlock) -> ArrayBlock:
            output.write("".join(format_alignments(block, transitions, names)).encode("latin-1"))
            return block

        visit_blocks(show, tables.read("int-vector", source))
    return 0


def split_bytes(text: str) -> str:
    """Return a string with one character for each UTF-8 byte of ``text``. Kaldi counts bytes to align columns."""
    return text.encode(errors="surrogateescape").decode("latin-1")


def format_alignments(block: ArrayBlock, model: TransitionModel, names: dict[int, str]) -> Iterator[str]:
    """Format alignments: a line of transition-ids in brackets, and a line of phones below them, per alignment.

    ``names`` maps phones to their symbols.
    """
    segments = split_to_phones(model, block.values, block.compute_row_bounds())
    words = np.array([f"{number} " for number in range(model.num_transition_ids + 1)], object)
    upper, ends = words[block.values], np.append(0, np.cumsum(np.vectorize(len, [int])(words)[block.values]))
    widths = np.diff(ends[segments.bounds]) + len("[ ] ")
    lower = [f"{names.get(phone, '')} " for phone in segments.phones.tolist()]
    columns = np.maximum(widths, np.fromiter(map(len, lower), np.int64, len(lower)))
    upper[segments.bounds[:-1]] = "[ " + upper[segments.bounds[:-1]]
    upper[segments.bounds[1:] - 1] += np.array(
        [f"] {' ' * padding}" for padding in (columns - widths).tolist()], object
    )
    lower = list(map(str.ljust, lower, columns.tolist()))
    frames, phones = pairwise(block.compute_row_bounds().tolist()), pairwise([0, *np.cumsum(segments.counts).tolist()])
    for key, (begin, end), (first, last) in zip(map(split_bytes, block.decode_keys()), frames, phones, strict=True):
        yield f"{key}  {''.join(upper[begin:end])}\n{key}  {''.join(lower[first:last])}\n\n"
