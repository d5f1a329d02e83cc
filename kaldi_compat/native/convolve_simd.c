/* Convolution by the FFT in blocks, with Kaldi's bits (src/feat/signal.cc, src/matrix/srfft.cc): one block per SIMD lane. */
#include <stdlib.h>

#include "fft.h"
#include "simd.h"

/* Tables of the FFT and the filter. kaldi_compat/exact/convolution.py computes them. */
typedef struct {
    int32_t log_points; /* log2 of points / 2 */
    int32_t taps;
    const twiddle *twiddles[32]; /* for transforms of 2^k points: (2^k / 4) */
    const float *roots;          /* (points / 4, 2): exp(-2 pi i k / points), k = 1, 2, ... */
    const int32_t *order;        /* (points / 2): where the FFT leaves each result */
    const float *spectrum; /* (points / 2, 2): spectrum of the filter; the imaginary part of bin 0 is bin points / 2 */
} convolution;

/* Convert z, the FFT of even + i * odd samples, to y, the FFT of the real signal, or back. `sign` is the sign of the real roots: 1 to
   convert, -1 to convert back. `ends` is a factor of the real bins at both ends: 1 to convert, and 0.5 to convert back. */
static void real_transform(const convolution *c, complex_lanes *z, complex_lanes *y, float sign, float ends)
{
    const int half = 1 << c->log_points;
    for (int k = 1; k <= half / 2; k++) {
        const float *root = c->roots + 2 * (k - 1);
        unzip(z[k], z[half - k], sign * root[0], root[1], &y[k], &y[half - k]);
    }
    y[0] = (complex_lanes){(z[0].re + z[0].im) * ends, (z[0].re - z[0].im) * ends};
}

/* Undo the bit-reversed order of the results of the FFT. */
static void reorder(const convolution *c, const complex_lanes *z, complex_lanes *y)
{
    for (int k = 0; k < 1 << c->log_points; k++)
        y[k] = z[c->order[k]];
}

/* Read samples first + l * step + 2 i and first + l * step + 2 i + 1 into lane l of z[i], or 0 past the block or past the signal's end. */
static void load_blocks(const float *signal, int64_t samples, int64_t first, int64_t step, int half, complex_lanes *z)
{
    for (int i = 0; i < half; i++) {
        complex_lanes value = {splat(0), splat(0)};
        for (int l = 0; l < LANES && 2 * i < step; l++) {
            const int64_t at = first + l * step + 2 * i;
            if (at < samples) value.re[l] = signal[at];
            if (at + 1 < samples && 2 * i + 1 < step) value.im[l] = signal[at + 1];
        }
        z[i] = value;
    }
}

/* Multiply by the spectrum of the filter. As in Kaldi, the two real bins are multiplied as one complex number. */
static void multiply(const convolution *c, complex_lanes *z)
{
    for (int k = 0; k < 1 << c->log_points; k++) {
        const float re = c->spectrum[2 * k], im = c->spectrum[2 * k + 1];
        z[k] = (complex_lanes){re * z[k].re - im * z[k].im, re * z[k].im + im * z[k].re};
    }
}

static void swap_parts(complex_lanes *z, int count)
{
    for (int i = 0; i < count; i++)
        z[i] = (complex_lanes){z[i].im, z[i].re};
}

/* Write number j of a block to out[at], or to the tail of the block if j is at or past the block's `step` new samples. */
static void put(float value, int64_t j, int64_t step, int64_t at, int64_t length, float *out, float *tail)
{
    if (j >= step)
        tail[j - step] = value;
    else if (at < length)
        out[at] = value + 0.0f; /* -0 becomes 0, as if the tail of another block were added */
}

/* Convolve a signal with the filter of c->taps numbers, to out (samples + taps - 1). Returns 0, or 1 if there is no memory. */
EXPORT int SIMD_NAME(convolve)(const convolution *c, const float *signal, int64_t samples, float *out)
{
    const int half = 1 << c->log_points;
    const int64_t points = 2 * half, tail_size = c->taps - 1, step = points - tail_size, length = samples + tail_size;
    const float scale = 1.0f / (float)points;
    void *const allocated =
        malloc((4 * (int64_t)half + 1) * sizeof(vf) + (LANES + 1) * (tail_size + 1) * sizeof(float));
    if (!allocated) return 1;
    complex_lanes *z = (complex_lanes *)((char *)allocated + (sizeof(vf) - (uintptr_t)allocated % sizeof(vf)));
    complex_lanes *y = z + half;
    float *const before = (float *)(y + half), *const tails = before + tail_size;
    memset(before, 0, tail_size * sizeof(float));
    for (int64_t first = 0; first < length; first += LANES * step) {
        load_blocks(signal, samples, first, step, half, z);
        split_radix(z, c->log_points, c->twiddles);
        reorder(c, z, y);
        real_transform(c, y, z, 1.0f, 1.0f);
        multiply(c, z);
        real_transform(c, z, y, -1.0f, 0.5f);
        swap_parts(y, half);
        split_radix(y, c->log_points, c->twiddles);
        reorder(c, y, z);
        for (int i = 0; i < half; i++) {
            const vf even = z[i].im * 2.0f * scale, odd = z[i].re * 2.0f * scale;
            for (int l = 0; l < LANES; l++) {
                const int64_t at = first + l * step + 2 * i;
                put(even[l], 2 * i, step, at, length, out, tails + l * tail_size);
                put(odd[l], 2 * i + 1, step, at + 1, length, out, tails + l * tail_size);
            }
        }
        for (int l = 0; l < LANES && first + l * step < length; l++) {
            const float *const overlap = l ? tails + (l - 1) * tail_size : before;
            float *const to = out + first + l * step;
            const int64_t left = length - first - l * step;
            for (int64_t j = 0; j < tail_size && j < left; j++)
                to[j] += overlap[j];
        }
        memcpy(before, tails + (LANES - 1) * tail_size, tail_size * sizeof(float));
    }
    free(allocated);
    return 0;
}
