"""The features that each property is verified on, and inputs for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import kaldi_compat.torch.features.model_input as model_input
import kaldi_compat.torch.features.postprocessing as post
from kaldi_compat.torch.features.fbank import Fbank
from kaldi_compat.torch.features.mfcc import Mfcc
from kaldi_compat.torch.features.pitch import Pitch, ProcessPitch
from kaldi_compat.torch.features.plp import Plp
from kaldi_compat.torch.features.spectrogram import Spectrogram

DIM = 5


@dataclass(frozen=True)
class Case:
    """A feature or a step after features, which the property tests run on.

    Attributes:
        name: name of the class.
        make: creates a module.
        small: creates a module with few computations, for numerical gradients.
        of_features: True if the module takes features (frames, dim) instead of audio.
        shaped: converts normal noise to a valid input of the module.
        stack: the number of frames must be a multiple of this number, because lengths count complete stacks only.
    """

    name: str
    make: Callable[[], nn.Module]
    small: Callable[[], nn.Module]
    of_features: bool = False
    shaped: Callable[[Tensor], Tensor] = lambda noise: 1000 * noise
    stack: int = 1

    def input(self, length: int, batch: int | None = None, seed: int = 0) -> Tensor:
        """Return audio with ``length`` samples, or features with the same number of frames as such audio."""
        shape = (self.length(length), DIM) if self.of_features else (length,)
        random = torch.Generator().manual_seed(seed)
        return self.shaped(torch.randn(shape if batch is None else (batch, *shape), generator=random))

    def length(self, samples: int) -> int:
        """Return the length of the time axis of an input of this many samples."""
        return samples // 160 // self.stack * self.stack if self.of_features else samples


_TINY: dict[str, Any] = {"sample_frequency": 8000.0, "frame_length": 4.0, "frame_shift": 2.0, "dither": 0.0}
_TINY_MEL: dict[str, Any] = {**_TINY, "low_freq": 100.0, "num_mel_bins": 4}

SPECTRAL = [
    Case("Fbank", lambda: Fbank(dither=0.0, use_energy=True), lambda: Fbank(**_TINY_MEL)),
    Case("Mfcc", lambda: Mfcc(dither=0.0), lambda: Mfcc(**_TINY_MEL, num_ceps=4)),
    Case("Plp", lambda: Plp(dither=0.0, lpc_order=8, num_ceps=9), lambda: Plp(**_TINY_MEL, num_ceps=3, lpc_order=3)),
    Case("Spectrogram", lambda: Spectrogram(dither=0.0), lambda: Spectrogram(**_TINY)),
]


def _post(kind: Callable[..., nn.Module], stack: int = 1, **options: Any) -> Case:
    def make() -> nn.Module:
        return kind(**options)

    return Case(kind.__name__, make, make, of_features=True, stack=stack)  # type: ignore[attr-defined]


_SUMS, _SQUARES = 100.0 * np.arange(DIM), 1e6 * np.arange(2, DIM + 2)
_STATS = np.stack((np.append(50 * _SUMS, 50), np.append(50 * _SQUARES, 0)))  # Statistics of a corpus of 50 frames.

POST = [
    _post(post.Deltas),
    _post(post.ShiftedDeltas),
    _post(post.Splice),
    _post(post.Cmvn, norm_vars=True),
    _post(post.SlidingCmvn, cmn_window=20, center=True, norm_vars=True),
    _post(post.OnlineCmvn, statistics=_STATS, cmn_window=20, global_frames=5, norm_vars=True),
]

STEPS = [
    _post(model_input.LowFrameRate),
    _post(model_input.StackFrames, stack=2, size=2),
    _post(model_input.PadFrames, multiple=8),
    _post(model_input.UtteranceCmvn, norm_vars=True),
    _post(model_input.CenteredMean, context=3),
    _post(model_input.GlobalCmvn, statistics=(100.0 * np.arange(DIM), np.linspace(500, 900, DIM))),
    _post(model_input.Floor, minimum=-300.0),
    _post(model_input.RepeatedDeltas),
]


def _voiced(noise: Tensor) -> Tensor:
    """Return audio with a clear pitch."""
    return 5000 * torch.sin(torch.arange(noise.shape[-1]) * (2 * torch.pi * 180 / 16000)) + 100 * noise


def _track(noise: Tensor) -> Tensor:
    """Return a track of correlations and pitches."""
    return torch.stack((0.9 * noise[..., 0].sigmoid(), 100 + 50 * noise[..., 1].sigmoid()), -1)


class Correlation(Pitch):
    """The part of the pitch tracker's result that is differentiable."""

    def forward(self, samples: Any, lengths: Any = None) -> Any:
        """The first column."""
        return super().forward(samples, lengths)[..., :1]


def _process() -> ProcessPitch:
    return ProcessPitch(delta_pitch_noise_stddev=0.0)


FEW_LAGS = {"min_f0": 100.0, "max_f0": 250.0, "delta_pitch": 0.02}
PITCH = [
    # Few lags and states: a model has some operations for each lag, which take long to compile.
    Case("Pitch", partial(Pitch, **FEW_LAGS), partial(Correlation, **FEW_LAGS), shaped=_voiced),
    Case("ProcessPitch", _process, _process, of_features=True, shaped=_track),
]
ALL = SPECTRAL + PITCH + POST + STEPS


# Features whose graphs take long to make, or consist of operations that those of other features have, too.
LONG_GRAPHS = ("Pitch", "Plp", "Mfcc", "ShiftedDeltas", "RepeatedDeltas", "Cmvn", "CenteredMean")


def cases(
    property_name: str,
    *,
    but: dict[str, str] | None = None,
    of: list[Case] | None = None,
    group: str = "",
    slow: tuple[str, ...] = (),
) -> Callable[[Any], Any]:
    """Run a test on every feature, each a cell of the table; ``but`` names those expected to fail, and why.

    Tests of one group and feature run in one process of pytest-xdist, so that they can share what is slow to make.
    Those of the features in ``slow`` are marked as slow.
    """
    but = but or {}

    def marks(case: Case) -> list[pytest.MarkDecorator]:
        fails = [pytest.mark.xfail(strict=True, reason=but[case.name])] if case.name in but else []
        return (
            fails
            + [pytest.mark.slow] * (case.name in slow)
            + ([pytest.mark.xdist_group(f"{group} {case.name}")] if group else [])
        )

    parameters = [pytest.param(case, id=case.name, marks=marks(case)) for case in (ALL if of is None else of)]

    def decorate(test: Any) -> Any:
        return pytest.mark.supported(property_name)(pytest.mark.parametrize("case", parameters)(test))

    return decorate
