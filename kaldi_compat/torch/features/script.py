"""Twins of modules that ``torch.jit.script`` can compile.

TorchScript compiles neither lists of any length, nor dataclasses, nor NumPy. A module therefore returns a twin from
``__prepare_scriptable__``. The twin holds the operations that tracing the module with examples recorded, and chooses
between them at run time by what tracing cannot record: the device, the precision, one utterance or a batch, and
whether there are lengths.
"""

# TorchScript evaluates annotations, so they must not be strings. It also parses the comments that ignore mypy's errors,
# so mypy's errors are disabled for the whole file.
# mypy: disable-error-code="attr-defined, no-redef, no-untyped-call, no-untyped-def, untyped-decorator"

import sys
import warnings
from typing import Any, Optional

import torch
from torch import Tensor, nn


def make_scriptable(module: nn.Module, example: Tensor, int16_scale: float = 1.0) -> nn.Module:
    """Return the module that ``torch.jit.script`` compiles in place of ``module``.

    Args:
        module: module that takes a batch ``(B, time, ...)`` and lengths ``(B,)``, and returns features and lengths.
        example: a valid input of the module with two rows, shape ``(2, time, ...)``.
        int16_scale: factor on int16 samples, which are converted to floating point for the traced module.

    Returns:
        A module that takes a tensor and, optionally, lengths. In a larger scripted module, a call without lengths has
        the type Tensor, and a call with lengths Tuple[Tensor, Tensor]. Outside of TorchScript it calls ``module``.
    """
    twin = ScriptableTwin(module, example, int16_scale)
    return _Root(twin) if _is_root() else twin


def _is_root() -> bool:
    """Return True if the module that torch prepares is the argument of ``torch.jit.script``, not a part of it."""
    prepare = "call_prepare_scriptable_func_impl"  # Function of torch that calls itself for submodules.
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_name != prepare:
        frame = frame.f_back
    return frame.f_back is not None and frame.f_back.f_code.co_name != prepare


class ScriptableTwin(nn.Module):
    """Twin of a module for TorchScript, which holds the traced operations on examples in float32 and float64.

    ``torch.jit.script`` replaces the module with its twin; outside of TorchScript the twin calls the module. For the
    arguments, see :func:`make_scriptable`.
    """

    def __init__(self, module: nn.Module, example: Tensor, int16_scale: float) -> None:
        super().__init__()
        device = next((buffer.device for buffer in module.buffers()), example.device)
        self._original = [module]  # The list hides the module from TorchScript, which would compile it.
        self.axes = example.dim()  # Number of axes of a batch. A single input has one axis less.
        self.int16_scale = int16_scale
        self.in_float32 = _trace(module, example.to(device, torch.float32))
        self.in_float64 = _trace(module, example.to(device, torch.float64))
        self.train(module.training)  # torch.jit.freeze refuses submodules in training mode.

    def __prepare_scriptable__(self) -> nn.Module:
        """Return the module to compile: this twin within a larger model, or else a new twin of the original module."""
        if _is_root():
            original: Any = self._original[0]
            prepared: nn.Module = original.__prepare_scriptable__()
            return prepared
        # torch.jit.script identifies the twin by its address. Replacing the twin would free its memory, and a different
        # part of the model could then get the same address.
        return self

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the twin, or else of the original module."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "_original":
                raise
            return getattr(self._original[0], name)

    def _apply(self, fn: Any, recurse: bool = True) -> nn.Module:
        """Apply ``fn`` to the tensors of the module and of the twin, for example to move both to a device."""
        self._original[0]._apply(fn, recurse)
        super()._apply(fn, recurse)
        return self

    @torch.jit._overload_method
    def forward(self, samples: Tensor, lengths: None = None) -> Tensor: ...

    @torch.jit._overload_method
    def forward(self, samples: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]: ...  # noqa: F811

    def forward(self, samples, lengths=None):  # noqa: F811
        """Compute features of ``(time, ...)`` or ``(B, time, ...)``. With lengths, also return the output lengths."""
        if not torch.jit.is_scripting():
            return self._original[0](samples, lengths)
        alone = samples.dim() < self.axes
        batch = samples.unsqueeze(0) if alone else samples
        if lengths is None:
            counted = torch.full([batch.size(0)], batch.size(1), dtype=torch.int64, device=batch.device)
        else:
            counted = lengths.to(torch.int64)
            if alone:
                counted = counted.unsqueeze(0)
        if batch.dtype == torch.float64:
            features, counts = self.in_float64(batch, counted)
        elif batch.dtype == torch.int16:
            features, counts = self.in_float32(batch.to(torch.float32) * self.int16_scale, counted)
        else:
            features, counts = self.in_float32(batch.to(torch.float32), counted)
        if alone:
            features, counts = features.squeeze(0), counts.squeeze(0)
        if lengths is None:
            return features
        else:  # noqa: RET505  TorchScript needs the else to infer both types
            return features, counts


class _Root(nn.Module):
    """Twin of the module that is passed to ``torch.jit.script``. TorchScript ignores overloads of this module."""

    def __init__(self, twin: ScriptableTwin) -> None:
        super().__init__()
        self.twin = twin
        self.train(twin.training)

    def forward(self, samples: Tensor, lengths: Optional[Tensor] = None) -> Any:  # noqa: UP045  TorchScript's syntax
        """Compute features. With ``lengths``, also return the lengths of the features."""
        if lengths is None:
            return self.twin(samples)
        else:  # noqa: RET505  TorchScript needs the else to infer both types
            return self.twin(samples, lengths)


def _trace(module: nn.Module, example: Tensor) -> Any:
    """Trace a module with the example (2, time, ...) and two lengths, and return operations that run on any device."""
    lengths = torch.tensor([example.shape[1], example.shape[1] - 1], device=example.device)
    with warnings.catch_warnings():
        # Tracing warns that lengths may become constants of the graph. They do not: the tests compare the twin with the
        # module at other lengths.
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(module, (example, lengths), check_trace=False)
    for submodule in traced.modules():
        if submodule._c._has_method("forward"):  # A ModuleList has no method forward.
            _follow_device(submodule.graph)
    return traced


def _follow_device(graph: Any) -> None:
    """Make a traced graph compute on the device of its input instead of the device of the example."""
    inputs = [value for value in graph.inputs() if value.type().kind() == "TensorType"]
    if not inputs:
        return
    device = graph.create("prim::device", [inputs[0]])
    device.output().setType(torch._C.DeviceObjType.get())
    graph.prependNode(device)
    _replace_devices(graph, graph, device.output())


def _replace_devices(graph: Any, block: Any, device: Any) -> None:
    """Replace constant devices in a block and its inner blocks with ``device``, and move constant tensors there."""
    for node in list(block.nodes()):
        for inner_block in node.blocks():
            _replace_devices(graph, inner_block, device)
        if node.kind() != "prim::Constant":
            continue
        output = node.output()
        if output.type().kind() == "DeviceObjType":
            output.replaceAllUsesWith(device)
        elif isinstance(output.toIValue(), Tensor):
            # The constants are the arguments dtype, non_blocking and copy of aten::to.
            moved = graph.create("aten::to", [output, device, *_insert_constants(graph, node, None, False, False)])
            moved.insertAfter(node)
            output.replaceAllUsesAfterNodeWith(moved, moved.output())


def _insert_constants(graph: Any, node: Any, *values: Any) -> list[Any]:
    """Insert the constants ``values`` into a graph before a node, and return the graph's handles for them."""
    graph.setInsertPoint(node)
    return [graph.insertConstant(value) for value in values]
