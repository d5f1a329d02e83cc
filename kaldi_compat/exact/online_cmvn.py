"""Online mean and variance normalization (Kaldi: OnlineCmvn in src/feat/online-feature.cc)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.errors import FeatureError
from kaldi_compat.exact.sliding import fused
from kaldi_compat.functional.cmvn import apply_normalization, check_stats, fake_stats
from kaldi_compat.options.online_cmvn import OnlineCmvnOptions
from kaldi_compat.options.postprocessing import CmvnOptions

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]


def normalized(
    feats: Floats,
    options: OnlineCmvnOptions,
    of_corpus: Doubles,
    of_speaker: Doubles | None = None,
    skipped: Sequence[int] = (),
) -> Floats:
    """Normalize the frames of an utterance.

    Args:
        feats: (frames, dim).
        options: the window, and what is normalized.
        of_corpus: (2, dim + 1): statistics of a corpus, for the begin of the utterance.
        of_speaker: (2, dim + 1): statistics of earlier utterances of the speaker, if any.
        skipped: dimensions to leave unchanged.

    Returns:
        (frames, dim).

    Raises:
        FeatureError: the statistics do not fit the features.
    """
    if len(feats) == 0:
        return feats
    if of_corpus.shape != (2, feats.shape[1] + 1):
        raise FeatureError(f"CMVN statistics of shape {of_corpus.shape} do not fit features of dim {feats.shape[1]}")
    window = window_stats(feats, options)
    counts = window[:, 0, -1].copy()
    if of_speaker is not None and of_speaker[0, -1] > 0:
        most = min(options.speaker_frames, of_speaker[0, -1])
        window, counts = smoothed(window, counts, of_speaker, most, options)
    window, _ = smoothed(window, counts, of_corpus, options.global_frames, options)
    window = fake_stats(window, skipped)
    if not options.norm_means:
        return feats
    plain = CmvnOptions(norm_vars=options.norm_vars)
    check_stats(window, feats.shape[1], plain)
    frames: Any = feats[:, None]
    result: Floats = apply_normalization(frames, window, plain)[:, 0]
    return result


def speaker_stats(feats: Floats, onto: Doubles | None) -> Doubles:
    """Add the frames of an utterance, one after the other, to the statistics (2, dim + 1) of earlier ones of a speaker.

    Unlike those of compute-cmvn-stats, the squares are not rounded to single precision.
    """
    frames, dim = feats.shape
    terms = np.zeros((frames + 1, 2, dim + 1))
    terms[1:, 0, :dim] = feats
    terms[1:, 1, :dim] = np.square(feats, dtype=np.float64)
    terms[1:, 0, dim] = 1
    if onto is not None:
        terms[0] = onto
    total: Doubles = np.add.accumulate(terms, axis=0)[-1]
    return total


def window_stats(feats: Floats, options: OnlineCmvnOptions) -> Doubles:
    """Return the statistics (frames, 2, dim + 1) of the window that ends at each frame, added in Kaldi's order."""
    frames, dim = feats.shape
    wide = feats.astype(np.float64)
    terms = np.stack((wide, wide * wide if options.norm_vars else np.zeros_like(wide)), axis=1)
    steps = np.zeros((frames, 2, 2, dim))  # of each frame, what enters the window, and what leaves it
    steps[:, 0] = terms
    steps[options.cmn_window :, 1] = -terms[: max(frames - options.cmn_window, 0)]
    stats = np.zeros((frames, 2, dim + 1))
    stats[..., :dim] = np.add.accumulate(steps.reshape(2 * frames, 2, dim), axis=0)[1::2]
    stats[:, 0, dim] = np.minimum(np.arange(1, frames + 1), options.cmn_window)
    return stats


def smoothed(
    window: Doubles, counts: Doubles, other: Doubles, most: float, options: OnlineCmvnOptions
) -> tuple[Doubles, Doubles]:
    """Add other statistics, scaled to count as frames that the window lacks, and at most ``most``.

    Args:
        window: (frames, 2, dim + 1).
        counts: (frames,): number of frames of each window.
        other: (2, dim + 1).
        most: frames that they count as at most.
        options: the length of a window.

    Returns:
        The sums, and their numbers of frames.

    Raises:
        FeatureError: the other statistics are of no frames.
    """
    lacking = np.flatnonzero(counts < options.cmn_window)
    if not len(lacking):
        return window, counts
    if not other[0, -1] > 0:
        raise FeatureError("the global CMVN statistics count no frames")
    added = np.minimum(options.cmn_window - counts[lacking], most)
    lacking, added = lacking[added > 0], added[added > 0]
    result = window.copy()
    result[lacking] = fused((added / other[0, -1])[:, None, None], other, window[lacking])
    return result, result[:, 0, -1].copy()
