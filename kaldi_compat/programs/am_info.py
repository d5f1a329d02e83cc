"""am-info: print properties of an acoustic model."""

import io_ark
from kaldi_compat.cli.files import write_text
from kaldi_compat.cli.program import NoOptions, program

USAGE = """
Prints the numbers of phones, pdfs, transition-ids and transition-states of an acoustic model of any type.

Usage: am-info [options] <model>
e.g.:  am-info final.mdl
"""


@program("am-info", USAGE)
def main(options: NoOptions, source: str) -> int:
    """Print four lines. Only the transition model, at the head of the file, is read."""
    write_text("-", properties(source))
    return 0


def properties(source: str) -> str:
    """Return the properties of the model in a file, one in each line."""
    model = io_ark.load(source, kind="transition-model")
    numbers = {
        "phones": len(model.topology.phones),
        "pdfs": model.num_pdfs,
        "transition-ids": model.num_transition_ids,
        "transition-states": model.num_transition_states,
    }
    return "".join(f"number of {name} {number}\n" for name, number in numbers.items())
