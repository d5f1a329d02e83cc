"""What all our modules share: the dataclass of options that each is made from."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from kaldi_compat.errors import FeatureError, KaldiCompatError, OptionError


def checked_list(
    items: Any, lengths: Any, axes: tuple[str, ...], error: type[KaldiCompatError] = FeatureError
) -> list[Tensor]:
    """What a module is called with if it is no tensor: a list of utterances, with these axes.

    Raises:
        error: it is no list of such tensors, or lengths are given for it.
    """
    shape = f"({', '.join(axes)}{',' * (len(axes) == 1)})"
    utterances = list(items) if isinstance(items, Iterable) else [items]
    if not all(isinstance(item, Tensor) and item.dim() == len(axes) for item in utterances):
        raise error(
            f"expected a tensor, or a list of tensors {shape}, one for each utterance (torch.from_numpy makes them)"
        )
    if lengths is not None:
        raise error("lengths go with a padded batch: the tensors of a list have their own")
    return utterances


class OptionedModule(nn.Module):
    """Base of the modules that are made from Kaldi's options. Use a subclass, which names its dataclass ``Options``.

    Args:
        options: the options; Kaldi's defaults where none are given.
        changes: single options by name, which replace those in ``options``.

    Raises:
        OptionError: where Kaldi's program would refuse the options.
    """

    Options: ClassVar[type[Any]]
    options: Any

    def __init__(self, options: Any = None, **changes: Any) -> None:
        super().__init__()
        if options is not None and not isinstance(options, self.Options):
            raise OptionError(f"{type(self).__name__} takes {self.Options.__name__}, not {type(options).__name__}")
        self.options = dataclasses.replace(options or self.Options(), **changes)

    def constant(self, name: str, value: Tensor) -> None:
        """Hold a tensor that follows the module to its device but is no part of its state."""
        self.register_buffer(name, value, persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> OptionedModule:
        # A model that is moved to half precision keeps its features in single precision.
        before = dict(self.named_buffers(recurse=False))
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, value in before.items():
            moved = getattr(self, name)
            if moved.dtype in (torch.float16, torch.bfloat16):
                setattr(self, name, value.to(moved.device))
        return self

    def extra_repr(self) -> str:
        """The options that differ from Kaldi's defaults."""
        values = ((f.name, getattr(self.options, f.name), f.default) for f in dataclasses.fields(self.options))
        return ", ".join(f"{name}={value!r}" for name, value, default in values if value != default)
