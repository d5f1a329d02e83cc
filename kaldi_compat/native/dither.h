/* Kaldi's dithering: normal noise from glibc's rand_r(), a state for each frame (src/base/kaldi-math.h, RandGauss). */
#ifndef DITHER_H
#define DITHER_H

#include "libm.h"

#define MULTIPLIER 1103515245u
#define INCREMENT 12345u

/* The step of rand_r's linear congruence, done 1 to 6 times at once: words[k] = state * factor[k] + term[k]. */
typedef struct {
    uint32_t factor[6], term[6];
} rand_steps;

static rand_steps make_rand_steps(void)
{
    rand_steps steps = {{MULTIPLIER}, {INCREMENT}};
    for (int k = 1; k < 6; k++) {
        steps.factor[k] = steps.factor[k - 1] * MULTIPLIER;
        steps.term[k] = steps.term[k - 1] * MULTIPLIER + INCREMENT;
    }
    return steps;
}

/* Three words of the congruence give a draw: 11, 10 and 10 bits of it. */
INLINE vi draw_of(vu first, vu second, vu third)
{
    return (vi)((first >> 16 & 0x7ff) << 20 | (second >> 16 & 0x3ff) << 10 | (third >> 16 & 0x3ff));
}

/* (draw + 1) / (2^31 + 1), computed in double. The product equals the quotient for every draw once rounded to float. */
INLINE vf uniform_of(vi draw)
{
    const double share = 1.0 / (2147483647 + 2.0);
    vd2 x = widen_integer(draw);
    return narrow((vd2){(x.low + 1.0) * share, (x.high + 1.0) * share});
}

/* 2 pi x, computed in double. */
INLINE vf angle_of(vf x)
{
    vd2 turns = widen(x);
    return narrow((vd2){turns.low * 0x1.921fb54442d18p2, turns.high * 0x1.921fb54442d18p2});
}

static void add_noise(vf *x, int size, vu state, float dither)
{
    const rand_steps steps = make_rand_steps();
    for (int i = 0; i < size; i++) {
        vu words[6];
        for (int k = 0; k < 6; k++)
            words[k] = state * steps.factor[k] + steps.term[k];
        state = words[5];
        vf radius = square_root(-2.0f * log_of(uniform_of(draw_of(words[0], words[1], words[2]))));
        vf angle = angle_of(uniform_of(draw_of(words[3], words[4], words[5])));
        x[i] += radius * cos_of(angle) * dither;
    }
}

#endif
