"""The cheapest path through the lags for tensors: on any device, and inside compiled, exported and traced models.

Every pair of states is compared, which a GPU does faster than it would find the hull that
:mod:`kaldi_compat.pitch.search` searches by. The two steps, from frame to frame and back, are written once;
the loop over the frames differs: Python, which in a compiled model is one operation of the graph; TorchScript in a
traced model; and ``scan`` in an exported one, which does not need this package to run.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import torch
from torch import Tensor

from kaldi_compat.functional.array_api import ask_compiler


def cheapest_paths(local: Tensor, factor: float, lengths: Tensor | None = None) -> Tensor:
    """Find the cheapest paths.

    Args:
        local: ``(utterances, frames, states)`` local costs.
        factor: cost of a step by one state. A step by ``n`` states costs ``n**2`` times ``factor``.
        lengths: ``(utterances,)`` numbers of valid frames; None for all. States of later frames are undefined.

    Returns:
        States of the paths: ``(utterances, frames)``.
    """
    utterances, frames, states = local.shape
    place = torch.arange(states, device=local.device)
    steps = ((place[:, None] - place) ** 2).to(local.dtype) * factor
    frame = torch.arange(frames, device=local.device)[:, None]
    ends = torch.zeros(utterances, dtype=torch.long, device=local.device) + frames if lengths is None else lengths
    local, last = local.transpose(0, 1), frame == ends - 1
    search: Any = _search
    if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
        search = _scripted_search()
    elif ask_compiler(torch, "is_exporting"):  # torch before 2.7 does not distinguish it from torch.compile
        search = _search_by_scan
    elif ask_compiler(torch, "is_compiling"):
        search = _search_as_operation
    path: Tensor = search(local, steps, last)
    return path.transpose(0, 1)


def _forward(costs: Tensor, local: Tensor, steps: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the costs (B, states) of the paths one frame later, minus the lowest, their predecessors and the best."""
    before, predecessors = (costs[:, None, :] + steps).min(-1)
    costs = before + local
    lowest, best = costs.min(-1)
    return costs - lowest[:, None], predecessors, best


def _back(state: Tensor, predecessors: Tensor, best: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
    """Return the states (B,) of the previous frame and of a frame, whose state is ``best`` at the last frame."""
    state = torch.where(last, best, state)
    return predecessors.gather(-1, state[:, None])[:, 0], state


def _search(local: Tensor, steps: Tensor, last: Tensor) -> Tensor:
    """Return states (frames, B) for local costs (frames, B, states), step costs (states, states), last (frames, B)."""
    costs = local.new_zeros(local.shape[1:])
    predecessors: list[Tensor] = []
    best: list[Tensor] = []
    for frame in range(local.shape[0]):
        costs, before, lowest = _forward(costs, local[frame], steps)
        predecessors.append(before)
        best.append(lowest)
    state = torch.zeros_like(last[0], dtype=torch.long)
    path: list[Tensor] = []
    for frame in range(local.shape[0] - 1, -1, -1):
        state, here = _back(state, predecessors[frame], best[frame], last[frame])
        path.append(here)
    return torch.stack(path).flip(0)


# Inductor (of torch 2.13) cannot compile a scan over an unknown number of frames.
_search_as_operation: Any = _search
if hasattr(torch.library, "custom_op"):  # from torch 2.4 on
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
def _scripted_search() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # tracing has already warned
        return torch.jit.script(_search)


def _search_by_scan(local: Tensor, steps: Tensor, last: Tensor) -> Tensor:
    """Compute :func:`_search` as two loops that stay loops in an exported graph."""
    from torch._higher_order_ops.scan import scan

    def forward(costs: Tensor, here: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        costs, predecessors, best = _forward(costs, here, steps)
        return costs, (predecessors, best)

    def back(state: Tensor, here: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        before, state = _back(state, *here)
        return before, state.clone()  # the output must not alias the input

    _, (predecessors, best) = scan(forward, local.new_zeros(local.shape[1:]), local)
    backwards = (predecessors.flip(0), best.flip(0), last.flip(0))
    path: Tensor
    _, path = scan(back, last.new_zeros(last.shape[1:], dtype=torch.long), backwards)
    return path.flip(0)
