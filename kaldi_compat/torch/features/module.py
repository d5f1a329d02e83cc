"""Base class of modules configured by an options dataclass."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from kaldi_compat.errors import FeatureError, OptionError
from kaldi_compat.options.base import ConstructorSignature, OptionsDocumentation, format_changes, make_options
from kaldi_compat.torch.features.script import make_scriptable

try:
    torch.from_numpy(np.zeros(1))
except RuntimeError as error:  # PyTorch before 2.3 is compiled for NumPy 1.
    raise ImportError(
        f"PyTorch {torch.__version__} cannot use NumPy {np.__version__} ({error}): "
        "install PyTorch 2.3 or later, or numpy<2"
    ) from None

Function = TypeVar("Function", bound=Callable[..., Any])


IS_OLD = not hasattr(torch.compiler, "is_compiling")  # PyTorch before 2.3 cannot compile the modules.
OLD_VERSION = f"torch.compile and export need PyTorch 2.7 or later, but {torch.__version__} is installed"


def refuse_old_compilers(forward: Function) -> Function:
    """Decorate ``forward`` of a module, so that ``torch.compile`` does not compile it before PyTorch 2.3.

    Versions before 2.3 run ``forward`` uncompiled, or raise a one-line error with ``fullgraph=True``.
    """
    if not IS_OLD:
        return forward

    def raise_unsupported(_: Any) -> None:
        raise torch._dynamo.exc.Unsupported(OLD_VERSION)

    @functools.wraps(forward)
    def run_uncompiled(*arguments: Any, **options: Any) -> Any:
        """Run ``forward`` uncompiled. While the compiler records this call, raise Unsupported in the compiler."""
        if torch._utils.is_compiling():
            torch._dynamo.comptime.comptime(raise_unsupported)
        # While torch.jit.trace records, no function of torch._dynamo may be called, because the tracer refuses it.
        if "torch._dynamo" in sys.modules and not torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
            return torch.compiler.disable(forward)(*arguments, **options)  # type: ignore[no-untyped-call]
        return forward(*arguments, **options)

    return run_uncompiled  # type: ignore[return-value]


class FeatureModule(nn.Module):
    """Base class of all modules of this package. It refuses ONNX export by tracing with a one-line error."""

    def _slow_forward(self, *arguments: Any, **keywords: Any) -> Any:
        """Run :meth:`forward` while it is traced. Raise :class:`FeatureError` if the tracer exports to ONNX."""
        if torch.onnx.is_in_onnx_export():
            advice = (
                f"PyTorch {torch.__version__} exports by tracing: pass dynamo=True, which needs PyTorch 2.6 or later"
            )
            raise FeatureError(OLD_VERSION if IS_OLD else advice)
        return super()._slow_forward(*arguments, **keywords)  # type: ignore[no-untyped-call]


class ConfiguredModule(FeatureModule):
    """Base class of modules configured by an options dataclass, which a subclass names in its attribute ``Options``.

    :mod:`kaldi_compat.options.constructors` declares the constructors for type checkers and editors.

    Args:
        options: the options; Kaldi's defaults if None.
        changes: single options by name, which replace values in ``options``.

    Raises:
        OptionError: an option does not exist, or has a value that Kaldi's program would refuse.
    """

    Options: ClassVar[type[Any]]
    options: Any
    __signature__ = ConstructorSignature()
    _stream: Any = None  # Class of the module's streams, or None for a module that needs whole utterances.

    def __init_subclass__(cls) -> None:
        setattr(cls, "__doc__", OptionsDocumentation(cls.__doc__))  # noqa: B010  mypy wants a str

    def __init__(self, options: Any = None, **changes: Any) -> None:
        super().__init__()
        self.options = make_options(type(self).__name__, self.Options, options, changes)
        self.setup()

    def setup(self) -> None:
        """Compute the constants that depend on ``self.options``. Subclasses override this instead of ``__init__``."""

    def stream(self, slots: int = 1) -> Any:
        """Return a stream that computes this module's output chunk by chunk.

        Args:
            slots: number of utterances that the stream processes at the same time.

        Returns:
            A :class:`~kaldi_compat.torch.streaming.base.Stream`.

        Raises:
            OptionError: the module needs whole utterances.
        """
        if self._stream is None:
            raise OptionError(
                f"{type(self).__name__} needs whole utterances and has no stream: call the module instead"
            )
        return self._stream(self, slots)

    def _make_example(self) -> Tensor:
        """Return an input (2, time, ...), with which ``torch.jit.script`` traces the module instead of compiling it."""
        raise NotImplementedError

    def __prepare_scriptable__(self) -> nn.Module:
        return make_scriptable(self, self._make_example())

    def _register_constant(self, name: str, value: Tensor) -> None:
        """Register a tensor that moves with the module but is not saved with it."""
        self.register_buffer(name, value, persistent=False)

    def _register_table(self, name: str, values: npt.NDArray[Any]) -> None:
        """Register a NumPy table of the exact engine as a constant."""
        self._register_constant(name, torch.from_numpy(np.ascontiguousarray(values)))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> ConfiguredModule:
        """Apply ``fn``, but keep constants in single precision if ``fn`` converts the module to half precision."""
        buffers = dict(self.named_buffers(recurse=False))
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, value in buffers.items():
            moved = getattr(self, name)
            if moved.dtype in (torch.float16, torch.bfloat16):
                setattr(self, name, value.to(moved.device))
        return self

    def extra_repr(self) -> str:
        """Return the options that differ from Kaldi's defaults."""
        return format_changes(self.options)

    def _repr_html_(self) -> str:
        from kaldi_compat.options import describe

        return describe.render_html(type(self).__name__, self.options, engine=getattr(self, "engine", ""))
