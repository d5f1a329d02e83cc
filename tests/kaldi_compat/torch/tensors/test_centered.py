"""The mean of each utterance of a batch is subtracted at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kaldi_compat.torch.tensors.centered import subtract_means

DEVICES = ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)]
# Of a sum of 256 float32 numbers of about 15, over 256: 16 half units of 3840. A plain sum of 360,000 is off by 4e-4.
ROUNDING = 2e-5


class Calls(TorchDispatchMode):
    """Counts the operations of PyTorch."""

    count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("gap", [0, 2])
def test_mean_of_each_utterance_is_subtracted(device: str, gap: int) -> None:
    rng = np.random.default_rng(0)
    counts = [1, 255, 0, 256, 257, 3000, 2]
    firsts = np.cumsum([gap, *(count + gap for count in counts[:-1])])
    features = rng.normal(15, 4, (sum(counts) + gap * (len(counts) + 1), 3)).astype(np.float32)
    places = [(int(first), count) for first, count in zip(firsts, counts, strict=True)]
    centered = subtract_means(torch.tensor(features, device=device), np.array(places)).cpu().numpy()
    for first, count in places:
        own = features[first : first + count].astype(np.float64)
        expected = own - own.mean(0) if count else own
        np.testing.assert_allclose(centered[first : first + count], expected, atol=ROUNDING)


def test_a_long_utterance_has_the_mean_of_its_frames() -> None:
    features = np.random.default_rng(0).normal(15, 4, (360_000, 2)).astype(np.float32)
    centered = subtract_means(torch.tensor(features), np.array([[0, len(features)]])).numpy()
    np.testing.assert_allclose(centered, features - features.mean(0, np.float64), atol=ROUNDING)


def test_means_of_no_frames_leave_an_empty_matrix() -> None:
    assert subtract_means(torch.zeros(0, 5), np.zeros((2, 2), int)).shape == (0, 5)


def test_operations_do_not_grow_with_the_utterances() -> None:
    features = torch.zeros(1000, 4)
    counts = []
    for utterances in 2, 1000:
        frames = len(features) // utterances
        with Calls() as calls:
            subtract_means(features, np.array([(frames * i, frames) for i in range(utterances)]))
        counts.append(calls.count)
    assert counts[0] == counts[1] > 0
