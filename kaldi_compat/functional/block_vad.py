"""Voice activity of blocks of features."""

from __future__ import annotations

import numpy as np

from kaldi_compat import native
from kaldi_compat.exact.arrays import Floats, Integers
from kaldi_compat.functional.blocks import make_c_arguments, split_utterances
from kaldi_compat.functional.vad import compute_vad
from kaldi_compat.options.postprocessing import VadOptions


def _detect_voiced_in_c(x: Floats, bounds: Integers, options: VadOptions) -> tuple[Floats, Integers]:
    """Detect voiced frames in C: see :func:`detect_voiced`. Raise ValueError for invalid bounds."""
    out, counts = np.empty(len(x), np.float32), np.empty(len(bounds) - 1, np.int64)
    threshold_options = options.vad_energy_threshold, options.vad_energy_mean_scale
    vote_options = options.vad_frames_context, options.vad_proportion_threshold
    native.get_function("ragged_vad")(*make_c_arguments(x, bounds), *threshold_options, *vote_options, out, counts)
    return out, counts


@native.twin(_detect_voiced_in_c)
def detect_voiced(x: Floats, bounds: Integers, options: VadOptions) -> tuple[Floats, Integers]:
    """Detect voiced frames by the log energies in the first column.

    Args:
        x, bounds: frames (frames, dim) of all utterances, and their boundaries (utterances + 1,).
        options: threshold and context, as for :func:`~kaldi_compat.functional.vad.compute_vad`.

    Returns:
        1 or 0 for each frame, float32 (frames,); and the number of voiced frames of each utterance, (utterances,).
    """
    decisions = [compute_vad(frames, options) for frames in split_utterances(x, bounds)]
    return np.concatenate(decisions), np.array([int(voiced.sum(dtype=int)) for voiced in decisions])
