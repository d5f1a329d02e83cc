"""Modules for the post-processing of features: deltas, shifted deltas, splicing and CMVN.

A module applies a function of :mod:`kaldi_compat.functional` with fixed options, and can be compiled and exported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kaldi_compat.errors import FeatureError, OptionError
from kaldi_compat.functional import deltas
from kaldi_compat.functional.array_api import detect_tracing, get_namespace
from kaldi_compat.functional.batches import check_features, zero_padding
from kaldi_compat.functional.checks import check_list
from kaldi_compat.functional.cmvn import (
    apply_normalization,
    apply_online_normalization,
    apply_own_cmvn,
    check_statistics,
    refuse_tables,
    replace_statistics,
    sliding_cmvn,
)
from kaldi_compat.functional.splice import splice
from kaldi_compat.options import constructors
from kaldi_compat.options.postprocessing import (
    CmvnOptions,
    DeltaOptions,
    OnlineCmvnOptions,
    ShiftedDeltaOptions,
    SlidingCmvnOptions,
    SpliceOptions,
)
from kaldi_compat.torch.calls import PostProcessingCall
from kaldi_compat.torch.features.engines import view_in_numpy
from kaldi_compat.torch.features.module import ConfiguredModule, refuse_old_compilers
from kaldi_compat.torch.streaming.postprocessing import (
    DeltaStream,
    OnlineCmvnStream,
    ShiftedDeltaStream,
    SlidingCmvnStream,
    SpliceStream,
)
from kaldi_compat.torch.streaming.stacking import FrameStream


class PostProcessing(PostProcessingCall, ConfiguredModule):
    """Base class of modules that compute new features from features, such as deltas or normalization."""

    _function: ClassVar[Callable[..., Any]]  # Function of features, options and lengths, which processes the features.
    # True for a module that sums over frames. NumPy and torch sum in different orders, so NumPy processes float32
    # tensors on a CPU, which gives tensors and arrays the same bits.
    _adds_frames: ClassVar[bool] = False

    def _make_example(self) -> Tensor:
        return torch.ones(2, 8, 3)

    def _process(self, features: Any, lengths: Any) -> Any:
        """Process a tensor or array of features ``(..., frames, dim)``.

        Subclasses without a ``_function`` override this method.

        Returns:
            Features ``(..., new_frames, new_dim)``. With lengths, also the number of frames of each row ``(B,)``, if
            this number depends on the content of the features.
        """
        return self._function(features, self.options, lengths=lengths)

    def _process_in_numpy(self, features: npt.NDArray[Any], lengths: Tensor | None) -> Any:
        """Call :meth:`_process` with arrays, and convert its results to tensors."""
        processed = self._process(features, None if lengths is None else lengths.numpy(force=True))
        return tuple(map(torch.as_tensor, processed)) if isinstance(processed, tuple) else torch.from_numpy(processed)

    def _compute_lengths(self, lengths: Tensor) -> Tensor:
        """Return the lengths ``(B,)`` of the result for lengths ``(B,)`` of the input. By default, they are equal."""
        return lengths

    @refuse_old_compilers
    def forward(self, features: Tensor | Sequence[Tensor], lengths: Tensor | Sequence[int] | None = None) -> Any:
        """Compute new features from the features of an utterance or of several utterances.

        Args:
            features: ``(frames, dim)``, ``(B, frames, dim)``, or a list of ``(frames, dim)`` of any lengths.
            lengths: number of frames of each row of ``(B, frames, dim)``, a tensor ``(B,)`` or a list. The frames after
                a row's length are ignored, and are zero in the result.

        Returns:
            Features ``(frames, new_dim)`` or ``(B, frames, new_dim)``. With ``lengths``, also the number of frames of
            each row, ``(B,)``. For a list, a list of features.

        Raises:
            FeatureError: the shape is wrong, the features are integers, or the lengths do not match.
        """
        if not isinstance(features, Tensor):
            return [self(matrix) for matrix in check_list(features, lengths, ("frames", "dim"), Tensor, FeatureError)]
        lengths, tracing = check_features(features, lengths), detect_tracing(features)
        if tracing.traced_or_differentiated:  # NaN in the padding would make the gradient NaN.
            features = zero_padding(features, lengths)
        array = view_in_numpy(features, tracing) if self._adds_frames and features.dtype == torch.float32 else None
        if array is not None:
            processed = self._process_in_numpy(array, lengths)
        else:
            processed = self._process(features, lengths)
        if lengths is None or isinstance(processed, tuple):
            return processed
        return processed, self._compute_lengths(lengths)


class _Filters(PostProcessing):
    """Base class of filters along time."""

    _make_filters: ClassVar[Callable[..., Any]]  # Function that makes filters from the options and a data type.

    def setup(self) -> None:
        """Compute the filters in single and in double precision."""
        super().setup()
        self._filters = [self._make_filters(self.options, dtype) for dtype in (np.float32, np.float64)]

    def _process(self, features: Any, lengths: Any) -> Any:
        """Process float64 features with filters in double precision, and other features in single precision."""
        filters = self._filters[features.dtype == get_namespace(features).float64]
        return self._function(features, self.options, lengths=lengths, filters=filters)


class Deltas(constructors.DeltaConstructor, _Filters):
    """Append deltas to features (:func:`~kaldi_compat.functional.deltas.add_deltas`).

    >>> import torch
    >>> from kaldi_compat import Deltas
    >>> Deltas(delta_order=1)(torch.zeros(2, 50, 13)).shape
    torch.Size([2, 50, 26])
    """

    _function = staticmethod(deltas.add_deltas)
    _make_filters = staticmethod(deltas.compute_delta_filters)
    Options = DeltaOptions
    _stream: Any = DeltaStream
    options: DeltaOptions


class ShiftedDeltas(constructors.ShiftedDeltaConstructor, _Filters):
    """Append shifted deltas to features (:func:`~kaldi_compat.functional.deltas.add_shifted_deltas`).

    >>> import torch
    >>> from kaldi_compat import ShiftedDeltas
    >>> ShiftedDeltas()(torch.zeros(50, 7)).shape
    torch.Size([50, 56])
    """

    _function = staticmethod(deltas.add_shifted_deltas)
    _make_filters = staticmethod(deltas.compute_shifted_delta_filters)
    Options = ShiftedDeltaOptions
    _stream = ShiftedDeltaStream
    options: ShiftedDeltaOptions


class Splice(constructors.SpliceConstructor, PostProcessing):
    """Concatenation of each frame with its neighbors (:func:`~kaldi_compat.functional.splice.splice`).

    >>> import torch
    >>> from kaldi_compat import Splice
    >>> Splice(left_context=1, right_context=1)(torch.zeros(50, 13)).shape
    torch.Size([50, 39])
    """

    Options = SpliceOptions
    _stream = SpliceStream
    options: SpliceOptions
    _function = staticmethod(splice)


class SlidingCmvn(constructors.SlidingCmvnConstructor, PostProcessing):
    """Mean and variance normalization over a sliding window (:func:`~kaldi_compat.functional.cmvn.sliding_cmvn`).

    >>> import torch
    >>> from kaldi_compat import SlidingCmvn
    >>> SlidingCmvn(center=True, cmn_window=300)(torch.zeros(50, 13)).shape
    torch.Size([50, 13])
    """

    Options = SlidingCmvnOptions
    _stream = SlidingCmvnStream
    options: SlidingCmvnOptions
    _function = staticmethod(sliding_cmvn)


class _WithStatistics(PostProcessing):
    """Base class of modules that normalize features by the statistics in ``statistics``, which may be None."""

    statistics: Tensor | None
    # End of the error message for statistics of a wrong shape, for example a stack of the statistics of several
    # utterances.
    _advice = ": pass the statistics of a corpus, such as the output of matrix-sum"

    def _convert_statistics(self, statistics: Any, options: CmvnOptions) -> Tensor:
        """Check statistics, and convert them to a float64 matrix (2, dim + 1), or (1, dim + 1) without variances.

        Raise FeatureError if the statistics have a wrong shape, or are invalid for ``options``.
        """
        refuse_tables(statistics)
        values = statistics.detach().cpu().numpy() if isinstance(statistics, Tensor) else statistics
        matrix = torch.from_numpy(np.array(values, np.float64))
        if matrix.ndim != 2:
            raise FeatureError(
                f"CMVN statistics must have the shape (2, dim + 1), not {tuple(matrix.shape)}{self._advice}"
            )
        check_statistics(matrix, matrix.shape[1] - 1, options)
        return matrix

    def _make_example(self) -> Tensor:
        return torch.ones(2, 8, 3 if self.statistics is None else self.statistics.shape[1] - 1)

    def _check_dimension(self, features: Tensor) -> None:
        """Raise FeatureError if the statistics do not have the dimension of features ``(..., frames, dim)``."""
        if self.statistics is not None and features.shape[-1] != self.statistics.shape[1] - 1:
            raise FeatureError(
                f"the statistics are for features of dimension {self.statistics.shape[1] - 1}, but the features have "
                f"dimension {features.shape[-1]}: pass statistics of the same features"
            )

    def _process(self, features: Tensor, lengths: Tensor | None) -> Tensor:
        """Normalize features ``(..., frames, dim)``. Raise FeatureError if the statistics have a different ``dim``."""
        self._check_dimension(features)
        return self._normalize(features, lengths)

    def _normalize(self, features: Tensor, lengths: Tensor | None) -> Tensor:
        """Normalize features ``(..., frames, dim)``, whose dimension has been checked."""
        raise NotImplementedError

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> _WithStatistics:
        """Apply ``fn``, but keep the statistics, which are large sums, in double precision."""
        statistics = self.statistics
        super()._apply(fn, recurse)
        if statistics is not None and self.statistics is not None:
            self.statistics = statistics.to(self.statistics.device)
        return self


class Cmvn(constructors.CmvnConstructor, _WithStatistics):
    """Mean and variance normalization, by the statistics of a corpus or by the statistics of each utterance.

    See :func:`~kaldi_compat.functional.cmvn.apply_cmvn`.

    Args:
        statistics: ``(2, dim + 1)``: statistics of a corpus, as written by compute-cmvn-stats. If None, each utterance
            is normalized by its own mean (and variance).
        options: the options; Kaldi's defaults if None.
        skip_dims: dimensions that are not normalized by ``statistics``.
        changes: single options by name, which replace values in ``options``.

    Raises:
        FeatureError: the statistics have a wrong shape, a frame count below 1, or with ``norm_vars`` no variances or an
            infinite number or NaN; or a dimension to skip does not exist.
        OptionError: an option is invalid, or ``reverse`` or ``skip_dims`` is set without statistics.

    >>> import torch
    >>> from kaldi_compat import Cmvn
    >>> Cmvn(norm_vars=True)(torch.tensor([[1.0], [3.0]])).tolist()
    [[-1.0], [1.0]]
    """

    Options = CmvnOptions
    options: CmvnOptions
    _advice = (
        ": to normalize each utterance by its own statistics, call Cmvn(norm_vars=True)(features, lengths); to pass "
        "statistics per utterance, call kaldi_compat.functional.cmvn.apply_cmvn"
    )

    if not TYPE_CHECKING:  # CmvnConstructor declares the constructor for type checkers.

        def __init__(self, statistics=None, options=None, *, skip_dims=(), **changes) -> None:
            super().__init__(options, **changes)
            self._set_statistics(statistics, skip_dims)

    def _set_statistics(self, statistics: Any, skip_dims: Sequence[int]) -> None:
        """Set the statistics of a corpus. With None, the module uses each utterance's statistics, and has no stream.

        Columns ``skip_dims`` are not normalized. Raise OptionError for ``skip_dims`` or ``reverse`` without statistics.
        """
        if statistics is None and (self.options.reverse or skip_dims):
            raise OptionError("reverse and skip_dims need statistics: pass the statistics of a corpus")
        matrix = None
        if statistics is not None:
            matrix = replace_statistics(self._convert_statistics(statistics, self.options), skip_dims)
        self.register_buffer("statistics", matrix, persistent=False)
        self._stream = None if matrix is None else FrameStream

    def _normalize(self, features: Tensor, lengths: Tensor | None) -> Tensor:
        if self.statistics is None:
            return apply_own_cmvn(features, self.options, lengths=lengths)
        return zero_padding(apply_normalization(features, self.statistics, self.options), lengths)


class OnlineCmvn(constructors.OnlineCmvnConstructor, _WithStatistics):
    """Mean and variance normalization of each frame over the frames up to it.

    See :func:`~kaldi_compat.functional.cmvn.online_cmvn`. Each utterance is treated as the first of its speaker;
    :class:`~kaldi_compat.OnlineCmvnStream` takes frames as they arrive, and adapts to the speaker over several
    utterances. :class:`kaldi_compat.numpy.OnlineCmvn` gives Kaldi's bits.

    Args:
        statistics: ``(2, dim + 1)``: statistics of a corpus, such as the output of ``matrix-sum scp:cmvn.scp``.
        options: the options of the window and of the normalization; Kaldi's defaults if None.
        skip_dims: dimensions to leave unchanged.
        changes: single options by name, which replace values in ``options``.

    Raises:
        FeatureError: the statistics have a wrong shape, a frame count below 1, no variances, or an infinite number or
            NaN; or a dimension to skip does not exist.
        OptionError: an option is invalid.

    >>> import torch
    >>> from kaldi_compat import OnlineCmvn
    >>> statistics = torch.tensor([[40.0, 10.0], [200.0, 0.0]])
    >>> OnlineCmvn(statistics, cmn_window=2, global_frames=1)(torch.tensor([[1.0], [3.0], [5.0]])).tolist()
    [[-1.5], [1.0], [1.0]]
    """

    Options = OnlineCmvnOptions
    _stream = OnlineCmvnStream
    options: OnlineCmvnOptions
    statistics: Tensor
    skip_dims: tuple[int, ...]

    if TYPE_CHECKING:

        def stream(self, slots: int = 1) -> OnlineCmvnStream: ...

    else:  # OnlineCmvnConstructor declares the constructor for type checkers.

        def __init__(self, statistics, options=None, *, skip_dims=(), **changes) -> None:
            super().__init__(options, **changes)
            self.skip_dims = tuple(skip_dims)
            # Short windows are filled with the mean and variance of the statistics, so the variance must exist.
            matrix = self._convert_statistics(statistics, CmvnOptions(norm_vars=True))
            replace_statistics(matrix, self.skip_dims)  # An invalid dimension is an error.
            self.register_buffer("statistics", matrix, persistent=False)

    def _normalize(self, features: Tensor, lengths: Tensor | None) -> Tensor:
        return apply_online_normalization(features, self.statistics, self.options, self.skip_dims, lengths)
