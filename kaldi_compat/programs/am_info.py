"""am-info: print properties of an acoustic model."""

import io_ark
from kaldi_compat.cli.files import write_text
from kaldi_compat.cli.program import NoOptions, program

USAGE = """
Prints the numbers of phones, pdfs, transition-ids and transition-states of an acoustic model. The model may have any
type.

Usage: am-info [options] <model>
e.g.:  am-info final.mdl
"""


@program("am-info", USAGE)
def main(options: NoOptions, source: str) -> int:
    """Print properties of the transition model, the first part of an acoustic model. Return the exit status 0."""
    write_text("-", read_properties(source))
    return 0


def read_properties(source: str) -> str:
    """Read the transition model of the file ``source``, and return its properties in text, one in each line."""
    model = io_ark.load(source, kind="transition-model")
    numbers = {
        "phones": len(model.topology.phones),
        "pdfs": model.num_pdfs,
        "transition-ids": model.num_transition_ids,
        "transition-states": model.num_transition_states,
    }
    return "".join(f"number of {name} {number}\n" for name, number in numbers.items())
