"""Kaldi's random numbers against the C library's own."""

from __future__ import annotations

import copy
import ctypes
import math
import pickle
import platform

import numpy as np
import pytest
import torch

from io_ark.libm import logf
from kaldi_compat import KaldiRandom
from kaldi_compat.exact.libm import cosf, sinf
from kaldi_compat.exact.rand import compute_rand_r_starts
from kaldi_compat.exact.steps import draw_noise
from kaldi_compat.torch.tensors.dither import compute_kaldi_noise

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="compares with glibc")


@glibc
@pytest.mark.parametrize("seed", [0, 1, 7, 2**31 - 1, 2**31, 2**32 - 1])
def test_rand_is_glibcs(seed: int) -> None:
    libc, ours = ctypes.CDLL(None), KaldiRandom(seed)
    libc.srand(ctypes.c_uint(seed))
    theirs = [libc.rand() for _ in range(2500)]
    np.testing.assert_array_equal(np.concatenate([ours.draws(n) for n in (1, 0, 999, 1500)]), theirs)


def test_rand_from_the_default_seed() -> None:
    """The numbers that every unseeded C program on Linux sees first."""
    assert KaldiRandom().draws(5).tolist() == [1804289383, 846930886, 1681692777, 1714636915, 1957747793]


@glibc
def test_the_noise_of_a_frame_is_rand_rs() -> None:
    libc = ctypes.CDLL(None)
    seeds = KaldiRandom().frame_seeds(3)
    fast = compute_kaldi_noise(torch.from_numpy(seeds), 50).numpy()
    exact = draw_noise(seeds, 50)
    for frame, seed in enumerate(seeds):
        state = ctypes.c_uint(int(seed) % 2**32)
        for sample in range(50):
            u1, u2 = (np.float32((libc.rand_r(ctypes.byref(state)) + 1) / (2**31 + 1)) for _ in range(2))
            by_libm = math.sqrt(-2 * math.log(u1)) * math.cos(2 * math.pi * u2)
            assert abs(fast[frame, sample] - by_libm) < 5e-6
            assert abs(exact[frame, sample] - by_libm) < 1e-6


@glibc
def test_starts_of_pairs_are_states_of_rand_r() -> None:
    libc, seed = ctypes.CDLL(None), 123456789
    state = ctypes.c_uint(seed)
    for factor, term in compute_rand_r_starts(5).view(np.uint32).T.tolist():
        assert (factor * seed + term) % 2**32 == state.value
        for _ in range(2):
            libc.rand_r(ctypes.byref(state))


def test_the_noise_is_standard_normal() -> None:
    noise = compute_kaldi_noise(torch.from_numpy(KaldiRandom().frame_seeds(500)), 400)
    assert abs(noise.mean()) < 0.01
    assert abs(noise.std() - 1) < 0.01
    assert abs((noise.abs() < 1).float().mean() - 0.6827) < 0.005


def test_gauss_takes_two_uniform_draws_each() -> None:
    u = KaldiRandom().uniform(6).astype(np.float64)
    by_hand = np.sqrt(-2 * np.log(u[::2])) * np.cos(2 * np.pi * u[1::2])
    np.testing.assert_allclose(KaldiRandom().gauss(3), by_hand, atol=1e-6)


def test_the_state_survives_copying() -> None:
    generator = KaldiRandom(3)
    generator.draws(1500)
    twins = [copy.deepcopy(generator), pickle.loads(pickle.dumps(generator))]
    following = generator.draws(2000)
    for twin in twins:
        np.testing.assert_array_equal(twin.draws(2000), following)


@glibc
@pytest.mark.parametrize("name", ["sinf", "cosf", "logf"])
def test_functions_are_glibcs_to_the_last_bit(name: str) -> None:
    theirs = getattr(ctypes.CDLL("libm.so.6"), name)
    theirs.restype, theirs.argtypes = ctypes.c_float, [ctypes.c_float]
    x = np.random.default_rng(0).uniform(1e-6, 2 * math.pi, 5000).astype(np.float32)
    ours = {"sinf": sinf, "cosf": cosf, "logf": logf}[name](x)
    np.testing.assert_array_equal(ours, np.array([theirs(v) for v in x], np.float32))
