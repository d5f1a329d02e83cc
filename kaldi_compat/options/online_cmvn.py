"""Options of online mean and variance normalization."""

from __future__ import annotations

from dataclasses import dataclass

from kaldi_compat.options.base import BaseOptions, option, require


@dataclass(frozen=True, kw_only=True)
class OnlineCmvnOptions(BaseOptions):
    """Normalization of each frame by the frames before it (Kaldi: OnlineCmvnOptions)."""

    cmn_window: int = option(600, "length of the window in frames", gt=0)
    global_frames: int = option(200, "frames that the corpus counts as at the begin of a speaker's first utterance")
    norm_means: bool = option(True, "subtract the mean")
    norm_vars: bool = option(False, "also divide by the standard deviation")
    speaker_frames: int = option(600, "frames that earlier utterances of the speaker count as at most")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.norm_means or not self.norm_vars, "norm_vars=true needs norm_means=true")
