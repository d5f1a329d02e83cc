"""What all our modules share: the dataclass of options that each is made from."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from torch import nn

from kaldi_compat.errors import OptionError


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

    def extra_repr(self) -> str:
        """The options that differ from Kaldi's defaults."""
        values = ((f.name, getattr(self.options, f.name), f.default) for f in dataclasses.fields(self.options))
        return ", ".join(f"{name}={value!r}" for name, value, default in values if value != default)
