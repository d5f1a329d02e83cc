"""ivector-copy-plda: copy a PLDA model, and smooth its within-speaker covariance."""

from __future__ import annotations

import io_ark
from kaldi_compat.cli.program import FileOptions, program
from kaldi_compat.options.declaration import option

USAGE = """
Copies a PLDA model. --smoothing increases its within-speaker covariance.

Usage: ivector-copy-plda [options] <plda-rxfilename> <plda-wxfilename>
e.g.:  ivector-copy-plda --smoothing=0.1 plda plda.smooth0.1
"""


class Options(FileOptions):
    smoothing: float = option(
        0.0, "share of the between-speaker covariance that is added to the within-speaker covariance", ge=0, le=1
    )
    normalize_length: bool = option(True, "has no effect, as in Kaldi")
    simple_length_normalization: bool = option(False, "has no effect, as in Kaldi")


@program("ivector-copy-plda", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Copy a PLDA model, smoothed if --smoothing is set, and return the exit status 0."""
    plda = io_ark.load(source, kind="plda")
    io_ark.save(target, plda.smooth(options.smoothing) if options.smoothing else plda, binary=options.binary)
    return 0
