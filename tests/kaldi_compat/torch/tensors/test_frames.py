"""Framing: the number of frames, and reflection past the ends of the audio."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kaldi_compat import Spectrogram
from kaldi_compat.exact.tables import make_window
from kaldi_compat.options.spectral import WINDOW_TYPES
from kaldi_compat.torch.tensors.frames import count_frames, cut_frames, preemphasize, reflect_indices


def by_counting(num_samples: int, size: int, shift: int) -> int:
    return sum(1 for start in range(0, num_samples, shift) if start + size <= num_samples)


@given(st.integers(0, 3000), st.integers(2, 500), st.integers(1, 300))
def test_frames_wholly_in_the_audio(num_samples: int, size: int, shift: int) -> None:
    count = count_frames(num_samples, size, shift)
    assert count == by_counting(num_samples, size, shift)
    assert count_frames(torch.tensor([num_samples]), size, shift).tolist() == [count]


@given(st.integers(0, 3000), st.integers(1, 300))
def test_one_frame_a_shift_without_snipping(num_samples: int, shift: int) -> None:
    count = count_frames(num_samples, 400, shift, snip_edges=False)
    assert abs(count * shift - num_samples) * 2 <= shift


def walk(index: int, length: int) -> int:
    """Reflect step by step, as often as needed: -1 is 0 again and the length is its last sample."""
    while not 0 <= index < length:
        index = -index - 1 if index < 0 else 2 * length - 1 - index
    return index


@given(st.integers(-2000, 2000), st.integers(1, 50))
def test_repeated_reflection(index: int, length: int) -> None:
    assert reflect_indices(torch.tensor(index), length).item() == walk(index, length)


@given(
    length=st.integers(1, 300),
    padding=st.integers(0, 100),
    size=st.integers(2, 120),
    shift=st.integers(1, 150),
    snip_edges=st.booleans(),
)
def test_frames_alone_and_padded(length: int, padding: int, size: int, shift: int, snip_edges: bool) -> None:
    samples = np.arange(length, dtype=np.float32)
    count = count_frames(length, size, shift, snip_edges)
    first = 0 if snip_edges else shift // 2 - size // 2
    naive = [[walk(first + f * shift + i, length) for i in range(size)] for f in range(count)]
    alone = cut_frames(torch.from_numpy(samples), size, shift, snip_edges)
    np.testing.assert_array_equal(alone.numpy(), np.array(naive).reshape(count, size))
    garbage = torch.full((1, length + padding), float("nan"))
    garbage[0, :length] = torch.from_numpy(samples)
    padded = cut_frames(garbage, size, shift, snip_edges, torch.tensor([length]))
    torch.testing.assert_close(padded[0, :count], alone)


@pytest.mark.parametrize("name", WINDOW_TYPES)
def test_windows_are_symmetric_and_peak_at_one(name: str) -> None:
    w = make_window(name, 401)
    np.testing.assert_allclose(w, w[::-1], rtol=1e-6, atol=1e-7)
    assert w.dtype == np.float32 and w[200] == 1


def test_a_frames_first_sample_precedes_itself() -> None:
    torch.testing.assert_close(preemphasize(torch.tensor([[2.0, 3.0]]), 0.5), torch.tensor([[1.0, 2.0]]))


def test_the_blackman_coefficient_is_rounded_to_single_precision_as_kaldis_option_is() -> None:
    phase = 2 * np.pi / 399 * np.arange(400)
    coefficient = float(np.float32(0.42))
    kaldis = coefficient - 0.5 * np.cos(phase) + (0.5 - coefficient) * np.cos(2 * phase)
    window = Spectrogram(window_type="blackman", dither=0.0).window
    np.testing.assert_array_equal(window.numpy(), kaldis.astype(np.float32))
