/* Uniform random numbers from glibc's rand_r(), as Kaldi's RandUniform returns them (src/base/kaldi-math.h), and random angles. */
#ifndef UNIFORM_H
#define UNIFORM_H

#include "vector.h"

/* One, two and three steps of rand_r's linear congruence: state * FACTOR + TERM. A call of rand_r() takes three steps. */
#define FACTOR_1 1103515245u
#define FACTOR_2 (FACTOR_1 * FACTOR_1)
#define FACTOR_3 (FACTOR_2 * FACTOR_1)
#define TERM_1 12345u
#define TERM_2 (TERM_1 * FACTOR_1 + TERM_1)
#define TERM_3 (TERM_2 * FACTOR_1 + TERM_1)

/* A result of rand_r(), of 31 bits, in two parts: `high` has its upper 21 bits at their place, and `low` its lower ten bits times 2^16. */
typedef struct {
    vi high, low;
} draw;

/* Return the draw after `state`, and advance the state by three steps. The draw consists of 11 bits of the state after one step, and of
   10 bits each after two and three steps, all from bit 16 upward. Factors and terms times a power of 2 shift these bits to their place. */
INLINE draw next_draw(vu *state)
{
    vu first = *state * (FACTOR_1 << 4) + (TERM_1 << 4);
    vu second = *state * (FACTOR_2 << 6) + (TERM_2 << 6);
    *state = *state * FACTOR_3 + TERM_3;
    return (draw){(vi)((first & 0x7ff00000) | (second >> 12 & 0x000ffc00)), (vi)(*state & 0x03ff0000)};
}

/* (draw + 1) / (2^31 + 1), a quotient of doubles rounded to float. With fused operations, float is enough: the quotient is less than
   2^-31 below (draw + 1) / 2^31, so both round to the same float, except that the quotient rounds down from the middle of two floats.
   Lowering `low` by any amount that does not vanish has the same effect. Only the draw 2^31 - 192 would be rounded in two steps, first
   to the middle, and no state leads to it. */
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

/* 2 pi x, computed in double precision and rounded to float. With fused operations, float is enough: the product plus the errors of its
   rounding and of 2 pi is the same number for every result of uniform_of(). */
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

#endif
