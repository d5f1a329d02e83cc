/* Kaldi's dithering: normal noise from glibc's rand_r(), a state for each frame (src/base/kaldi-math.h, RandGauss). */
#ifndef DITHER_H
#define DITHER_H

#include "libm.h"
#include "uniform.h"

#define NOISE_AT_ONCE 32 /* number of samples whose noise fits in the first-level cache beside a block of frames */

/* Draw `count` uniform numbers; returns the state after them. */
static __attribute__((noinline)) vu draw_uniform(vf *uniform, int count, vu state)
{
    for (int i = 0; i < count; i++)
        uniform[i] = uniform_of(next_draw(&state));
    return state;
}

/* Replace the first number of each pair of uniform numbers with the radius of the Box-Muller transform. */
static __attribute__((noinline)) void take_radii(vf *pairs, int count)
{
    for (int i = 0; i < count; i++)
        pairs[2 * i] = square_root(-2.0f * log_of_finite(pairs[2 * i]));
}

/* Add noise from pairs of a radius and an angle in turns (1 is a full turn). */
static __attribute__((noinline)) void add_cosines(vf *x, const vf *pairs, int count, float dither)
{
    for (int i = 0; i < count; i++)
        x[i] += pairs[2 * i] * cos_of(angle_of(pairs[2 * i + 1])) * dither;
}

/* Add normal noise. Three short loops are faster than one: the constants of a loop fit in registers, and iterations overlap. */
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
