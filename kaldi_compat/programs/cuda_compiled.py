"""cuda-compiled: say whether Kaldi was compiled for CUDA."""

from collections.abc import Sequence

from kaldi_compat.cli.log import write_to_stderr
from kaldi_compat.cli.program import NoOptions, Program

USAGE = """
Always ends with status 1, which means that Kaldi's programs were not compiled for CUDA. Recipes call it before they run
nnet3 programs on GPUs, which this package does not contain.

Usage: cuda-compiled
"""


class CudaCompiled(Program):
    """Returns status 1, as Kaldi's program without CUDA does. With arguments, it also prints the usage."""

    def __call__(self, argv: Sequence[str] | None = None) -> int:
        """Return the exit status 1. Print the usage if ``argv`` has words. By default, use ``sys.argv`` and exit."""
        if argv is None:
            return super().__call__()
        if argv:
            write_to_stderr(self.format_usage())
        return 1


main = CudaCompiled("cuda-compiled", USAGE, NoOptions, lambda options: 1, 0)
