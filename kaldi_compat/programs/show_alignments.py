"""show-alignments: print alignments with the names of their phones."""

from __future__ import annotations

from itertools import pairwise

from io_ark.models import TransitionModel, read_transition_model, split_to_phones
from io_ark.streams import open_output
from kaldi_compat.cli.alignments import read_symbols
from kaldi_compat.cli.program import NoOptions, program
from kaldi_compat.cli.tables import Tables

USAGE = """
Prints alignments for people: the transition-ids of each phone in brackets, and below them the phone.

Usage: show-alignments [options] <phones.txt> <model> <alignments-rspecifier>
e.g.:  show-alignments phones.txt final.mdl ark:1.ali
"""


@program("show-alignments", USAGE)
def main(options: NoOptions, symbols: str, model: str, source: str) -> int:
    """Print two lines and an empty one for each alignment."""
    transitions = read_transition_model(model)
    names = read_symbols(symbols)
    with Tables() as tables, open_output("-") as output:
        for block in tables.read("int-vector", source):
            for key, ids in block.entries():
                lines = (f"{key}  {line}\n" for line in shown(transitions, names, ids))
                output.write("".join([*lines, "\n"]).encode(errors="surrogateescape"))
    return 0


def shown(model: TransitionModel, names: dict[int, str], ids: list[int]) -> tuple[str, str]:
    """Return the transition-ids by phone and the names of the phones, each padded to the same width."""
    segments = split_to_phones(model, ids)
    upper, lower = [], []
    for (begin, end), phone in zip(pairwise(segments.bounds.tolist()), segments.phones.tolist(), strict=True):
        numbers, name = f"[ {' '.join(map(str, ids[begin:end]))} ] ", f"{names.get(phone, '')} "
        width = max(len(numbers), len(name.encode(errors="surrogateescape")))
        upper.append(numbers.ljust(width))
        lower.append(name + " " * (width - len(name.encode(errors="surrogateescape"))))
    return "".join(upper), "".join(lower)
