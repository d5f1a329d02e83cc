"""compute-spectrogram-feats: log power spectra of audio."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kaldi_compat.options import SpectrogramOptions
from kaldi_compat.programs.compute import HTK_FBANK, ApplicationOptions, compute_features, feature_options, htk_kind
from kaldi_compat.programs.program import program

USAGE = """
Computes log power spectra of audio.

Usage: compute-spectrogram-feats [options] <wav-rspecifier> <feats-wspecifier>
e.g.:  compute-spectrogram-feats --config=conf/spectrogram.conf scp:wav.scp ark,scp:feats.ark,feats.scp
"""


@dataclass(frozen=True, kw_only=True)
class Options(ApplicationOptions, SpectrogramOptions):
    """Options of compute-spectrogram-feats."""


@program("compute-spectrogram-feats", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Compute a table of features."""
    from kaldi_compat.spectrogram import Spectrogram

    module = Spectrogram(feature_options(SpectrogramOptions, options))
    code = htk_kind(HTK_FBANK, use_energy=False)
    htk_shift = int(np.float32(options.frame_shift) * np.float32(10_000))
    return compute_features(module, options, source, target, htk_code=code, htk_frame_shift=htk_shift)
