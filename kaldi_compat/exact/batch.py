"""A batch of utterances of different lengths in one buffer, with the positions of the frames."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.errors import AudioError
from kaldi_compat.exact.arrays import Integers


@dataclass(frozen=True)
class AudioBatch:
    """Audio of a batch of utterances, with the positions of the frames.

    Frame ``r`` of utterance ``u`` starts at sample ``firsts[u] + r * shift`` of the utterance. The audio is
    reflected at both ends, so a frame may start before the utterance and end after it.
    """

    samples: npt.NDArray[Any]  # (samples,): the audio of all utterances, int16 or float32, contiguous.
    starts: Integers  # (utterances,): index in ``samples`` of each utterance's first sample.
    lengths: Integers  # (utterances,): number of samples of each utterance.
    firsts: Integers  # (utterances,): first sample of the first frame, relative to the start of the utterance.
    rows: Integers  # (utterances + 1,): first feature row of each utterance, and the total number of rows.
    warps: npt.NDArray[np.int32]  # (utterances,): index in ``warp_factors`` of each utterance's VTLN factor.
    warp_factors: tuple[float, ...]  # The distinct VTLN factors of the batch.
    seeds: npt.NDArray[np.int32] | None = None  # (rows,): state of ``rand_r()`` for each frame's dithering.

    def with_seeds(self, seeds: npt.NDArray[np.int32]) -> AudioBatch:
        """Return a copy of the batch with ``seeds`` (rows,), the ``rand_r()`` states for the dithering of all frames.

        Raise AudioError if there are fewer seeds than frames.
        """
        if len(seeds) < self.rows[-1]:
            raise AudioError(f"expected {self.rows[-1]} seeds, one for each frame, not {len(seeds)}")
        return replace(self, seeds=seeds)
