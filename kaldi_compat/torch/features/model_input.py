"""Modules for the steps from log-mel features to the input of a model: stacking, normalization and padding.

A module applies a function of :mod:`kaldi_compat.functional` with fixed options. For the arguments of a call, see
:meth:`~kaldi_compat.torch.features.postprocessing.PostProcessing.forward`. Modules that stack or pad frames change
the lengths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from kaldi_compat.errors import OptionError
from kaldi_compat.frontends.statistics import Statistics
from kaldi_compat.functional import deltas, normalization, stacking, vad
from kaldi_compat.options import constructors
from kaldi_compat.options.frontend import (
    CenteredMeanOptions,
    FloorOptions,
    GlobalCmvnOptions,
    LowFrameRateOptions,
    PadFramesOptions,
    StackFramesOptions,
    UtteranceCmvnOptions,
    VoicedCmvnOptions,
)
from kaldi_compat.torch.features.postprocessing import Deltas, PostProcessing
from kaldi_compat.torch.streaming.stacking import FrameStream, LowFrameRateStream, StackFramesStream


class LowFrameRate(constructors.LowFrameRateConstructor, PostProcessing):
    """Concatenation of neighboring frames at a lower frame rate.

    See :func:`~kaldi_compat.functional.stacking.low_frame_rate`.

    >>> import torch
    >>> from kaldi_compat import LowFrameRate
    >>> features, lengths = LowFrameRate(stack=7, stride=6)(torch.zeros(2, 98, 80), [98, 60])
    >>> features.shape, lengths
    (torch.Size([2, 17, 560]), tensor([17, 10]))
    """

    Options = LowFrameRateOptions
    _stream = LowFrameRateStream
    options: LowFrameRateOptions
    _function = staticmethod(stacking.low_frame_rate)

    def _compute_lengths(self, lengths: Tensor) -> Tensor:
        counts: Tensor = stacking.count_stacks(lengths, self.options)
        return counts


class StackFrames(constructors.StackFramesConstructor, PostProcessing):
    """Concatenation of consecutive frames (:func:`~kaldi_compat.functional.stacking.stack_frames`).

    Returned lengths count complete stacks only.

    >>> import torch
    >>> from kaldi_compat import StackFrames
    >>> StackFrames(size=2)(torch.zeros(99, 80)).shape
    torch.Size([50, 160])
    """

    Options = StackFramesOptions
    _stream = StackFramesStream
    options: StackFramesOptions
    _function = staticmethod(stacking.stack_frames)

    def _compute_lengths(self, lengths: Tensor) -> Tensor:
        return lengths // self.options.size


class PadFrames(constructors.PadFramesConstructor, PostProcessing):
    """Padding or cutting of features to a fixed number of frames.

    See :func:`~kaldi_compat.functional.stacking.pad_frames`. All frames after an utterance, including the
    padding of the batch, have the value ``value``. The returned lengths count the padding.

    >>> import torch
    >>> from kaldi_compat import PadFrames
    >>> PadFrames(length=1024)(torch.zeros(98, 128)).shape
    torch.Size([1024, 128])
    """

    Options = PadFramesOptions
    options: PadFramesOptions
    _function = staticmethod(stacking.pad_frames)

    def _compute_lengths(self, lengths: Tensor) -> Tensor:
        counts: Tensor = stacking.count_padded_frames(lengths, self.options)
        return counts


class UtteranceCmvn(constructors.UtteranceCmvnConstructor, PostProcessing):
    """Normalization of each utterance (:func:`~kaldi_compat.functional.normalization.utterance_cmvn`).

    >>> import torch
    >>> from kaldi_compat import UtteranceCmvn
    >>> UtteranceCmvn(norm_vars=True)(torch.tensor([[1.0], [3.0]])).tolist()
    [[-1.0], [1.0]]
    """

    Options = UtteranceCmvnOptions
    options: UtteranceCmvnOptions
    _function = staticmethod(normalization.utterance_cmvn)
    _adds_frames = True


class CenteredMean(constructors.CenteredMeanConstructor, PostProcessing):
    """Subtraction of a running mean (:func:`~kaldi_compat.functional.normalization.subtract_centered_mean`).

    >>> import torch
    >>> from kaldi_compat import CenteredMean
    >>> CenteredMean(context=1)(torch.tensor([[1.0], [3.0], [8.0]])).tolist()
    [[-1.0], [-1.0], [2.5]]
    """

    Options = CenteredMeanOptions
    options: CenteredMeanOptions
    _function = staticmethod(normalization.subtract_centered_mean)
    _adds_frames = True


class Floor(constructors.FloorConstructor, PostProcessing):
    """Lower limit of the features (:func:`~kaldi_compat.functional.normalization.floor_features`).

    >>> import torch
    >>> from kaldi_compat import Floor
    >>> Floor(minimum=0.0)(torch.tensor([[-1.0, 2.0]])).tolist()
    [[0.0, 2.0]]
    """

    Options = FloorOptions
    _stream = FrameStream
    options: FloorOptions
    _function = staticmethod(normalization.floor_features)


class RepeatedDeltas(Deltas):
    """Deltas of deltas, as in torchaudio (:func:`~kaldi_compat.functional.deltas.repeated_deltas`).

    >>> import torch
    >>> from kaldi_compat import RepeatedDeltas
    >>> RepeatedDeltas()(torch.zeros(98, 13)).shape
    torch.Size([98, 39])
    """

    _function = staticmethod(deltas.repeated_deltas)
    _adds_frames = True
    _stream = None  # The edge frames of each order are repeated, which needs the whole utterance.


class VoicedCmvn(constructors.VoicedCmvnConstructor, PostProcessing):
    """Sliding normalization and selection of voiced frames (:func:`~kaldi_compat.functional.vad.voiced_cmvn`).

    With lengths, the result keeps the shape of the input, and the returned lengths are the numbers of voiced frames.

    >>> import torch
    >>> from kaldi_compat import VoicedCmvn
    >>> VoicedCmvn(cmn_window=300, center=True)(torch.tensor([[20.0], [0.0], [19.0]])).tolist()
    [[7.0], [6.0]]
    """

    Options = VoicedCmvnOptions
    options: VoicedCmvnOptions
    _function = staticmethod(vad.voiced_cmvn)
    _adds_frames = True

    def __prepare_scriptable__(self) -> Any:
        raise OptionError(
            "torch.jit.script cannot compile VoicedCmvn, because the number of frames that it keeps depends on the "
            "audio: call the module outside of TorchScript"
        )


class GlobalCmvn(constructors.GlobalCmvnConstructor, PostProcessing):
    """Normalization by the means and standard deviations of a corpus, or by two numbers.

    See :func:`~kaldi_compat.functional.normalization.apply_shift_and_scale`.

    Args:
        statistics: :class:`~kaldi_compat.frontends.statistics.Statistics`, a file (Kaldi statistics, FunASR's
            ``am.mvn``, WeNet's json), or ``(mean, std)``. If None, the options ``mean`` and ``std`` are used.
        options: the options; a mean of 0 and a standard deviation of 1 if None.
        changes: single options by name, which replace values in ``options``.

    Raises:
        FeatureError: the file cannot be read, or statistics and features differ in dimension.
        OptionError: an option is invalid, or both statistics and the options ``mean`` or ``std`` are passed.

    >>> import torch
    >>> from kaldi_compat import GlobalCmvn
    >>> GlobalCmvn(([1.0, 2.0], [2.0, 4.0]))(torch.tensor([[3.0, 6.0]])).tolist()
    [[1.0, 1.0]]
    """

    Options = GlobalCmvnOptions
    _stream = FrameStream
    options: GlobalCmvnOptions
    shift: Tensor
    scale: Tensor

    if not TYPE_CHECKING:  # GlobalCmvnConstructor declares the constructor for type checkers.

        def __init__(self, statistics=None, options=None, **changes) -> None:
            super().__init__(options, **changes)
            self._set_statistics(statistics)

    def _set_statistics(self, statistics: Any) -> None:
        """Set shift and scale from ``statistics``, or from the options if None. Raise OptionError if both are set."""
        if statistics is None:
            statistics = Statistics.of_numbers(self.options)
        elif self.options != GlobalCmvnOptions():
            raise OptionError("statistics cannot be combined with mean and std: pass one or the other")
        else:
            statistics = Statistics.of(statistics)
        self._register_constant("shift", torch.from_numpy(statistics.shift))
        self._register_constant("scale", torch.from_numpy(statistics.scale))

    def _make_example(self) -> Tensor:
        return torch.ones(2, 8, self.shift.numel() if self.shift.ndim else 3)

    def _process(self, features: Tensor, lengths: Tensor | None) -> Tensor:
        return normalization.apply_shift_and_scale(features, self.shift, self.scale, lengths=lengths)
