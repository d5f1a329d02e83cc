"""Code of a user of the stand-ins. Lines that end in "# error" are wrong; a type checker accepts all others."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from typing_extensions import assert_type

import kaldi_standins.kaldi_native_fbank as knf
import kaldi_standins.kaldifeat as kaldifeat
import kaldi_standins.torchaudio as torchaudio
from kaldi_standins.kaldi import BaseFloatMatrixWriter, SequentialBaseFloatMatrixReader, SequentialTokenReader

samples = torch.zeros(2, 16000)

# Options and features of the original libraries.
theirs = kaldifeat.FbankOptions(use_energy=True)
theirs.frame_opts.samp_freq = 8000.0
theirs.mel_opts.num_bins = 80
theirs.mel_opts.num_mel_bins = 80  # error
theirs.frame_opts.samp_freq = "8k"  # error
kaldifeat.FrameExtractionOptions(sample_rate=8000.0)  # error
theirs_frames: Tensor = kaldifeat.Fbank(theirs)(samples[0])
theirs_bins: int = kaldifeat.Fbank(theirs).opts.mel_opts.num_bins
native = knf.FbankOptions(use_energy=True)
native.mel_opts.num_bins = 80
native.mel_opts.num_mel_bins = 80  # error
native_frame: npt.NDArray[np.float32] = knf.OnlineFbank(native).get_frame(0)
torchaudio.fbank(samples, num_mel_bins=80)
torchaudio.fbank(samples, n_mels=80)  # error

# Names of Kaldi's classes.
with SequentialBaseFloatMatrixReader("scp:feats.scp") as matrices, BaseFloatMatrixWriter("ark:-") as out:
    for key, features in matrices:
        assert_type(features, npt.NDArray[np.float32])
        out[key] = features
for _, token in SequentialTokenReader("ark:utt2spk"):
    assert_type(token, str)
