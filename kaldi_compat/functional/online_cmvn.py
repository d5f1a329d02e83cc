"""Online mean and variance normalization (Kaldi: OnlineCmvn in src/feat/online-feature.cc)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.logs import Logger
from kaldi_compat import native
from kaldi_compat.errors import FeatureError
from kaldi_compat.exact.arrays import Doubles, Floats, Integers
from kaldi_compat.exact.sliding import multiply_add_double
from kaldi_compat.functional.blocks import split_utterances
from kaldi_compat.functional.cmvn import (
    VARIANCE_FLOOR,
    apply_normalization,
    check_statistics,
    compute_mean_and_variance,
    refuse_tables,
    replace_statistics,
)
from kaldi_compat.options.base import ConstructorSignature, make_options
from kaldi_compat.options.constructors import OnlineCmvnKeywords, Unpack
from kaldi_compat.options.postprocessing import CmvnOptions, OnlineCmvnOptions

logger = Logger("kaldi_compat")


class OnlineCmvn:
    """Normalize each frame over a window that ends with the frame, with the bits of Kaldi's apply-cmvn-online.

    A call normalizes the next frames of an utterance, in any number. No frame waits for later frames.
    At the start of an utterance, when the window is not full, statistics of the speaker's earlier utterances and of a
    corpus are added. :meth:`end_utterance` begins a new utterance of the same speaker, and :meth:`reset` begins an
    utterance of a new speaker.

    Args:
        statistics: ``(2, dim + 1)``: statistics of a corpus, such as the result of ``matrix-sum scp:cmvn.scp``.
        options: the options of the window and of the normalization; Kaldi's defaults if None.
        skip_dims: dimensions to leave unchanged.
        changes: single options by name, which replace values in ``options``.

    Raises:
        FeatureError: the statistics are a table or the name of a file.
        OptionError: the options are invalid.

    >>> import numpy as np
    >>> from kaldi_compat.functional.cmvn import cmvn_statistics
    >>> from kaldi_compat.numpy import OnlineCmvn
    >>> frames = np.array([[1.0], [3.0], [5.0], [7.0]], np.float32)
    >>> online = OnlineCmvn(cmvn_statistics(frames), cmn_window=2, global_frames=1)
    >>> online(frames[:1]).tolist(), online(frames[1:]).tolist()
    ([[-1.5]], [[1.0], [1.0], [1.0]])
    """

    Options = OnlineCmvnOptions
    __signature__ = ConstructorSignature()

    def __init__(
        self,
        statistics: npt.ArrayLike,
        options: OnlineCmvnOptions | None = None,
        *,
        skip_dims: Sequence[int] = (),
        **changes: Unpack[OnlineCmvnKeywords],
    ) -> None:
        self.options = make_options("OnlineCmvn", OnlineCmvnOptions, options, changes)
        self.skip_dims = tuple(skip_dims)
        refuse_tables(statistics)
        self._corpus = np.asarray(statistics, np.float64)  # (2, dim + 1): statistics that fill short windows.
        self._plain_options = CmvnOptions(norm_means=self.options.norm_means, norm_vars=self.options.norm_vars)
        dim = max(self._corpus.shape[-1] - 1, 0)
        self._no_statistics, self._no_sums = np.zeros_like(self._corpus), np.zeros((2, dim))  # State before any frame.
        self._no_frames = np.zeros((0, dim), np.float32)
        self.reset()

    def reset(self) -> None:
        """Discard the statistics of the speaker. The next frames begin an utterance of a new speaker."""
        self._seen = self._no_statistics  # Statistics of all frames of the speaker so far, (2, dim + 1).
        self.end_utterance()

    def end_utterance(self) -> None:
        """End the utterance. The next frames begin a new utterance of the same speaker."""
        self._speaker = self._seen  # Statistics of the speaker's earlier utterances, (2, dim + 1).
        self._sums = self._no_sums  # Sums and sums of squares of the frames in the window, (2, dim).
        self._recent = self._no_frames  # The frames in the window, (frames, dim).

    def __call__(self, features: Floats) -> Floats:
        """Normalize the next frames of the utterance.

        Args:
            features: ``(frames, dim)``, float32.

        Returns:
            Normalized features ``(frames, dim)``.

        Raises:
            FeatureError: the statistics do not match the features, count no frames or are not finite, or a dimension to
                skip does not exist.
        """
        if len(features) == 0:
            return features
        self._check_columns(features)
        rows = np.concatenate((self._recent, features))
        result: Floats = self._normalize_block(rows, np.array([0, len(rows)]), len(self._recent), True)
        self._recent = rows[-self.options.cmn_window :]
        return result

    def utterances(self, features: Floats, bounds: Integers, *, adapts: bool) -> Floats:
        """Normalize complete utterances that follow one another in an array. The next call begins a new utterance.

        Args:
            features: ``(frames, dim)``, float32. Without frames, the call does nothing.
            bounds: ``(utterances + 1,)``: rows ``bounds[u]`` to ``bounds[u + 1] - 1`` belong to utterance ``u``.
            adapts: True for further utterances of one speaker, False for utterances of different speakers.

        Returns:
            Normalized features ``(frames, dim)``.

        Raises:
            FeatureError: see :meth:`__call__`. The utterances are then not added to the statistics of the speaker.
        """
        if len(features) == 0:
            return features
        self._check_columns(features)
        begin_utterance = self.end_utterance if adapts else self.reset
        saved_state = vars(self).copy()
        begin_utterance()
        x, rows = np.ascontiguousarray(features), np.ascontiguousarray(bounds, np.int64)
        try:
            result: Floats = self._normalize_block(x, rows, 0, adapts)
        except FeatureError:
            vars(self).update(saved_state)
            raise
        begin_utterance()
        return result

    def _check_columns(self, features: Floats) -> None:
        """Raise FeatureError unless the corpus statistics have the shape (2, dim + 1) for features (frames, dim)."""
        if self._corpus.shape != (2, features.shape[1] + 1):
            raise FeatureError(
                f"CMVN statistics of shape {self._corpus.shape} do not fit features of dimension {features.shape[1]}: "
                f"expected (2, {features.shape[1] + 1})"
            )

    def _normalize_block_in_c(self, x: Floats, bounds: Integers, start: int, adapts: bool) -> Any:
        """Normalize utterances in C: see :meth:`_normalize_block`.

        Return NotImplemented if NumPy must warn, raise an error, or return the features unchanged.
        """
        options, dim = self.options, x.shape[1]
        if not (options.norm_means and self._corpus[0, -1] > 0 and all(0 <= column < dim for column in self.skip_dims)):
            return NotImplemented
        speaker, seen, sums = self._speaker.copy(), self._seen.copy(), self._sums.copy()
        out, skipped = np.empty((len(x) - start, dim), np.float32), np.array(self.skip_dims, np.int32)
        needs_numpy = native.get_function("online_cmvn")(
            x, bounds, len(bounds) - 1, dim, start, options.cmn_window, self._corpus, options.global_frames,
            speaker if adapts else None, options.speaker_frames, seen if adapts else None, skipped, len(skipped),
            options.norm_vars, sums, np.empty_like(self._corpus), out,
        )  # fmt: skip
        if needs_numpy:  # A variance must be floored, or is not finite.
            return NotImplemented
        self._speaker, self._seen, self._sums = speaker, seen, sums
        return out

    @native.twin(_normalize_block_in_c)
    def _normalize_block(self, x: Floats, bounds: Integers, start: int, adapts: bool) -> Floats:
        """Return the normalized rows of ``x`` (rows, dim) from row ``start`` on: (rows - start, dim).

        The rows before ``start`` begin the first utterance. Earlier calls have normalized them, and they are in the
        window of row ``start``. For ``bounds`` and ``adapts``, see :meth:`utterances`.
        """
        normalized = []
        begin_utterance = self.end_utterance if adapts else self.reset
        for index, frames in enumerate(split_utterances(x, bounds)):
            if index:
                start = 0
                begin_utterance()
            if len(frames):
                normalized.append(self._normalize_utterance(frames, start))
        return np.concatenate(normalized)

    def _normalize_utterance(self, frames: Floats, start: int) -> Floats:
        """Return the normalized rows of ``frames`` (frames, dim) from row ``start`` on, (frames - start, dim).

        Update the statistics of the window and the speaker. The rows before ``start`` are in the window already. Raise
        FeatureError for invalid statistics.
        """
        features = frames[start:]
        unfilled = filled = self._compute_windows(frames, start)
        size = self.options.cmn_window
        if self._speaker[0, -1] > 0:
            filled = _fill_windows(filled, self._speaker, min(self.options.speaker_frames, self._speaker[0, -1]), size)
        filled = _fill_windows(filled, self._corpus, self.options.global_frames, size)
        filled = replace_statistics(filled, self.skip_dims)
        if self.options.norm_means:
            check_statistics(filled, features.shape[1], self._plain_options)
        self._sums, self._seen = unfilled[-1, :, :-1], self._add_frames(features)
        if not self.options.norm_means:
            return features
        if self.options.norm_vars:
            variances = compute_mean_and_variance(filled)[:, 1]
            for variance in variances[variances < VARIANCE_FLOOR].tolist():
                logger.warning("Flooring cepstral variance from %g to %g", variance, VARIANCE_FLOOR)
        matrices: Any = features[:, None]  # A matrix of one row for each frame, because each has its own statistics.
        result: Floats = apply_normalization(matrices, filled, self._plain_options)[:, 0]
        return result

    def _compute_windows(self, x: Floats, start: int) -> Doubles:
        """Return the statistics of the windows that end with row ``start`` and later rows: (rows - start, 2, dim + 1).

        The rows of ``x`` are added in Kaldi's order to the sums of the window that ends before row ``start``.
        """
        size, frames, dim = self.options.cmn_window, len(x) - start, x.shape[1]
        steps = np.zeros((frames, 2, 2, dim))  # [:, 0]: terms that enter a frame's window; [:, 1]: terms that leave it.
        steps[:, 0] = self._make_terms(x[start:])
        leaving_frames = x[: max(len(x) - size, 0)]
        steps[frames - len(leaving_frames) :, 1] = -self._make_terms(leaving_frames)
        flat_steps = np.concatenate((self._sums[None], steps.reshape(2 * frames, 2, dim)))
        statistics = np.zeros((frames, 2, dim + 1))
        statistics[..., :dim] = np.add.accumulate(flat_steps, axis=0)[2::2]
        statistics[:, 0, dim] = np.minimum(np.arange(start, len(x)) + 1, size)
        return statistics

    def _make_terms(self, features: Floats) -> Doubles:
        """Return the features and their squares (zeros without ``norm_vars``) in double precision: (frames, 2, dim)."""
        doubles = features.astype(np.float64)
        return np.stack((doubles, doubles * doubles if self.options.norm_vars else np.zeros_like(doubles)), axis=1)

    def _add_frames(self, features: Floats) -> Doubles:
        """Return the statistics of the speaker, (2, dim + 1), plus the frames of ``features``, added in order.

        Unlike in compute-cmvn-stats, the squares are not rounded to single precision.
        """
        frames, dim = features.shape
        terms = np.zeros((frames + 1, 2, dim + 1))
        terms[0] = self._seen
        terms[1:, 0, :dim] = features
        terms[1:, 1, :dim] = np.square(features, dtype=np.float64)
        terms[1:, 0, dim] = 1
        total: Doubles = np.add.accumulate(terms, axis=0)[-1]
        return total


def _fill_windows(windows: Doubles, other: Doubles, max_frames: float, size: int) -> Doubles:
    """Return the statistics of windows, with the statistics ``other`` added to windows of fewer than ``size`` frames.

    The statistics ``other`` count as the missing frames of a window, but at most as ``max_frames`` frames. Raise
    FeatureError if a window is not full, but the statistics count no frames.

    Args:
        windows: (frames, 2, dim + 1): statistics of the window of each frame.
        other: (2, dim + 1): statistics of the speaker or of a corpus.
        max_frames: largest number of frames that the statistics count as.
        size: number of frames of a full window.
    """
    counts = windows[:, 0, -1]
    indices = np.flatnonzero(counts < size)  # Indices of the windows to fill.
    if len(indices) and not other[0, -1] > 0:
        raise FeatureError("the global CMVN statistics count no frames: compute them from at least one utterance")
    added_frames = np.minimum(size - counts[indices], max_frames)
    indices, added_frames = indices[added_frames > 0], added_frames[added_frames > 0]
    result: Doubles = windows.copy()
    result[indices] = multiply_add_double((added_frames / other[0, -1])[:, None, None], other, windows[indices])
    return result
