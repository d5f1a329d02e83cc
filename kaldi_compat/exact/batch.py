"""Utterances of any lengths in one buffer, and where their frames lie."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.errors import AudioError
from kaldi_compat.exact.arrays import Integers


@dataclass(frozen=True)
class AudioBatch:
    """Audio of utterances, and where their frames lie.

    Frame ``r`` of utterance ``u`` starts at its sample ``firsts[u] + r * shift``. The audio is reflected at both ends,
    so a frame may start before the utterance does and end after it.
    """

    samples: npt.NDArray[Any]  # int16 or float32, contiguous
    starts: Integers  # index in ``samples`` of each utterance's first sample
    lengths: Integers  # number of samples of each utterance
    firsts: Integers  # first sample of each utterance's first frame, relative to its start
    rows: Integers  # (utterances + 1,): the utterances' first rows of the features, and the total number of rows
    warps: npt.NDArray[np.int32]  # index in ``warp_factors`` of each utterance's VTLN factor
    warp_factors: tuple[float, ...]
    seeds: npt.NDArray[np.int32] | None = None  # ``rand_r()`` states for dithering, one for each row

    def with_seeds(self, seeds: npt.NDArray[np.int32]) -> AudioBatch:
        """Return the batch with other states of the noise.

        Raises:
            AudioError: the states are fewer than the frames.
        """
        if len(seeds) < self.rows[-1]:
            raise AudioError(f"{len(seeds)} seeds for {self.rows[-1]} frames: pass one for each frame")
        return replace(self, seeds=seeds)
