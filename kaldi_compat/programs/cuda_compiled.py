"""cuda-compiled: say whether Kaldi was compiled for CUDA."""

from collections.abc import Sequence

from kaldi_compat.cli.log import say
from kaldi_compat.cli.program import NoOptions, Program

USAGE = """
Ends with status 0 if Kaldi's own programs were compiled for CUDA, else with 1. It always ends with 1: recipes call
it before they run nnet3 programs on GPUs, which this package does not contain.

Usage: cuda-compiled
"""


class CudaCompiled(Program):
    """Prints nothing without arguments, and its usage with any; the status is 1 in both cases, as in Kaldi."""

    def __call__(self, argv: Sequence[str] | None = None) -> int:
        if argv is None:
            return super().__call__()
        if argv:
            say(self.usage())
        return 1


main = CudaCompiled("cuda-compiled", USAGE, NoOptions, lambda options: 1, 0)
