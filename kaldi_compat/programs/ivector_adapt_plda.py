"""ivector-adapt-plda: adapt a PLDA model to the speaker vectors of another domain."""

from __future__ import annotations

import numpy as np

import io_ark
from kaldi_compat.cli.program import FileOptions, program
from kaldi_compat.cli.speakers import require_usable_vector
from kaldi_compat.cli.tables import Tables
from kaldi_compat.errors import OptionError
from kaldi_compat.options.declaration import option

USAGE = """
Adapts a PLDA model to the vectors of another domain, whose speakers may be unknown.

Usage: ivector-adapt-plda [options] <plda-rxfilename> <ivector-rspecifier> <plda-wxfilename>
e.g.:  ivector-adapt-plda plda scp:ivectors.scp plda.adapted
"""


class Options(FileOptions):
    mean_diff_scale: float = option(
        1.0, "factor on the outer product of the difference of the means, which is added to the variance", ge=0
    )
    within_covar_scale: float = option(0.3, "share of excess variance that is added to the within-speaker covariance")
    between_covar_scale: float = option(0.7, "share of excess variance that is added to the between-speaker covariance")


@program("ivector-adapt-plda", USAGE, Options)
def main(options: Options, model: str, source: str, target: str) -> int:
    """Adapt a PLDA model to the vectors of a table, write it to a file, and return the exit status 0."""
    plda = io_ark.load(model, kind="plda")
    vectors = []
    with Tables() as tables:
        for block in tables.read("vector", source):
            for key, vector in block.entries():
                require_usable_vector(key, vector, plda.dim, "the PLDA model has")
                vectors.append(vector)
    if not vectors:
        raise OptionError(f"there are no vectors in {source}: check the rspecifier")
    adapted = plda.adapt(
        np.stack(vectors),
        mean_diff_scale=options.mean_diff_scale,
        within_covar_scale=options.within_covar_scale,
        between_covar_scale=options.between_covar_scale,
    )
    io_ark.save(target, adapted, binary=options.binary)
    return 0
