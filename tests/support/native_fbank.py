"""Features by kaldi-native-fbank, which wraps Kaldi's own code, for our options."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

SHORT_NAMES = {
    "sample_frequency": "samp_freq",
    "frame_length": "frame_length_ms",
    "frame_shift": "frame_shift_ms",
    "preemphasis_coefficient": "preemph_coeff",
    "num_mel_bins": "num_bins",
}


def by_native_fbank(samples: np.ndarray[Any, Any], options: Any) -> np.ndarray[Any, Any]:
    """Compute log-mel features or MFCCs of audio (T,) with the options that the library has."""
    library = pytest.importorskip("kaldi_native_fbank")
    kind = type(options).__name__.removesuffix("Options")
    theirs = getattr(library, f"{kind}Options")()
    for field in dataclasses.fields(options):
        name, value = SHORT_NAMES.get(field.name, field.name), getattr(options, field.name)
        for group in (theirs.frame_opts, theirs.mel_opts, theirs):
            if hasattr(group, name):
                setattr(group, name, value)
    online = getattr(library, f"Online{kind}")(theirs)
    online.accept_waveform(options.sample_frequency, samples.tolist())
    online.input_finished()
    return np.array([online.get_frame(i) for i in range(online.num_frames_ready)])
