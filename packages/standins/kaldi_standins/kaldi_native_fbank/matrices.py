"""Normalization, deltas, splicing and transforms of features. See :mod:`kaldi_standins.kaldi_native_fbank`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

import io_ark
from io_ark.errors import ArkError
from io_ark.text import format_count
from kaldi_compat.errors import FeatureError
from kaldi_compat.exact.arrays import Doubles, Floats
from kaldi_compat.functional import cmvn
from kaldi_compat.functional.block_deltas import append_deltas
from kaldi_compat.functional.columns import splice_block
from kaldi_compat.functional.transform import apply_transform
from kaldi_compat.options import postprocessing as ours
from kaldi_compat.options.base import require
from kaldi_standins.kaldi_native_fbank.base import StreamError
from kaldi_standins.kaldi_native_fbank.options import CmvnOptions, DeltaOptions, SpliceOptions
from kaldi_standins.kaldi_native_fbank.plans import make_our_options

DEFAULT_SPLICE_OPTIONS = SpliceOptions()


def _to_matrix(features: npt.ArrayLike, needed_by: str = "") -> Floats:
    """Convert features to a float32 matrix (frames, dim). Raise FeatureError if the array does not have two axes.

    If ``needed_by`` is the name of a function, also raise FeatureError, with this name, for an empty matrix.
    """
    matrix = np.ascontiguousarray(features, np.float32)
    if matrix.ndim != 2 or (needed_by and not matrix.size):
        kind = "a nonempty matrix" if needed_by else "a matrix"
        raise FeatureError(f"{needed_by or 'features'}: expected {kind} (frames, dim), not the shape {matrix.shape}")
    return matrix


def compute_cmvn_stats(feats: npt.ArrayLike) -> Doubles:
    """Compute the CMVN statistics (2, dim + 1) of features (frames, dim), like Kaldi's ``compute-cmvn-stats``.

    The first row has the sums of the columns and the number of frames. The second row has the sums of squares and 0.

    Raises:
        FeatureError: the features are not a matrix, or have no columns.

    >>> from kaldi_standins.kaldi_native_fbank import compute_cmvn_stats
    >>> compute_cmvn_stats([[1.0, 2.0], [3.0, 4.0]]).tolist()
    [[4.0, 6.0, 2.0], [10.0, 20.0, 0.0]]
    """
    features = _to_matrix(feats)
    if features.shape[1] == 0:
        raise FeatureError("the features have no columns: pass an array (frames, dim)")
    return np.asarray(cmvn.cmvn_statistics(features), np.float64)


def apply_cmvn(stats: npt.ArrayLike, opts: CmvnOptions, feats: npt.ArrayLike) -> Floats:
    """Normalize features by means, and if ``opts.norm_vars`` is True also by variances, like Kaldi's ``apply-cmvn``.

    Args:
        stats: statistics (2, dim + 1), as :func:`compute_cmvn_stats` returns them.
        opts: the options. If ``opts.reverse`` is True, undo a normalization instead.
        feats: features (frames, dim).

    Returns:
        Normalized features (frames, dim).

    Raises:
        FeatureError: the features are not a matrix, or the statistics do not match the features, have a count below 1,
            or lack the finite variances that ``opts.norm_vars`` needs.

    >>> from kaldi_standins.kaldi_native_fbank import CmvnOptions, apply_cmvn, compute_cmvn_stats
    >>> feats = [[1.0, 2.0], [3.0, 4.0]]
    >>> apply_cmvn(compute_cmvn_stats(feats), CmvnOptions(), feats).tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
    """
    options = make_our_options(ours.CmvnOptions, norm_vars=opts.norm_vars, reverse=opts.reverse)
    return np.asarray(cmvn.apply_cmvn(_to_matrix(feats), np.asarray(stats, np.float64), options), np.float32)


def apply_cmvn_(stats: npt.ArrayLike, opts: CmvnOptions, feats: Floats) -> None:
    """Normalize features (frames, dim) in place. See :func:`apply_cmvn` for the arguments and errors.

    >>> import numpy as np
    >>> from kaldi_standins.kaldi_native_fbank import CmvnOptions, apply_cmvn_, compute_cmvn_stats
    >>> feats = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    >>> apply_cmvn_(compute_cmvn_stats(feats), CmvnOptions(), feats)
    >>> feats.tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
    """
    feats[...] = apply_cmvn(stats, opts, feats)


class CmvnAccumulator:
    """Accumulates the statistics of frames for :func:`apply_cmvn`.

    Args:
        dim: number of columns of the features. 0 for the number of columns of the first features.

    >>> from kaldi_standins.kaldi_native_fbank import CmvnAccumulator
    >>> accumulator = CmvnAccumulator()
    >>> accumulator.add(2, [1.0, 2.0])
    >>> accumulator.stats.tolist()
    [[1.0, 2.0, 1.0], [1.0, 4.0, 0.0]]
    """

    def __init__(self, dim: int = 0) -> None:
        self._stats: Doubles = np.zeros((2, dim + 1) if dim else (0, 0))

    @property
    def stats(self) -> Doubles:
        """Copy of the statistics (see :func:`compute_cmvn_stats`), of shape (0, 0) while ``dim`` is unknown."""
        stats: Doubles = self._stats.copy()
        return stats

    def accumulate(self, feats: npt.ArrayLike) -> None:
        """Add the statistics of features (frames, dim).

        Raises:
            FeatureError: the features are not a matrix or have no columns, or earlier features had a different ``dim``.
        """
        self._add_stats(compute_cmvn_stats(feats))

    def add(self, dim: int, frame: Sequence[float], weight: float = 1.0) -> None:
        """Add the statistics of one frame (dim,), multiplied by ``weight``.

        Raises:
            FeatureError: the frame does not have ``dim`` numbers, or the statistics have a different number of columns.
        """
        features = np.array(frame, np.float32)[None]
        if features.shape != (1, dim):
            raise FeatureError(f"a frame must be a vector of size {dim}, not an array of shape {features.shape[1:]}")
        self._add_stats(np.asarray(cmvn.cmvn_statistics(features, weights=np.array([weight], np.float32)), np.float64))

    def _add_stats(self, stats: Doubles) -> None:
        """Add statistics (2, dim + 1). Raise FeatureError if earlier statistics have a different shape."""
        if self._stats.size and self._stats.shape != stats.shape:
            raise FeatureError(
                f"the frames have {format_count(stats.shape[1] - 1, 'column')}, but the accumulated statistics have "
                f"{self._stats.shape[1] - 1}: pass frames with the same number of columns"
            )
        self._stats = self._stats + stats if self._stats.size else stats


def compute_deltas(opts: DeltaOptions, feats: npt.ArrayLike) -> Floats:
    """Append deltas to features (frames, dim), like Kaldi's ``add-deltas``.

    Returns:
        Features and deltas (frames, dim * (order + 1)).

    Raises:
        FeatureError: the features are not a matrix, or are empty.
        OptionError: Kaldi refuses an option.

    >>> from kaldi_standins.kaldi_native_fbank import DeltaOptions, compute_deltas
    >>> compute_deltas(DeltaOptions(), [[1.0, 2.0], [3.0, 4.0]]).shape
    (2, 6)
    """
    options = make_our_options(ours.DeltaOptions, delta_order=opts.order, delta_window=opts.window)
    matrix = _to_matrix(feats, "compute_deltas")
    return append_deltas(matrix, np.array([0, len(matrix)]), options)


def splice_frames(feats: npt.ArrayLike, opts: SpliceOptions | None = None) -> Floats:
    """Join each frame with its neighbors, by default 3 on each side, like Kaldi's ``splice-feats``.

    Features (frames, dim) become features (frames, dim * (1 + left_context + right_context)). The first and last frame
    are repeated beyond the ends.

    Raises:
        FeatureError: the features are not a matrix, or are empty.
        OptionError: Kaldi refuses an option.

    >>> from kaldi_standins.kaldi_native_fbank import splice_frames
    >>> splice_frames([[1.0, 2.0], [3.0, 4.0]]).shape
    (2, 14)
    """
    opts = opts or DEFAULT_SPLICE_OPTIONS
    options = make_our_options(ours.SpliceOptions, left_context=opts.left_context, right_context=opts.right_context)
    matrix = _to_matrix(feats, "splice_frames")
    return splice_block(matrix, np.array([0, len(matrix)]), options)


class FeatureTransform:
    """A linear transform of features, or an affine transform, whose offset is the last column of the matrix.

    Args:
        mat: matrix (output_dim, dim) for features (frames, dim), or (output_dim, dim + 1) for an affine transform.

    Raises:
        OptionError: ``mat`` is not a matrix.

    >>> from kaldi_standins.kaldi_native_fbank import FeatureTransform
    >>> FeatureTransform([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]).apply([[1.0, 2.0]]).tolist()
    [[1.0, 2.0]]
    """

    def __init__(self, mat: npt.ArrayLike) -> None:
        self._matrix = np.array(mat, np.float32)
        require(self._matrix.ndim == 2, f"a transform must be a matrix, not an array of shape {self._matrix.shape}")

    @staticmethod
    def read(filename: str) -> FeatureTransform:
        """Read a transform from a file or URL with a Kaldi matrix, binary or text. Commands are refused.

        Raises:
            StreamError: the file cannot be read. The error is also a RuntimeError.
        """
        try:
            return FeatureTransform(io_ark.load(filename, kind="matrix", pipes=False))
        except (ArkError, OSError) as error:
            raise StreamError(f"FeatureTransform: cannot read {filename}: {error}") from error

    @property
    def input_dim(self) -> int:
        """Number of columns of the matrix."""
        return int(self._matrix.shape[1])

    @property
    def output_dim(self) -> int:
        """Number of rows of the matrix."""
        return len(self._matrix)

    def is_affine(self, input_dim: int) -> bool:
        """Return True if the last column of the matrix is an offset for features with ``input_dim`` columns."""
        return self.input_dim == input_dim + 1

    def apply(self, feats: npt.ArrayLike) -> Floats:
        """Transform features (frames, dim), and return features (frames, output_dim).

        Raises:
            FeatureError: the features are not a matrix, or have neither ``input_dim`` columns nor ``input_dim - 1``
                columns, as for an affine transform.
        """
        return np.asarray(apply_transform(_to_matrix(feats), self._matrix), np.float32)


def transform_features(feats: npt.ArrayLike, transform: FeatureTransform) -> Floats:
    """Transform features (frames, dim), like Kaldi's ``transform-feats``: see :meth:`FeatureTransform.apply`.

    >>> from kaldi_standins.kaldi_native_fbank import FeatureTransform, transform_features
    >>> transform_features([[1.0, 2.0]], FeatureTransform([[1.0, 0.0, 0.5]])).tolist()
    [[1.5]]
    """
    return transform.apply(feats)
