/* Kaldi's FFT of real signals with Kaldi's rounding: src/matrix/srfft.cc (split radix, powers of two) and
   src/matrix/matrix-functions.cc (mixed radix, other sizes). Tables come from Python. */
#ifndef FFT_H
#define FFT_H

#include "vector.h"

typedef struct {
    vf re, im;
} complex_lanes;

/* Multipliers of a split-radix step for one index: cosine, -(sine + cosine), sine - cosine, for the angle and three times it. */
typedef float twiddle[6];

/* Multiply by a root of unity with three products. */
INLINE complex_lanes turned(complex_lanes z, const float *w)
{
    vf common = w[0] * (z.re + z.im);
    return (complex_lanes){w[2] * z.im + common, w[1] * z.re + common};
}

/* Reduce a transform of m points to a transform of m/2 points and two transforms of m/4 points. */
INLINE void split(complex_lanes *z, int m, const twiddle *w)
{
    const float half_root = 0x1.6a09e6p-1f; /* sqrt(1/2) */
    int quarter = m / 4;
    for (int n = 0; n < quarter; n++) {
        complex_lanes *z0 = z + n, *z1 = z0 + quarter, *z2 = z1 + quarter, *z3 = z2 + quarter;
        complex_lanes p = {z0->re - z2->re, z0->im - z2->im}, q = {z1->re - z3->re, z1->im - z3->im};
        *z0 = (complex_lanes){z0->re + z2->re, z0->im + z2->im};
        *z1 = (complex_lanes){z1->re + z3->re, z1->im + z3->im};
        complex_lanes a = {p.re + q.im, p.im - q.re}, b = {p.re - q.im, p.im + q.re};
        if (n == 0) {
            *z2 = a, *z3 = b;
        } else if (2 * n == quarter) {
            *z2 = (complex_lanes){half_root * (a.re + a.im), half_root * (a.im - a.re)};
            *z3 = (complex_lanes){half_root * (b.im - b.re), -half_root * (b.re + b.im)};
        } else {
            *z2 = turned(a, w[n]);
            *z3 = turned(b, w[n] + 3);
        }
    }
}

INLINE void fft_2(complex_lanes *z)
{
    complex_lanes a = z[0], b = z[1];
    z[0] = (complex_lanes){a.re + b.re, a.im + b.im};
    z[1] = (complex_lanes){a.re - b.re, a.im - b.im};
}

INLINE void fft_4(complex_lanes *z)
{
    split(z, 4, NULL);
    fft_2(z);
}

static void fft_8(complex_lanes *z, const twiddle *w)
{
    split(z, 8, w);
    fft_4(z);
    fft_2(z + 4);
    fft_2(z + 6);
}

/* Transform 2^log_m points in place. The results are in bit-reversed order. twiddles[k] is for transforms of 2^k points. */
static void split_radix(complex_lanes *z, int log_m, const twiddle *const *twiddles)
{
    int m = 1 << log_m;
    switch (log_m) {
    case 0: return;
    case 1: fft_2(z); return;
    case 2: fft_4(z); return;
    case 3: fft_8(z, twiddles[3]); return;
    }
    split(z, m, twiddles[log_m]);
    split_radix(z, log_m - 1, twiddles);
    split_radix(z + m / 2, log_m - 2, twiddles);
    split_radix(z + m / 2 + m / 4, log_m - 2, twiddles);
}

/* Compute the transform of a real signal at k and half - k from the transform of even + i * odd samples at the same points. */
INLINE void unzip(complex_lanes a, complex_lanes b, float root_re, float root_im, complex_lanes *at_k,
                  complex_lanes *mirror)
{
    vf c_re = 0.5f * (a.re + b.re), c_im = 0.5f * (a.im - b.im);
    vf d_re = 0.5f * (a.im + b.im), d_im = -0.5f * (a.re - b.re);
    vf re_re = root_re * d_re, im_im = root_im * d_im, re_im = root_re * d_im, im_re = root_im * d_re;
    *mirror = (complex_lanes){c_re + (im_im - re_re), (re_im + im_re) - c_im};
    *at_k = (complex_lanes){c_re + (re_re - im_im), c_im + (re_im + im_re)};
}

#endif
