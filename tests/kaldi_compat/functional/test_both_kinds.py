"""Every function of the room takes NumPy arrays and torch tensors, and gives the same for both."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kaldi_compat import functional
from kaldi_compat.functional.array_api import sum_by_doubling
from kaldi_compat.functional.reverberate import AdditiveSignal

RNG = np.random.default_rng(5)
FEATURES = RNG.normal(5, 2, (40, 3))
SIGNAL = RNG.normal(0, 100, 20)
STATISTICS = np.array([[30.0, 12.0, 18.0, 6.0], [200.0, 60.0, 90.0, 0.0]])
# By the names of parameters; those of the second table differ between functions.
ARGUMENTS: dict[str, Any] = {
    **dict.fromkeys(("x", "like", "features", "batch", "values"), FEATURES),
    **dict.fromkeys(("a", "b", "transform", "lda", "lda_mllt"), FEATURES[:3]),
    **dict.fromkeys(("first", "second", "log_energy", "signal"), SIGNAL),
    **dict.fromkeys(("mean", "variance"), FEATURES**2),
    **dict.fromkeys(("taps", "impulse_response"), np.array([0.5, 1.0, 0.25])),
    "statistics": STATISTICS, "index": np.array([2, 0]), "lengths": None, "frame_indices": np.arange(40), "frames": 40,
    "parts": (FEATURES, FEATURES),
    "start": np.array([0, 2]), "end": np.array([3, 6]), "size": np.arange(40) + 1, "shift": FEATURES[0], "scale": 2.0,
    "window": (FEATURES, FEATURES**2, np.arange(40) + 1), "voiced": np.arange(40) % 2, "signal_power": np.array([9.0]),
    "noise": AdditiveSignal(SIGNAL[:4], 5.0), "max_frames": 2, "dims": [1], "skip_dims": [1], "dim": 3, "axis": 0,
    "left": 1, "right": 2, "value": 3.0, "shape": (2, 3), "quieter_channel_weight": 0.1,
    "filters": [(0.5, 1.0)], "starts": [1], "sample_frequency": 8000.0, "new_dimension": 4, "stop": 4,
    "error": ValueError,
}  # fmt: skip
# Modules of blocks of utterances, of checks and of scores, which take NumPy arrays only.
OF_BLOCKS = (
    "blocks",
    "block_cmvn",
    "block_deltas",
    "block_vad",
    "checks",
    "columns",
    "compiler",
    "detection",
    "means",
    "online_cmvn",
)
OF_FUNCTIONS: dict[str, dict[str, Any]] = {
    "arange": {"start": 1},
    "check_statistics": {"dim": 3},
    "compute_energy_threshold": {"frame_counts": np.array([20])},
    "filter_frames": {"num_frames": 4},
    "mask_frames": {"lengths": np.array(30)},
    "multiply_packed_spectra": {"a": (SIGNAL, SIGNAL), "b": (SIGNAL, SIGNAL)},
    "count_padded_frames": {"frames": np.array([5])},
    "count_stacks": {"frames": np.array([5])},
}


def functions() -> Iterator[Callable[..., Any]]:
    """Yield the public functions of the room, but those of numbers and options alone."""
    for found in pkgutil.iter_modules(functional.__path__):
        if found.name in OF_BLOCKS:
            continue
        module = importlib.import_module(f"{functional.__name__}.{found.name}")
        for name, function in vars(module).items():
            if inspect.isfunction(function) and function.__module__ == module.__name__ and name[0] != "_":
                given = [str(each.annotation) for each in inspect.signature(function).parameters.values()]
                takes_array = any("Array" in each or each in ("Any", "object") for each in given)
                # The first two take the module torch, and refuse_export takes the text of an error.
                if takes_array and name not in ("ask_compiler", "is_exporting", "refuse_export"):
                    yield function


def arguments(function: Callable[..., Any], convert: Callable[[Any], Any], dtype: Any) -> list[Any]:
    given = ARGUMENTS | {"dtype": dtype} | OF_FUNCTIONS.get(function.__name__, {})
    parameters = [each for each in inspect.signature(function).parameters.values() if each.default is each.empty]
    # The options' class by its name, as the annotation has it.
    return [
        function.__globals__[each.annotation]() if each.name == "options" else converted(given[each.name], convert)
        for each in parameters
    ]


def converted(value: Any, convert: Callable[[Any], Any]) -> Any:
    """Return a value with its arrays, also those of a tuple, converted."""
    if isinstance(value, tuple):
        return tuple(converted(each, convert) for each in value)
    return convert(value) if isinstance(value, np.ndarray) else value


def single(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.astype(np.float32) if array.dtype.kind == "f" else array


@pytest.mark.parametrize("function", list(functions()), ids=lambda each: each.__name__)
def test_functions_take_arrays_and_tensors(function: Callable[..., Any]) -> None:
    expected = function(*arguments(function, single, np.dtype("float32")))
    found = function(*arguments(function, lambda array: torch.from_numpy(single(array)), torch.float32))
    pairs = [each if isinstance(each, tuple) else (each,) for each in (expected, found)]
    for array, tensor in zip(*pairs, strict=True):
        assert isinstance(array, np.ndarray) == isinstance(tensor, torch.Tensor)
        if isinstance(tensor, torch.Tensor):
            assert str(tensor.dtype) == f"torch.{array.dtype}"
            np.testing.assert_allclose(tensor, array, rtol=1e-4, atol=1e-4)


@given(length=st.integers(0, 70), axis=st.integers(-2, 1), seed=st.integers(0, 1000))
def test_sums_by_doubling_are_running_sums(length: int, axis: int, seed: int) -> None:
    x = np.random.default_rng(seed).integers(-99, 99, (3, length)).astype(np.float64)
    assert np.array_equal(sum_by_doubling(x, axis), np.cumsum(x, axis))
    tensor = sum_by_doubling(torch.from_numpy(x), axis)
    assert torch.equal(tensor, torch.from_numpy(np.cumsum(x, axis)))
