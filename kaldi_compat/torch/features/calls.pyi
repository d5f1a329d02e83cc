# Written by `make generate`: do not edit.
from collections.abc import Sequence
from typing import overload

from torch import Tensor

from kaldi_compat.pitch.process import Generator as PitchGenerator
from kaldi_compat.torch.tensors.dither import Generator

Warp = float | Sequence[float] | Tensor

class SpectralCall:
    @overload
    def __call__(self, samples: Tensor, lengths: None = None, *, vtln_warp: Warp = 1.0, generator: Generator = None) -> Tensor: ...
    @overload
    def __call__(self, samples: Tensor, lengths: Tensor | Sequence[int], *, vtln_warp: Warp = 1.0, generator: Generator = None) -> tuple[Tensor, Tensor]: ...
    @overload
    def __call__(self, samples: Sequence[Tensor], lengths: None = None, *, vtln_warp: Warp = 1.0, generator: Generator = None) -> list[Tensor]: ...

class PitchCall:
    @overload
    def __call__(self, samples: Tensor, lengths: None = None) -> Tensor: ...
    @overload
    def __call__(self, samples: Tensor, lengths: Tensor | Sequence[int]) -> tuple[Tensor, Tensor]: ...
    @overload
    def __call__(self, samples: Sequence[Tensor], lengths: None = None) -> list[Tensor]: ...

class ProcessPitchCall:
    @overload
    def __call__(self, features: Tensor, lengths: None = None, *, generator: PitchGenerator | None = None) -> Tensor: ...
    @overload
    def __call__(self, features: Tensor, lengths: Tensor | Sequence[int], *, generator: PitchGenerator | None = None) -> tuple[Tensor, Tensor]: ...
    @overload
    def __call__(self, features: Sequence[Tensor], lengths: None = None, *, generator: PitchGenerator | None = None) -> list[Tensor]: ...

class PostProcessingCall:
    @overload
    def __call__(self, features: Tensor, lengths: None = None) -> Tensor: ...
    @overload
    def __call__(self, features: Tensor, lengths: Tensor | Sequence[int]) -> tuple[Tensor, Tensor]: ...
    @overload
    def __call__(self, features: Sequence[Tensor], lengths: None = None) -> list[Tensor]: ...
