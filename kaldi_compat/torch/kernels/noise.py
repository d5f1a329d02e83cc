"""Standard normal noise inside kernels: Kaldi's dithering noise, and counter-based noise for training.

For Kaldi's noise, the ``rand_r()`` state of a frame follows a linear congruence modulo 2^32, so one multiplication and
one addition jump to any sample. A sample takes two draws of three steps (src/base/kaldi-math.cc). For counter-based
noise, Philox-4x32 (Salmon et al., 2011) maps the position of four samples to four words. Both kinds of noise use the
Box-Muller transform.
"""

# Type checkers do not know the language that Triton compiles.
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

KALDI, PHILOX = 1, 2  # Kinds of noise. A kind of 0 stands for no noise.
ROUNDS = tl.constexpr(7)  # Rounds of Philox. Seven is the minimum that passes all statistical tests (Salmon et al.).
QUARTER, HALF = tl.constexpr(1 << 29), tl.constexpr(1 << 30)  # A quarter and a half turn. A draw of 2^31 is a turn.


@triton.jit
def step_state(state):
    """Return the next state, uint32, of the linear congruential generator of ``rand_r()``."""
    return state * tl.full((), 1103515245, tl.uint32) + tl.full((), 12345, tl.uint32)


@triton.jit
def draw_rand_r(state):
    """Return the result of ``rand_r()``, int32 from 0 to 2^31 - 1, and the next state."""
    first = step_state(state)
    second = step_state(first)
    third = step_state(second)
    high = (first << 4) & 0x7FF00000
    middle = (second >> 6) & 0x000FFC00
    low = (third >> 16) & 0x000003FF
    return (high | middle | low).to(tl.int32, bitcast=True), third


@triton.jit
def compute_radius(draw):
    """Return the radius of the Box-Muller transform, sqrt(-2 ln u), where u = (draw + 1) / (2^31 + 1) and draw >= 0."""
    u = (draw.to(tl.float32) + 1.0) * 4.656612873077393e-10  # The factor is 1 / (2^31 + 1) in float32.
    return tl.sqrt(-2.0 * tl.log(u))


@triton.jit
def compute_sine(draw):
    """Return sin(2 pi draw / 2^31), with an error of at most 1e-7."""
    return compute_cosine((draw - QUARTER) & 0x7FFFFFFF)


@triton.jit
def compute_cosine(draw):
    """Return cos(2 pi draw / 2^31). The reduction of the angle is exact. The polynomial's error is at most 1e-7."""
    # cos(2 pi u) = sin(2 pi (|u - 1/2| - 1/4)). The argument is at most a quarter turn, where the polynomial is
    # accurate. The factor 4 / 2^31 converts draws to quarter turns.
    quarters = (tl.abs(draw - HALF) - QUARTER).to(tl.float32) * 1.862645149230957e-09
    square = quarters * quarters
    series = square * 0.0001516751217423007 - 0.004674150608479977
    series = series * square + 0.07968991994857788
    series = series * square - 0.6459637880325317
    return (series * square + 1.5707963705062866) * quarters


@triton.jit
def draw_kaldi_normal(seed, multiplier, increment):
    """Return Kaldi's standard normal noise for samples, float32 of the shape that the arguments broadcast to.

    Args:
        seed: ``rand_r()`` states of the frames, int32.
        multiplier, increment: constants of the jump from the state of a frame to the state of a sample, int32.
    """
    state = multiplier.to(tl.uint32, bitcast=True) * seed.to(tl.uint32, bitcast=True)
    state += increment.to(tl.uint32, bitcast=True)
    first, state = draw_rand_r(state)
    second, state = draw_rand_r(state)
    return compute_radius(first) * compute_cosine(second)


@triton.jit
def draw_philox_normals(seed, place, frame):
    """Return four float32 tensors of standard normal noise, for four samples at each place in each frame.

    Args:
        seed: seed of the generator, a 64-bit integer.
        place, frame: counters, int32, which broadcast to the shape of the noise.
    """
    zero = frame * 0
    a, b, c, d = tl.philox(seed, place + zero, frame + place * 0, zero, zero, ROUNDS)
    turn = (b >> 1).to(tl.int32, bitcast=True)
    other_turn = (d >> 1).to(tl.int32, bitcast=True)
    radius = compute_radius((a >> 1).to(tl.int32, bitcast=True))
    other_radius = compute_radius((c >> 1).to(tl.int32, bitcast=True))
    return (
        radius * compute_cosine(turn),
        radius * compute_sine(turn),
        other_radius * compute_cosine(other_turn),
        other_radius * compute_sine(other_turn),
    )
