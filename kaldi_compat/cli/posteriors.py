"""Convert posteriors to matrices."""

from __future__ import annotations

import numpy as np

from io_ark.blocks import PosteriorArrays
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.program import FileOptions
from kaldi_compat.errors import FeatureError
from kaldi_compat.options.base import require
from kaldi_compat.options.declaration import option


class PosteriorOptions(FileOptions):
    """Options of the programs that turn posteriors into features."""

    post_dim: int = option(0, "number of classes (required)")


def require_post_dim(options: PosteriorOptions) -> None:
    """Raise OptionError unless --post-dim, the number of classes, is positive."""
    require(options.post_dim > 0, "You have to set the dimensionality of posteriors with '--post-dim=D'")


def make_posterior_matrix(posterior: PosteriorArrays, num_classes: int) -> Matrix:
    """Convert posteriors to a matrix of weights (frames, num_classes). See :func:`append_posterior` for the errors."""
    return append_posterior(np.empty((len(posterior.counts), 0), np.float32), posterior, num_classes)


def append_posterior(feats: Matrix, posterior: PosteriorArrays, num_classes: int) -> Matrix:
    """Append a column of weights for each class to the features of the same frames.

    Args:
        feats: features (frames, dim).
        posterior: posteriors of the same frames.
        num_classes: number of classes.

    Returns:
        Features and weights, (frames, dim + num_classes). A class that a frame does not list has the weight 0. If a
        frame lists a class twice, the last weight counts.

    Raises:
        FeatureError: a class is out of range.
    """
    classes = posterior.integers
    invalid_classes = classes[(classes < 0) | (classes >= num_classes)]
    if len(invalid_classes):
        raise FeatureError(f"posterior of class {invalid_classes[0]}: with --post-dim={num_classes}, classes "
                           f"are 0 to {num_classes - 1}; correct --post-dim or the posteriors")  # fmt: skip
    num_frames, dim = feats.shape
    result = np.zeros((num_frames, dim + num_classes), np.float32)
    result[:, :dim] = feats
    first = np.arange(dim, result.size, dim + num_classes)  # (frames,): flat index of the first class.
    result.reshape(-1)[np.repeat(first, posterior.counts) + classes] = posterior.weights
    return result
