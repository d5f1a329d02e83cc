"""kaldifeat's fbank by kaldi_native_fbank of the same author, as kaldifeat has to be compiled for each torch."""

from __future__ import annotations

import types
from typing import Any

import kaldi_native_fbank as knf
import numpy as np
import torch


def FbankOptions() -> Any:
    opts = knf.FbankOptions()
    return types.SimpleNamespace(frame_opts=opts.frame_opts, mel_opts=opts.mel_opts, device=None, opts=opts)


class Fbank:
    def __init__(self, opts: Any) -> None:
        self.opts = opts.opts

    def __call__(self, waves: list[torch.Tensor]) -> list[torch.Tensor]:
        return [self._one(wave) for wave in waves]

    def _one(self, wave: torch.Tensor) -> torch.Tensor:
        online = knf.OnlineFbank(self.opts)
        online.accept_waveform(16000, wave.tolist())
        online.input_finished()
        frames = [online.get_frame(i) for i in range(online.num_frames_ready)]
        return torch.from_numpy(np.array(frames, np.float32).reshape(len(frames), online.dim))
