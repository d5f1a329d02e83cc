/* The FFT of any number of complex points, by its prime factors. */
#ifndef MIXED_RADIX_H
#define MIXED_RADIX_H

#include "fft.h"

/* Transform the n points in[0], in[stride], ... to `out` (n) by the prime factors of n, in `factors`. `roots` holds n complex numbers,
   exp(-2 pi i k / n) for k = 0, 1, ..., and then the roots of the next, smaller transform. `spare` has room for as many numbers as the
   largest factor. */
static void mixed_radix(const complex_lanes *in, int64_t stride, complex_lanes *out, int n, const int32_t *factors,
                        const float *roots, complex_lanes *spare)
{
    if (n == 1) {
        *out = *in;
        return;
    }
    int parts = *factors, length = n / parts;
    for (int p = 0; p < parts; p++)
        mixed_radix(in + p * stride, stride * parts, out + p * length, length, factors + 1, roots + 2 * n, spare);
    for (int q = 0; q < length; q++) {
        for (int k = 0; k < parts; k++) {
            const float *root = roots + 2 * (k * length + q);
            float w_re = root[0], w_im = root[1];
            complex_lanes sum = out[q];
            for (int p = 1; p < parts; p++) {
                complex_lanes z = out[p * length + q];
                sum.re += z.re * w_re - z.im * w_im;
                sum.im += z.re * w_im + z.im * w_re;
                float next = w_re * root[0] - w_im * root[1];
                w_im = w_re * root[1] + w_im * root[0];
                w_re = next;
            }
            spare[k] = sum;
        }
        for (int k = 0; k < parts; k++)
            out[k * length + q] = spare[k];
    }
}

#endif
