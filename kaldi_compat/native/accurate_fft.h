/* FFT of real signals in double precision, as kaldi_compat/exact/fft.py and c/kaldi_features.h compute it. */
#ifndef ACCURATE_FFT_H
#define ACCURATE_FFT_H

#include "vector.h"

typedef struct {
    vd2 re, im;
} wide_lanes;

/* Rotate `odd` by the angle of a cosine and a sine. Replace `even` by the sum of both numbers, and `odd` by the difference. */
INLINE void combine(vd *even_re, vd *even_im, vd *odd_re, vd *odd_im, double cosine, double sine)
{
    vd re = *odd_re * cosine + *odd_im * sine, im = *odd_im * cosine - *odd_re * sine;
    *odd_re = *even_re - re, *odd_im = *even_im - im;
    *even_re += re, *even_im += im;
}

/* Transform n samples, a power of two.

   order: (n), the numbers below n with their bits in reverse order. directions: (n / 2, 2), cosine and sine of 2 pi k / n. */
static void accurate_fft(const vf *x, int n, const int32_t *order, const double *directions, wide_lanes *z)
{
    for (int i = 0; i < n; i++) {
        z[i].re = widen(x[order[i]]);
        memset(&z[i].im, 0, sizeof z[i].im);
    }
    for (int size = 1; size < n; size *= 2)
        for (wide_lanes *first = z; first < z + n; first += 2 * size)
            for (int k = 0; k < size; k++) {
                wide_lanes *even = first + k, *odd = even + size;
                const double *direction = directions + 2 * k * (n / (2 * size));
                combine(&even->re.low, &even->im.low, &odd->re.low, &odd->im.low, direction[0], direction[1]);
                combine(&even->re.high, &even->im.high, &odd->re.high, &odd->im.high, direction[0], direction[1]);
            }
}

#endif
