/* Kaldi's dithering: normal noise from glibc's rand_r(), a state for each frame (src/base/kaldi-math.h, RandGauss). */
#ifndef DITHER_H
#define DITHER_H

#include "libm.h"

/* One, two and three steps of rand_r's linear congruence: state * FACTOR + TERM. A draw takes three. */
#define FACTOR_1 1103515245u
#define FACTOR_2 (FACTOR_1 * FACTOR_1)
#define FACTOR_3 (FACTOR_2 * FACTOR_1)
#define TERM_1 12345u
#define TERM_2 (TERM_1 * FACTOR_1 + TERM_1)
#define TERM_3 (TERM_2 * FACTOR_1 + TERM_1)

#define NOISE_AT_ONCE 32 /* little enough to stay in the first-level cache beside a block of frames */

/* A draw of rand_r(), in two parts: its upper 21 bits, and its lower ten as multiples of 2^16. */
typedef struct {
    vi high, low;
} draw;

/* The draw after `state`. It has 11 bits of the first word, 10 of the second and 10 of the third, each from bit 16 upwards;
   the words are shifted by their factors so that these bits are at the top or where the draw has them. */
INLINE draw next_draw(vu *state)
{
    vu first = *state * (FACTOR_1 << 4) + (TERM_1 << 4);
    vu second = *state * (FACTOR_2 << 6) + (TERM_2 << 6);
    *state = *state * FACTOR_3 + TERM_3;
    return (draw){(vi)((first & 0x7ff00000) | (second >> 12 & 0x000ffc00)), (vi)(*state & 0x03ff0000)};
}

/* (draw + 1) / (2^31 + 1), a quotient of doubles rounded to float. In float: the quotient is below (draw + 1) / 2^31 by less than
   2^-31, so it rounds as that does, but downwards from the middle of two floats; lowering `low` by any amount that does not
   vanish gives the same. Only the draw 2^31 - 192 is rounded in two steps, first to the middle, and no state leads to it. */
INLINE vf uniform_of(draw x)
{
#if defined(__FMA__)
    vf high = to_float(x.high), low = to_float(x.low + 0x10000);
    return fused(high, splat(0x1p-31f), fused(high, splat(-0x1p-68f), low * 0x1p-47f));
#else
    const vd share = constant(1.0 / (2147483647 + 2.0));
    vd2 whole = widen_integer(x.high | x.low >> 16);
    return narrow((vd2){(whole.low + 1.0) * share, (whole.high + 1.0) * share});
#endif
}

/* Draw `count` uniform numbers; returns the state after them. */
static __attribute__((noinline)) vu draw_uniform(vf *uniform, int count, vu state)
{
    for (int i = 0; i < count; i++)
        uniform[i] = uniform_of(next_draw(&state));
    return state;
}

/* 2 pi x, computed in double and rounded. In float: the product, and what its rounding and that of 2 pi left out, which gives the
   same for every uniform number. */
INLINE vf angle_of(vf x)
{
#if defined(__FMA__)
    const vf turn = splat(0x1.921fb6p2f), rest = splat((float)(0x1.921fb54442d18p2 - 0x1.921fb6p2));
    vf angle = x * turn;
    return angle + fused(x, rest, fused(x, turn, -angle));
#else
    vd2 turns = widen(x);
    return narrow((vd2){turns.low * 0x1.921fb54442d18p2, turns.high * 0x1.921fb54442d18p2});
#endif
}

/* From pairs of uniform numbers, the first of each, to the radius. */
static __attribute__((noinline)) void take_radii(vf *pairs, int count)
{
    for (int i = 0; i < count; i++)
        pairs[2 * i] = square_root(-2.0f * log_of_finite(pairs[2 * i]));
}

/* Add noise from pairs of a radius and a part of a turn. */
static __attribute__((noinline)) void add_cosines(vf *x, const vf *pairs, int count, float dither)
{
    for (int i = 0; i < count; i++)
        x[i] += pairs[2 * i] * cos_of(angle_of(pairs[2 * i + 1])) * dither;
}

/* Three short loops, each with its constants in registers, and many turns of each under way at a time. */
static void add_noise(vf *x, int size, vu state, float dither)
{
    vf pairs[2 * NOISE_AT_ONCE];
    for (int done = 0; done < size; done += NOISE_AT_ONCE) {
        int count = size - done < NOISE_AT_ONCE ? size - done : NOISE_AT_ONCE;
        state = draw_uniform(pairs, 2 * count, state);
        take_radii(pairs, count);
        add_cosines(x + done, pairs, count, dither);
    }
}

#endif
