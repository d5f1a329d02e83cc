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
    """Print two lines and an empty line for each alignment, and return the exit status 0."""
    transitions = io_ark.load(model, kind="transition-model")
    names = {phone: split_bytes(name) for phone, name in read_symbols(symbols).items()}
    with Tables() as tables, open_output("-") as output:

        def write_alignments(block: ArrayBlock) -> ArrayBlock:
            output.write("".join(format_alignments(block, transitions, names)).encode("latin-1"))
            return block

        visit_blocks(write_alignments, tables.read("int-vector", source))
    return 0


def split_bytes(text: str) -> str:
    """Return a string with one character for each UTF-8 byte of ``text``. Kaldi counts bytes to align columns."""
    return text.encode(errors="surrogateescape").decode("latin-1")


def format_alignments(block: ArrayBlock, model: TransitionModel, names: dict[int, str]) -> Iterator[str]:
    """Yield three lines for each alignment: transition-ids with brackets around each phone, phones, and an empty line.

    ``names`` maps phones to their symbols.
    """
    segments = split_to_phones(model, block.values, block.compute_row_bounds())
    id_texts = np.array([f"{number} " for number in range(model.num_transition_ids + 1)], object)
    id_lengths = np.vectorize(len, [int])(id_texts)
    id_fields, offsets = id_texts[block.values], np.append(0, np.cumsum(id_lengths[block.values]))
    id_widths = np.diff(offsets[segments.bounds]) + len("[ ] ")  # Width of the transition-ids of each phone.
    phone_fields = [f"{names.get(phone, '')} " for phone in segments.phones.tolist()]
    column_widths = np.maximum(id_widths, np.fromiter(map(len, phone_fields), np.int64, len(phone_fields)))
    id_fields[segments.bounds[:-1]] = "[ " + id_fields[segments.bounds[:-1]]
    id_fields[segments.bounds[1:] - 1] += np.array(
        [f"] {' ' * padding}" for padding in (column_widths - id_widths).tolist()], object
    )
    phone_fields = list(map(str.ljust, phone_fields, column_widths.tolist()))
    frames, phones = pairwise(block.compute_row_bounds().tolist()), pairwise([0, *np.cumsum(segments.counts).tolist()])
    for key, (begin, end), (first, stop) in zip(map(split_bytes, block.decode_keys()), frames, phones, strict=True):
        yield f"{key}  {''.join(id_fields[begin:end])}\n{key}  {''.join(phone_fields[first:stop])}\n\n"
