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

    def __call__(self, waves: Any) -> Any:
        return self._one(waves) if isinstance(waves, torch.Tensor) else [self._one(wave) for wave in waves]

    def _one(self, wave: torch.Tensor) -> torch.Tensor:
        online = knf.OnlineFbank(self.opts)
        online.accept_waveform(16000, wave.tolist())
        online.input_finished()
        frames = [online.get_frame(i) for i in range(online.num_frames_ready)]
        return torch.from_numpy(np.array(frames, np.float32).reshape(len(frames), online.dim))


class OnlineFbank:
    def __init__(self, opts: Any) -> None:
        self.online = knf.OnlineFbank(opts.opts)

    def accept_waveform(self, sampling_rate: float, waveform: torch.Tensor) -> None:
        self.online.accept_waveform(sampling_rate, waveform.tolist())

    @property
    def num_frames_ready(self) -> int:
        return int(self.online.num_frames_ready)

    def get_frame(self, frame: int) -> torch.Tensor:
        return torch.from_numpy(np.array(self.online.get_frame(frame), np.float32))[None]


OnlineFeature = OnlineFbank
