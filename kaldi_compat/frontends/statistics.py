"""Means and standard deviations of models, from Kaldi statistics, FunASR's ``am.mvn``, WeNet's json, or numbers.

Does not import torch.
"""

from __future__ import annotations

import itertools
import os
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import io_ark
from io_ark import ArkError
from kaldi_compat.errors import FeatureError
from kaldi_compat.exact.arrays import Floats
from kaldi_compat.json_file import parse_json, read_regular_file
from kaldi_compat.options.frontend import GlobalCmvnOptions

__all__ = ["Statistics"]

VARIANCE_FLOOR = 1.0e-20  # Smaller variances are replaced with this value, as in WeNet, FireRedASR and Kaldi.
# Largest error of a variance computed from rounded sums, as a fraction of the squared mean. The relative error of each
# sum is up to 5e-6 if it was printed with C++'s default of six digits.
MAX_ROUNDING = 1.0e-5
VECTOR = r"\[([^\]]*)\]"


@dataclass(frozen=True, eq=False)
class Statistics:
    """Numbers that normalize features: ``(features + shift) * scale``.

    Attributes:
        shift: negative mean of each column ``(dim,)``, or of all columns ``()``, float32.
        scale: inverse standard deviation, float32, with the shape of ``shift``.
    """

    shift: Floats
    scale: Floats

    @classmethod
    def of(cls, source: Any) -> Statistics:
        """Create statistics from a file or from numbers.

        Args:
            source: path of a file (see :meth:`read`); pair ``(mean, std)`` of numbers or of arrays ``(dim,)``; array
                ``(2, dim + 1)`` of Kaldi statistics; or Statistics, which are returned unchanged.

        Raises:
            FeatureError: the file cannot be read, or the numbers are not valid statistics.

        >>> from kaldi_compat.frontends.statistics import Statistics
        >>> Statistics.of(([1.0, 2.0], [0.5, 4.0])).scale.tolist()
        [2.0, 0.25]
        """
        if isinstance(source, Statistics):
            return source
        if isinstance(source, (str, os.PathLike)):
            return cls.read(source)
        if hasattr(source, "detach"):
            source = source.detach().cpu().numpy()
        if isinstance(source, np.ndarray):
            return _convert_kaldi(source, "the statistics")
        if isinstance(source, (tuple, list)) and len(source) == 2:
            return _convert_mean_and_std(source[0], source[1], "the statistics")
        raise FeatureError(
            "statistics must be a file, Kaldi statistics (2, dim + 1) or a pair (mean, std), not "
            f"{type(source).__name__}"
        )

    @classmethod
    def of_numbers(cls, options: GlobalCmvnOptions) -> Statistics:
        """Return the statistics for the single mean and the single standard deviation in ``options``."""
        return _convert_mean_and_std(options.mean, options.std, "the options")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Statistics:
        """Read statistics from a file, whose format is detected.

        Args:
            path: a file of Kaldi statistics (a matrix (2, dim + 1), binary or text, or an archive of one matrix),
                FunASR's ``am.mvn``, WeNet's JSON (``mean_stat``, ``var_stat``, ``frame_num``), or a JSON file with
                ``mean`` and ``std``.

        Raises:
            FeatureError: the file cannot be read, or does not have one of these formats.

        >>> import os, tempfile
        >>> from kaldi_compat.frontends.statistics import Statistics
        >>> path = os.path.join(tempfile.mkdtemp(), "statistics.json")
        >>> _ = open(path, "w").write('{"mean": [1.0, 2.0], "std": [0.5, 4.0]}')
        >>> Statistics.read(path).shift.tolist()
        [-1.0, -2.0]
        """
        name = os.fspath(path)
        try:
            content = read_regular_file(name)
        except OSError as error:
            raise FeatureError(f"cannot read the statistics {name}: {error.strerror}") from None
        if content[:1] != b"\0":
            text = content.decode("utf-8", errors="replace")
            if "<AddShift>" in text:
                return _parse_funasr(text, name)
            if text.lstrip("\ufeff \t\r\n").startswith("{"):
                return _parse_json_statistics(content, name)
        return _convert_kaldi(_load_matrix(name), name)


def _load_matrix(name: str) -> npt.NDArray[Any]:
    """Load a matrix from a file, or from an archive of one matrix. Raise FeatureError if the file has other content."""
    try:
        value = io_ark.load(name, pipes=False)
        if isinstance(value, np.ndarray):
            return value
    except ArkError:
        pass
    try:
        matrices = [matrix for _, matrix in itertools.islice(io_ark.read(f"ark:{name}", pipes=False), 2)]
    except ArkError:
        matrices = []
    if len(matrices) == 1 and isinstance(matrices[0], np.ndarray):
        return matrices[0]
    content = "an archive of several entries" if len(matrices) > 1 else "no statistics of Kaldi, FunASR or WeNet"
    raise FeatureError(f"{name} holds {content}: expected a matrix (2, dim + 1), an am.mvn or a JSON file")


def _parse_funasr(text: str, name: str) -> Statistics:
    """Parse FunASR's ``am.mvn``, which has a vector to add and a vector to multiply by.

    The file has the text format of Kaldi's nnet1. Raise FeatureError, which shows the file's ``name``, if a vector is
    missing or invalid.
    """
    vectors = []
    for tag in ("<AddShift>", "<Rescale>"):
        _, _, following = text.partition(tag)
        vector = re.search(VECTOR, following)
        try:
            vectors.append(np.array(vector[1].split() if vector else [], np.float32))
        except ValueError:
            raise FeatureError(
                f"{name}: the vector of {tag} has a word that is not a number: correct the file"
            ) from None
    shift, scale = vectors
    return _make_statistics(shift, scale, name)


def _parse_json_statistics(content: bytes, name: str) -> Statistics:
    """Parse WeNet's JSON file, or a JSON file with mean and std. Raise FeatureError, which shows the ``name``."""
    try:
        values = parse_json(content)
        if "mean_stat" not in values:
            return _convert_mean_and_std(values["mean"], values["std"], name)
        count = float(values["frame_num"])
        sums, squares = np.array([values["mean_stat"], values["var_stat"]], np.float64)
    except FeatureError:
        raise
    except KeyError as error:
        raise FeatureError(
            f"{name} has no {error}: expected mean_stat, var_stat and frame_num (WeNet), or mean and std"
        ) from None
    except (ValueError, TypeError, OverflowError) as error:
        raise FeatureError(
            f"{name} is not a JSON file of statistics: {error}; check that the file belongs to the model"
        ) from None
    return _convert_sums(sums, squares, count, name)


def _convert_kaldi(matrix: npt.NDArray[Any], name: str) -> Statistics:
    """Convert Kaldi statistics (2, dim + 1): row 0 has the sums and the number of frames, row 1 the sums of squares.

    Raise FeatureError, which shows ``name``, for a wrong shape or type, or for invalid sums.
    """
    if matrix.ndim != 2 or matrix.shape[0] != 2 or matrix.shape[1] < 2 or matrix.dtype.kind not in "fiu":
        raise FeatureError(
            f"{name}: expected Kaldi statistics of shape (2, dim + 1), not {matrix.dtype} of shape {matrix.shape}"
        )
    doubles = matrix.astype(np.float64)
    return _convert_sums(doubles[0, :-1], doubles[1, :-1], float(doubles[0, -1]), name)


def _convert_sums(sums: npt.NDArray[Any], squares: npt.NDArray[Any], count: float, name: str) -> Statistics:
    """Compute statistics from the sums (dim,) and the sums of squares (dim,) of ``count`` frames.

    Raise FeatureError, which shows ``name``, if ``count`` is below 1, or a variance is negative beyond rounding errors.
    """
    if not count >= 1:
        raise FeatureError(f"{name}: the statistics are of {count:g} frames: compute them from at least 1 frame")
    mean = sums / count
    variance = squares / count - mean * mean
    negative_columns = np.flatnonzero(variance < -MAX_ROUNDING * mean * mean)
    if len(negative_columns):
        column = int(negative_columns[0])
        raise FeatureError(
            f"{name}: the variance of column {column} is negative, {variance[column]:.3g}: no features have such "
            "statistics, so compute the statistics again"
        )
    return _make_statistics(-mean, 1.0 / np.sqrt(np.maximum(variance, VARIANCE_FLOOR)), name)


def _convert_mean_and_std(mean: Any, std: Any, name: str) -> Statistics:
    """Convert a mean and standard deviation, numbers or vectors (dim,). Raise FeatureError with ``name`` if invalid."""
    try:
        means, deviations = np.asarray(mean, np.float64), np.asarray(std, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise FeatureError(f"{name}: mean and std must be numbers, or vectors of numbers") from None
    if not (deviations > 0).all():
        raise FeatureError(f"{name}: every standard deviation must be positive")
    return _make_statistics(-means, 1.0 / deviations, name)


def _make_statistics(shift: npt.NDArray[Any], scale: npt.NDArray[Any], name: str) -> Statistics:
    """Make float32 statistics. Raise FeatureError, which shows ``name``, for wrong shapes, NaN or infinite values."""
    if shift.shape != scale.shape or shift.ndim > 1 or shift.size == 0:
        raise FeatureError(
            f"{name}: means of shape {shift.shape} and deviations of shape {scale.shape}: expected two numbers, or "
            "two vectors of the same length"
        )
    with np.errstate(over="ignore"):
        statistics = Statistics(np.asarray(shift, np.float32), np.asarray(scale, np.float32))
    if not (np.isfinite(statistics.shift).all() and np.isfinite(statistics.scale).all()):
        raise FeatureError(f"{name}: the statistics are infinite or NaN in single precision: compute them again")
    return statistics
