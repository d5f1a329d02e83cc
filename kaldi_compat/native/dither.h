/* Kaldi's dithering: normal noise from glibc's rand_r(), a state for each frame (src/base/kaldi-math.h, RandGauss). */
#ifndef DITHER_H
#define DITHER_H

#include "libm.h"

#define MULTIPLIER 1103515245u
#define INCREMENT 12345u

/* The step of rand_r's linear congruence, done 1 to 6 times at once: words[k] = state * factor[k] + term[k]. A draw takes bits 16
   and up of three words; all but the last word are shifted so that these bits are where the draw has them, or at the top. */
typedef struct {
    uint32_t factor[6], term[6];
} rand_steps;

static rand_steps make_rand_steps(void)
{
    static const int shifts[6] = {4, 6, 6, 4, 6, 0};
    rand_steps steps;
    uint32_t factor = 1, term = 0;
    for (int k = 0; k < 6; k++) {
        factor *= MULTIPLIER;
        term = term * MULTIPLIER + INCREMENT;
        steps.factor[k] = factor << shifts[k];
        steps.term[k] = term << shifts[k];
    }
    return steps;
}

/* (draw + 1) / (2^31 + 1). Both ways to compute it give the quotient of doubles, rounded to float, for every draw. */
INLINE vd share_of(vd draw)
{
    const vd share = constant(1.0 / (2147483647 + 2.0));
#if defined(__FMA__)
    return multiply_add(draw, share, share);
#else
    return (draw + 1.0) * share;
#endif
}

INLINE vf uniform_of(vi draw)
{
    vd2 x = widen_integer(draw);
    return narrow((vd2){share_of(x.low), share_of(x.high)});
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
        vu first = (words[0] & 0x7ff00000) | (words[1] >> 12 & 0x000ffc00) | words[2] >> 22;
        vu second = (words[3] & 0x7ff00000) | (words[4] >> 12 & 0x000ffc00) | (words[5] >> 16 & 0x000003ff);
        vf radius = square_root(-2.0f * log_of_finite(uniform_of((vi)first)));
        x[i] += radius * cos_of(angle_of(uniform_of((vi)second))) * dither;
    }
}

#endif
