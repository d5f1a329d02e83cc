"""Front ends of published models: from audio to a model's input, as the model's own project computes it.

A preset is data: the feature and its options, the scale of the samples, and the steps that follow. Two classes compute
it, with the same call: :class:`Frontend`, a torch module, and :class:`kaldi_compat.frontends.numpy.Frontend`, which
takes NumPy arrays and does not need torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaldi_compat.frontends.preset import Preset, Source, preset_names
from kaldi_compat.frontends.steps import Step

if TYPE_CHECKING:
    from kaldi_compat.frontends.module import Frontend as Frontend
    from kaldi_compat.frontends.module import FrontendStream as FrontendStream

__all__ = ["Frontend", "FrontendStream", "Preset", "Source", "Step", "preset_names"]


def __getattr__(name: str) -> object:
    if name not in ("Frontend", "FrontendStream"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from kaldi_compat.frontends import module
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        from io_ark.extras import missing

        raise ModuleNotFoundError(
            f"{missing('torch', f'kaldi_compat.frontends.{name}')}, or use kaldi_compat.frontends.numpy.Frontend, "
            "which takes NumPy arrays",
            name="torch",
        ) from None
    return getattr(module, name)
