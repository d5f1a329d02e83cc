"""Online mean and variance normalization (Kaldi: OnlineCmvn in src/feat/online-feature.cc)."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.errors import FeatureError
from kaldi_compat.exact.sliding import fused
from kaldi_compat.functional.cmvn import (
    VARIANCE_FLOOR,
    apply_normalization,
    check_stats,
    fake_stats,
    mean_and_variance,
)
from kaldi_compat.options.online_cmvn import OnlineCmvnOptions
from kaldi_compat.options.postprocessing import CmvnOptions

logger = logging.getLogger("kaldi_compat")

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]


class OnlineCmvn:
    """Normalize frames as they arrive, by the frames before them, as Kaldi's apply-cmvn-online does, bit for bit.

    A call takes the next frames of an utterance, any number of them, and returns them normalized: no frame waits for
    later ones. At the begin of an utterance, the window is not full: earlier utterances of the speaker, and a corpus,
    make up for what it lacks. :meth:`end_utterance` begins another utterance of the same speaker, and :meth:`reset` one
    of another speaker.

    Args:
        stats: ``(2, dim + 1)``: statistics of a corpus, such as those that ``matrix-sum scp:cmvn.scp`` adds up.
        options: the window, and what is normalized; Kaldi's defaults if None.
        skip_dims: dimensions to leave unchanged.
        changes: single options by name, which replace those in ``options``.

    Raises:
        OptionError: the options are invalid.

    >>> from kaldi_compat.functional.cmvn import cmvn_stats
    >>> frames = np.array([[1.0], [3.0], [5.0], [7.0]], np.float32)
    >>> online = OnlineCmvn(cmvn_stats(frames), cmn_window=2, global_frames=1)
    >>> online(frames[:1]).tolist(), online(frames[1:]).tolist()
    ([[-1.5]], [[1.0], [1.0], [1.0]])
    """

    def __init__(
        self,
        stats: npt.ArrayLike,
        options: OnlineCmvnOptions | None = None,
        *,
        skip_dims: Sequence[int] = (),
        **changes: Any,
    ) -> None:
        self.options = dataclasses.replace(options or OnlineCmvnOptions(), **changes)
        self.skip_dims = tuple(skip_dims)
        self._corpus = np.asarray(stats, np.float64)
        self._plain = CmvnOptions(norm_means=self.options.norm_means, norm_vars=self.options.norm_vars)
        self.reset()

    def reset(self) -> None:
        """Begin an utterance of another speaker."""
        self._speaker: Doubles | None = None  # statistics of earlier utterances
        self._begin()

    def end_utterance(self) -> None:
        """Begin another utterance of the same speaker."""
        if self._count:
            self._speaker = self._with_utterance
        self._begin()

    def _begin(self) -> None:
        self._count = 0  # frames of this utterance so far
        self._sums = np.zeros((2, max(self._corpus.shape[-1] - 1, 0)))  # over the window
        self._recent = np.zeros((0, self._sums.shape[1]), np.float32)  # the frames in the window
        self._with_utterance = np.zeros_like(self._corpus) if self._speaker is None else self._speaker

    def __call__(self, features: Floats) -> Floats:
        """Normalize the next frames of the utterance.

        Args:
            features: ``(frames, dim)``, float32.

        Returns:
            ``(frames, dim)``.

        Raises:
            FeatureError: the statistics do not fit the features.
        """
        if len(features) == 0:
            return features
        dim = features.shape[1]
        if self._corpus.shape != (2, dim + 1):
            raise FeatureError(f"CMVN statistics of shape {self._corpus.shape} do not fit features of dimension {dim}")
        window = self._windows(features)
        if self._speaker is not None:
            most = min(self.options.speaker_frames, self._speaker[0, -1])
            window = _filled(window, self._speaker, most, self.options.cmn_window)
        window = _filled(window, self._corpus, self.options.global_frames, self.options.cmn_window)
        self._count_frames(features)
        if not self.options.norm_means:
            return features
        window = fake_stats(window, self.skip_dims)
        check_stats(window, dim, self._plain)
        if self.options.norm_vars:
            variances = mean_and_variance(window)[:, 1]
            for floored in variances[variances < VARIANCE_FLOOR].tolist():
                logger.warning("Flooring cepstral variance from %g to %g", floored, VARIANCE_FLOOR)
        frames: Any = features[:, None]
        result: Floats = apply_normalization(frames, window, self._plain)[:, 0]
        return result

    def _windows(self, features: Floats) -> Doubles:
        """Return the statistics (frames, 2, dim + 1) of the window that ends at each frame, added in Kaldi's order."""
        size, (frames, dim) = self.options.cmn_window, features.shape
        known = np.concatenate((self._recent, features))
        steps = np.zeros((frames, 2, 2, dim))  # of each frame, what enters the window, and what leaves it
        steps[:, 0] = self._terms(features)
        leaving = known[: max(len(known) - size, 0)]
        steps[frames - len(leaving) :, 1] = -self._terms(leaving)
        flat = np.concatenate((self._sums[None], steps.reshape(2 * frames, 2, dim)))
        stats = np.zeros((frames, 2, dim + 1))
        stats[..., :dim] = np.add.accumulate(flat, axis=0)[2::2]
        stats[:, 0, dim] = np.minimum(np.arange(self._count + 1, self._count + frames + 1), size)
        self._sums, self._recent = stats[-1, :, :dim], known[-size:]
        return stats

    def _terms(self, features: Floats) -> Doubles:
        wide = features.astype(np.float64)
        return np.stack((wide, wide * wide if self.options.norm_vars else np.zeros_like(wide)), axis=1)

    def _count_frames(self, features: Floats) -> None:
        """Add frames, one after the other, to the statistics of the speaker.

        Unlike those of compute-cmvn-stats, the squares are not rounded to single precision.
        """
        frames, dim = features.shape
        terms = np.zeros((frames + 1, 2, dim + 1))
        terms[0] = self._with_utterance
        terms[1:, 0, :dim] = features
        terms[1:, 1, :dim] = np.square(features, dtype=np.float64)
        terms[1:, 0, dim] = 1
        self._with_utterance = np.add.accumulate(terms, axis=0)[-1]
        self._count += frames


def _filled(window: Doubles, other: Doubles, most: float, size: int) -> Doubles:
    """Add other statistics, scaled to count as the frames that a window lacks, and as ``most`` frames at most.

    Args:
        window: (frames, 2, dim + 1).
        other: (2, dim + 1).
        most: frames that they count as at most.
        size: frames of a full window.

    Raises:
        FeatureError: the other statistics are of no frames.
    """
    counts = window[:, 0, -1]
    lacking = np.flatnonzero(counts < size)
    if len(lacking) and not other[0, -1] > 0:
        raise FeatureError("the global CMVN statistics count no frames")
    added = np.minimum(size - counts[lacking], most)
    lacking, added = lacking[added > 0], added[added > 0]
    result: Doubles = window.copy()
    result[lacking] = fused((added / other[0, -1])[:, None, None], other, window[lacking])
    return result
