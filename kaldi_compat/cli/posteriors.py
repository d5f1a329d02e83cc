"""Conversion of posteriors to matrices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from io_ark.codecs.posterior import Posterior
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.errors import FeatureError
from kaldi_compat.options.base import BaseOptions, option, require

__all__ = ["PosteriorOptions", "posterior_matrix", "require_post_dim"]


@dataclass(frozen=True, kw_only=True)
class PosteriorOptions(BaseOptions):
    """PosteriorOptions of the programs that turn posteriors into features."""

    binary: bool = option(True, "write a single file in binary (for tables, the wspecifier decides)")
    post_dim: int = option(0, "number of classes (required)")


def require_post_dim(options: PosteriorOptions) -> None:
    """Raise OptionError unless the number of classes is given."""
    require(options.post_dim > 0, "You have to set the dimensionality of posteriors with '--post-dim=D'")


def posterior_matrix(posterior: Posterior, num_classes: int) -> Matrix:
    """Convert a posterior to ``(frames, classes)``; if a frame lists a class twice, the last weight counts.

    Raises:
        FeatureError: a class is out of range.
    """
    matrix = np.zeros((len(posterior), num_classes), np.float32)
    for row, frame in zip(matrix, posterior, strict=True):
        for index, weight in frame:
            if not 0 <= index < num_classes:
                raise FeatureError(
                    f"posterior of class {index}: with --post-dim={num_classes}, classes are 0 to {num_classes - 1}"
                )
            row[index] = weight
    return matrix
