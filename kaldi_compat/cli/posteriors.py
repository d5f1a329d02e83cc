"""Posteriors as matrices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from io_ark.codecs.posterior import Posterior
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.errors import FeatureError
from kaldi_compat.options.base import option, require


@dataclass(frozen=True, kw_only=True)
class PosteriorOptions:
    """PosteriorOptions of the programs that turn posteriors into features."""

    binary: bool = option(True, "write a single file in binary (a table's wspecifier says so itself)")
    post_dim: int = option(0, "number of classes; must be given")


def require_post_dim(options: PosteriorOptions) -> None:
    """Raise OptionError unless the number of classes was given."""
    require(options.post_dim > 0, "the number of classes must be given: --post-dim=D")


def posterior_matrix(posterior: Posterior, num_classes: int) -> Matrix:
    """A posterior as ``(frames, classes)``; of a class that a frame names twice, the last weight counts.

    Raises:
        FeatureError: a class is out of range.
    """
    matrix = np.zeros((len(posterior), num_classes), np.float32)
    for row, frame in zip(matrix, posterior, strict=True):
        for index, weight in frame:
            if not 0 <= index < num_classes:
                raise FeatureError(f"the posterior of class {index} does not fit --post-dim={num_classes}")
            row[index] = weight
    return matrix
