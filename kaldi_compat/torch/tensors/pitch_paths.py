"""Search for the cheapest path through the lags, on any device and in compiled, exported and traced models.

All pairs of states are compared. On a GPU this is faster than the convex hull of :mod:`kaldi_compat.pitch.search`. The
loop over the frames is in Python, except in a traced model (TorchScript) and in an exported model (``scan``, which
runs without this package). In a compiled model, the loop in Python is one operation of the graph.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import torch
from torch import Tensor

from kaldi_compat.functional.array_api import ask_compiler


def find_cheapest_paths(local: Tensor, factor: float, lengths: Tensor | None = None) -> Tensor:
    """Return the state of each frame, ``(utterances, frames)``, on the cheapest path through the states.

    Args:
        local: ``(utterances, frames, states)``: cost of each state in each frame.
        factor: cost of a step by one state. A step by ``n`` states costs ``n**2`` times ``factor``.
        lengths: ``(utterances,)``: number of valid frames; None if all are valid. Later frames have undefined states.
    """
    utterances, frames, states = local.shape
    indices = torch.arange(states, device=local.device)
    step_costs = ((indices[:, None] - indices) ** 2).to(local.dtype) * factor
    frame = torch.arange(frames, device=local.device)[:, None]
    ends = torch.zeros(utterances, dtype=torch.long, device=local.device) + frames if lengths is None else lengths
    local, is_last = local.transpose(0, 1), frame == ends - 1
    search: Any = _search
    if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
        search = _script_search()
    elif ask_compiler(torch, "is_exporting"):  # Before torch 2.7, export looks like torch.compile.
        search = _search_by_scan
    elif ask_compiler(torch, "is_compiling"):
        search = _search_as_operation
    path: Tensor = search(local, step_costs, is_last)
    return path.transpose(0, 1)


def _step_forward(costs: Tensor, local: Tensor, steps: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Advance the cheapest paths, which have the costs ``costs`` (B, states), by one frame.

    ``local`` (B, states) is the cost of each state in this frame. For ``steps``, see :func:`_search`. Return the cost
    (B, states) of the cheapest path to each state, minus the lowest cost; the predecessor (B, states) of each state;
    and the best state (B,).
    """
    before, predecessors = (costs[:, None, :] + steps).min(-1)
    costs = before + local
    lowest, best = costs.min(-1)
    return costs - lowest[:, None], predecessors, best


def _step_back(state: Tensor, predecessors: Tensor, best: Tensor, is_last: Tensor) -> tuple[Tensor, Tensor]:
    """Return the states (B,) of the previous frame and of this frame. The latter is ``best`` where ``is_last`` is True.

    ``state`` (B,) is the state of this frame according to the next frame. For ``predecessors`` (B, states) and ``best``
    (B,) of this frame, see :func:`_step_forward`. ``is_last`` (B,) is True in the last frame of an utterance.
    """
    state = torch.where(is_last, best, state)
    return predecessors.gather(-1, state[:, None])[:, 0], state


def _search(local: Tensor, steps: Tensor, last: Tensor) -> Tensor:
    """Return the state of each frame, (frames, B), on the cheapest path of each utterance.

    Args:
        local: (frames, B, states): cost of each state in each frame.
        steps: (states, states): cost of a step between two states.
        last: (frames, B): mask of the last frame of each utterance.
    """
    costs = local.new_zeros(local.shape[1:])
    predecessors: list[Tensor] = []
    best: list[Tensor] = []
    for frame in range(local.shape[0]):
        costs, before, best_state = _step_forward(costs, local[frame], steps)
        predecessors.append(before)
        best.append(best_state)
    state = torch.zeros_like(last[0], dtype=torch.long)
    path: list[Tensor] = []
    for frame in range(local.shape[0] - 1, -1, -1):
        state, current = _step_back(state, predecessors[frame], best[frame], last[frame])
        path.append(current)
    return torch.stack(path).flip(0)


# A compiled model uses a custom operation instead of scan, because Inductor (of torch 2.13) cannot compile a scan over
# an unknown number of frames.
_search_as_operation: Any = _search
if hasattr(torch.library, "custom_op"):  # Custom operations need torch 2.4 or later.
    _search_as_operation = torch.library.custom_op(
        "kaldi_compat::cheapest_paths",
        _search,
        mutates_args=(),
        schema="(Tensor local, Tensor steps, Tensor last) -> Tensor",
    )

    @_search_as_operation.register_fake  # type: ignore[untyped-decorator]
    def _(local: Tensor, steps: Tensor, last: Tensor) -> Tensor:
        return torch.empty_like(last, dtype=torch.long)


@functools.cache
def _script_search() -> Any:
    """Compile :func:`_search` with TorchScript, which keeps the loop in a traced graph."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Tracing has already warned of TorchScript's deprecation.
        return torch.jit.script(_search)


def _search_by_scan(local: Tensor, steps: Tensor, last: Tensor) -> Tensor:
    """Return the result of :func:`_search`, computed with ``scan``, which stays a loop in an exported graph."""
    from torch._higher_order_ops.scan import scan

    def scan_forward(costs: Tensor, local_costs: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the costs, which scan passes to the next frame, and the other results of :func:`_step_forward`."""
        costs, predecessors, best = _step_forward(costs, local_costs, steps)
        return costs, (predecessors, best)

    def scan_back(state: Tensor, frame: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the results of :func:`_step_back`. ``frame`` has its arguments ``predecessors, best, is_last``."""
        previous, current = _step_back(state, *frame)
        return previous, current  # scan refuses to return an input. Torch 2.13 needs no copy.

    _, (predecessors, best) = scan(scan_forward, local.new_zeros(local.shape[1:]), local)
    backwards = (predecessors.flip(0), best.flip(0), last.flip(0))
    path: Tensor
    _, path = scan(scan_back, last.new_zeros(last.shape[1:], dtype=torch.long), backwards)
    return path.flip(0)
