"""show-transitions: print the transitions of a model with the names of their phones."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

import io_ark
from io_ark.models import TransitionModel
from kaldi_compat.cli.alignments import read_symbols
from kaldi_compat.cli.files import write_text
from kaldi_compat.cli.program import NoOptions, program
from kaldi_compat.errors import OptionError
from kaldi_compat.exact.libm import expf

USAGE = """
Prints the transition-states and transition-ids of a model in readable form. Given a third file, also prints the counts
of their pdfs.

Usage: show-transitions [options] <phones.txt> <model> [<occs-rxfilename>]
e.g.:  show-transitions phones.txt 1.mdl 1.occs
"""


@program("show-transitions", USAGE)
def main(options: NoOptions, symbols: str, model: str, occupancies: str | None = None) -> int:
    """Print a line for each transition-state and for each of its transitions, and return the exit status 0."""
    names = read_symbols(symbols)
    transitions = io_ark.load(model, kind="transition-model")
    counts = None if occupancies is None else io_ark.load(occupancies, kind="double-vector")
    if counts is not None and len(counts) != transitions.num_pdfs:
        raise OptionError(
            f"{occupancies} has {len(counts)} counts, but the model has {transitions.num_pdfs} pdfs: pass the "
            "occupancies file of this model"
        )
    for phone in np.unique(transitions.tuples[:, 0]).tolist():
        if phone >= len(names) and phone not in names:  # A smaller phone without a symbol has an empty name.
            raise OptionError(f"{symbols}: no symbol for phone {phone}: pass the phones.txt of this model")
    write_text("-", "".join(format_transitions(transitions, names, counts)))
    return 0


def format_transitions(model: TransitionModel, names: dict[int, str], counts: npt.NDArray[Any] | None) -> Iterator[str]:
    """Yield a line for each transition-state and each transition-id.

    Args:
        model: the transition model.
        names: maps phones to their symbols.
        counts: occupation counts (pdfs,) of the pdfs. None to omit the counts.
    """
    ids = np.arange(1, model.num_transition_ids + 1)
    probabilities, targets, are_loops = expf(model.log_probs[1:]), model.targets(ids), model.are_self_loops(ids)
    pdfs = model.pdfs(ids)
    for state, (phone, hmm_state, forward_pdf, loop_pdf) in enumerate(model.tuples.tolist(), 1):
        pdf = f"pdf = {forward_pdf}" if model.is_hmm else f"forward-pdf = {forward_pdf} self-loop-pdf = {loop_pdf}"
        yield f"Transition-state {state}: phone = {names.get(phone, '')} hmm-state = {hmm_state} {pdf}\n"
        for index in range(model.first_ids[state] - 1, model.first_ids[state + 1] - 1):
            count = "" if counts is None else f" count of pdf = {counts[pdfs[index]]:g}"
            target = "self-loop" if are_loops[index] else f"{hmm_state} -> {targets[index]}"
            yield f" Transition-id = {index + 1} p = {probabilities[index]:g}{count} [{target}]\n"
