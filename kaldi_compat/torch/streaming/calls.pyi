# Written by `make generate`: do not edit.
from collections.abc import Sequence
from typing import Any, overload

from torch import Tensor

from kaldi_compat.pitch.process import Generator as PitchGenerator
from kaldi_compat.torch.tensors.dither import Generator

Warp = float | Sequence[float] | Tensor

class StreamCall:
    @overload
    def __call__(self, chunk: Tensor, lengths: None = None, *, final: bool | Tensor | Sequence[bool] = False) -> Tensor: ...
    @overload
    def __call__(self, chunk: Tensor, lengths: Tensor | Sequence[int], *, final: bool | Tensor | Sequence[bool] = False) -> tuple[Tensor, Tensor]: ...

class FeatureStreamCall(StreamCall):
    @overload
    def __call__(self, chunk: Tensor, lengths: None = None, *, final: bool | Tensor | Sequence[bool] = False, vtln_warp: Warp = 1.0, generator: Generator = None) -> Tensor: ...
    @overload
    def __call__(self, chunk: Tensor, lengths: Tensor | Sequence[int], *, final: bool | Tensor | Sequence[bool] = False, vtln_warp: Warp = 1.0, generator: Generator = None) -> tuple[Tensor, Tensor]: ...

class ProcessPitchStreamCall(StreamCall):
    @overload
    def __call__(self, chunk: Tensor, lengths: None = None, *, final: bool | Tensor | Sequence[bool] = False, generator: PitchGenerator | None = None) -> Tensor: ...
    @overload
    def __call__(self, chunk: Tensor, lengths: Tensor | Sequence[int], *, final: bool | Tensor | Sequence[bool] = False, generator: PitchGenerator | None = None) -> tuple[Tensor, Tensor]: ...

class ChainCall:
    @overload
    def __call__(self, chunk: Tensor, lengths: None = None, *, final: bool | Tensor | Sequence[bool] = False, **parameters: Any) -> Tensor: ...
    @overload
    def __call__(self, chunk: Tensor, lengths: Tensor | Sequence[int], *, final: bool | Tensor | Sequence[bool] = False, **parameters: Any) -> tuple[Tensor, Tensor]: ...
