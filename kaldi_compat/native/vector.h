/* Vectors with a number for each lane. There are as many lanes as a register of the instruction set holds floats.

   `vf`, `vi` and `vu` hold a float or a 32-bit integer for each lane. `vd` and `vl` hold a double or a 64-bit integer for half of the
   lanes, and `vd2` doubles for all of them. C's operators work on vectors (GCC's vector extensions). Operations without an operator
   are functions below, with intrinsics for each instruction set. Every function rounds as the scalar operation does, so that all
   instruction sets give the same bits. */
#ifndef VECTOR_H
#define VECTOR_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__) || defined(__AVX2__) || defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX2__)
#define LANES 8
#else
#define LANES 4
#endif
#define HALF (LANES / 2)

typedef float vf __attribute__((vector_size(LANES * 4)));
typedef int32_t vi __attribute__((vector_size(LANES * 4)));
typedef uint32_t vu __attribute__((vector_size(LANES * 4)));
typedef double vd __attribute__((vector_size(LANES * 4)));
typedef int64_t vl __attribute__((vector_size(LANES * 4)));
typedef float vf_unaligned __attribute__((vector_size(LANES * 4), aligned(4)));

typedef struct {
    vd low, high;
} vd2;

#define INLINE static inline __attribute__((always_inline))

INLINE vf splat(float x) { return x - (vf){0}; } /* subtracting 0 changes no number, not even -0 */

/* The lanes of a where the bits of the mask are all one, and the lanes of b where the bits are all zero. */
INLINE vf choose(vi mask, vf a, vf b) { return (vf)((mask & (vi)a) | (~mask & (vi)b)); }

/* a where the integer is odd, b where it is even. */
INLINE vd choose_odd(vl x, vd a, vd b)
{
#if defined(__AVX512F__)
    return (vd)_mm512_mask_blend_pd(_mm512_test_epi64_mask((__m512i)x, _mm512_set1_epi64(1)), (__m512d)b, (__m512d)a);
#elif defined(__AVX2__)
    return (vd)_mm256_blendv_pd((__m256d)b, (__m256d)a, (__m256d)(x << 63));
#else
    vl mask = -(x & 1);
    return (vd)((mask & (vl)a) | (~mask & (vl)b));
#endif
}

/* C++'s std::max(x, floor), which does not replace a NaN x. */
INLINE vf at_least(vf x, float floor) { return choose(x < floor, splat(floor), x); }

INLINE vd2 widen(vf x)
{
    vd2 y;
#if defined(__AVX512F__)
    y.low = (vd)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)x));
    y.high = (vd)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)x, 1));
#elif defined(__AVX2__)
    y.low = (vd)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)x));
    y.high = (vd)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)x, 1));
#elif defined(__SSE2__)
    y.low = (vd)_mm_cvtps_pd((__m128)x);
    y.high = (vd)_mm_cvtps_pd(_mm_movehl_ps((__m128)x, (__m128)x));
#elif defined(__aarch64__) /* GCC 12 would convert one number at a time, even with __builtin_convertvector */
    y.low = (vd)vcvt_f64_f32(vget_low_f32((float32x4_t)x));
    y.high = (vd)vcvt_high_f64_f32((float32x4_t)x);
#else
    for (int i = 0; i < HALF; i++)
        y.low[i] = x[i], y.high[i] = x[HALF + i];
#endif
    return y;
}

INLINE vf narrow(vd2 x)
{
#if defined(__AVX512F__)
    __m512 low = _mm512_castps256_ps512(_mm512_cvtpd_ps((__m512d)x.low));
    return (vf)_mm512_insertf32x8(low, _mm512_cvtpd_ps((__m512d)x.high), 1);
#elif defined(__AVX2__)
    return (vf)_mm256_set_m128(_mm256_cvtpd_ps((__m256d)x.high), _mm256_cvtpd_ps((__m256d)x.low));
#elif defined(__SSE2__)
    return (vf)_mm_movelh_ps(_mm_cvtpd_ps((__m128d)x.low), _mm_cvtpd_ps((__m128d)x.high));
#else
    vf y;
    for (int i = 0; i < HALF; i++)
        y[i] = (float)x.low[i], y[HALF + i] = (float)x.high[i];
    return y;
#endif
}

/* Convert integers to doubles. */
INLINE vd2 widen_integer(vi x)
{
    vd2 y;
#if defined(__AVX512F__)
    y.low = (vd)_mm512_cvtepi32_pd(_mm512_castsi512_si256((__m512i)x));
    y.high = (vd)_mm512_cvtepi32_pd(_mm512_extracti32x8_epi32((__m512i)x, 1));
#elif defined(__AVX2__)
    y.low = (vd)_mm256_cvtepi32_pd(_mm256_castsi256_si128((__m256i)x));
    y.high = (vd)_mm256_cvtepi32_pd(_mm256_extracti128_si256((__m256i)x, 1));
#elif defined(__SSE2__)
    y.low = (vd)_mm_cvtepi32_pd((__m128i)x);
    y.high = (vd)_mm_cvtepi32_pd(_mm_unpackhi_epi64((__m128i)x, (__m128i)x));
#elif defined(__aarch64__)
    y.low = (vd)vcvtq_f64_s64(vmovl_s32(vget_low_s32((int32x4_t)x)));
    y.high = (vd)vcvtq_f64_s64(vmovl_high_s32((int32x4_t)x));
#else
    for (int i = 0; i < HALF; i++)
        y.low[i] = x[i], y.high[i] = x[HALF + i];
#endif
    return y;
}

/* Convert integers to floats. */
INLINE vf to_float(vi x) { return __builtin_convertvector(x, vf); }

/* table[index] for each lane. The index is from 0 to 15. */
INLINE vd2 look_up(const double table[16], vi index)
{
    vd2 y;
#if defined(__AVX512F__)
    __m512d first = _mm512_loadu_pd(table), second = _mm512_loadu_pd(table + 8);
    __m512i low = _mm512_cvtepi32_epi64(_mm512_castsi512_si256((__m512i)index));
    __m512i high = _mm512_cvtepi32_epi64(_mm512_extracti32x8_epi32((__m512i)index, 1));
    y.low = (vd)_mm512_permutex2var_pd(first, low, second);
    y.high = (vd)_mm512_permutex2var_pd(first, high, second);
#elif defined(__AVX2__)
    /* Choose the low words and the high words of the doubles, each from the first and the last eight, which is faster than a gather. */
    const __m256i apart = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    const __m256i place = _mm256_permute4x64_epi64((__m256i)index, 0xd8), is_last = _mm256_slli_epi32(place, 28);
    __m256i parts[4], first[2], last[2];
    for (int i = 0; i < 4; i++)
        parts[i] = _mm256_permutevar8x32_epi32(_mm256_loadu_si256((const __m256i *)(table + 4 * i)), apart);
    first[0] = _mm256_permute2x128_si256(parts[0], parts[1], 0x20),
    last[0] = _mm256_permute2x128_si256(parts[2], parts[3], 0x20);
    first[1] = _mm256_permute2x128_si256(parts[0], parts[1], 0x31),
    last[1] = _mm256_permute2x128_si256(parts[2], parts[3], 0x31);
    __m256 words[2];
    for (int i = 0; i < 2; i++)
        words[i] = _mm256_blendv_ps((__m256)_mm256_permutevar8x32_epi32(first[i], place),
                                    (__m256)_mm256_permutevar8x32_epi32(last[i], place), (__m256)is_last);
    y.low = (vd)_mm256_unpacklo_ps(words[0], words[1]);
    y.high = (vd)_mm256_unpackhi_ps(words[0], words[1]);
#elif defined(__SSE2__)
    y.low = (vd)_mm_setr_pd(table[index[0]], table[index[1]]);
    y.high = (vd)_mm_setr_pd(table[index[2]], table[index[3]]);
#else
    double found[LANES]; /* an array, because GCC 12 warns of a vector that is set one number at a time */
    for (int i = 0; i < LANES; i++)
        found[i] = table[index[i]];
    memcpy(&y.low, found, sizeof y.low);
    memcpy(&y.high, found + HALF, sizeof y.high);
#endif
    return y;
}

INLINE vf square_root(vf x)
{
#if defined(__AVX512F__)
    return (vf)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX2__)
    return (vf)_mm256_sqrt_ps((__m256)x);
#elif defined(__SSE2__)
    return (vf)_mm_sqrt_ps((__m128)x);
#else
    for (int i = 0; i < LANES; i++)
        x[i] = sqrtf(x[i]);
    return x;
#endif
}

INLINE vd constant(double x) { return x - (vd){0}; }

/* a * b + c, rounded once or twice. Use it only where the results were shown to be the same either way. */
INLINE vd multiply_add(vd a, vd b, vd c)
{
#if defined(__AVX512F__)
    return (vd)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__FMA__)
    return (vd)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
    return a * b + c;
#endif
}

#if !defined(__FMA__) && !defined(__ARM_FEATURE_FMA)
/* a * b + c, with the last bit set if the sum is not exact ("rounded to odd"). Rounded to float, it equals a * b + c rounded once. */
INLINE vd odd_sum(vd a, vd b, vd c)
{
    vd product = a * b; /* exact, because both factors are floats */
    vd sum = product + c;
    vd part = sum - product;
    vd error = (product - (sum - part)) + (c - part);
    vl even = ((vl)sum & 1) == 0;
    vl outwards =
        ((error > 0.0) == (sum > 0.0)) | 1; /* minus -1 (true) is the next larger magnitude, minus 1 the next smaller one */
    return (vd)((vl)sum -
                (outwards & even & ((error < 0.0) | (error > 0.0)))); /* both false for infinities, whose error is NaN */
}
#endif

/* a * b + c, rounded once on every machine. */
INLINE vf fused(vf a, vf b, vf c)
{
#if defined(__AVX512F__)
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__ARM_FEATURE_FMA)
    for (int i = 0; i < LANES; i++)
        c[i] = fmaf(a[i], b[i], c[i]);
    return c;
#else
    vd2 x = widen(a), y = widen(b), z = widen(c);
    return narrow((vd2){odd_sum(x.low, y.low, z.low), odd_sum(x.high, y.high, z.high)});
#endif
}

/* The lower number of each lane. Neither number may be NaN. */
INLINE vf lower_of(vf a, vf b)
{
#if defined(__AVX512F__)
    return (vf)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (vf)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
    return (vf)_mm_min_ps((__m128)a, (__m128)b);
#else
    return choose(a < b, a, b);
#endif
}

/* The lowest number of all lanes. */
INLINE float lowest_lane(vf x)
{
#if defined(__AVX512F__)
    return _mm512_reduce_min_ps((__m512)x);
#else
    float lowest = x[0];
    for (int l = 1; l < LANES; l++)
        lowest = x[l] < lowest ? x[l] : lowest;
    return lowest;
#endif
}

/* An integer whose bit l is the sign bit of lane l. A comparison sets the sign bits of the lanes where it is true. */
INLINE unsigned bits_of(vi mask)
{
#if defined(__AVX512F__)
    return _mm512_movepi32_mask((__m512i)mask);
#elif defined(__AVX2__)
    return (unsigned)_mm256_movemask_ps((__m256)mask);
#elif defined(__SSE2__)
    return (unsigned)_mm_movemask_ps((__m128)mask);
#else
    unsigned bits = 0;
    for (int l = 0; l < LANES; l++)
        bits |= (unsigned)(mask[l] < 0) << l;
    return bits;
#endif
}

/* The shuffles of transpose(): from two rows, LOW and HIGH take the numbers whose place has the bit `distance` unset or set. */
#if defined(__clang__)
#define PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PICK(a, b, ...) __builtin_shuffle(a, b, (vi){__VA_ARGS__})
#endif
#if LANES == 16
#define LOW_1 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define HIGH_1 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31
#define LOW_2 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HIGH_2 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define LOW_4 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27
#define HIGH_4 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31
#define LOW_8 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define HIGH_8 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31
#elif LANES == 8
#define LOW_1 0, 8, 2, 10, 4, 12, 6, 14
#define HIGH_1 1, 9, 3, 11, 5, 13, 7, 15
#define LOW_2 0, 1, 8, 9, 4, 5, 12, 13
#define HIGH_2 2, 3, 10, 11, 6, 7, 14, 15
#define LOW_4 0, 1, 2, 3, 8, 9, 10, 11
#define HIGH_4 4, 5, 6, 7, 12, 13, 14, 15
#else
#define LOW_1 0, 4, 2, 6
#define HIGH_1 1, 5, 3, 7
#define LOW_2 0, 1, 4, 5
#define HIGH_2 2, 3, 6, 7
#endif

#define EXCHANGE(distance) \
    for (int i = 0; i < LANES; i++) \
        if (!(i & distance)) { \
            vf a = rows[i], b = rows[i + distance]; \
            rows[i] = PICK(a, b, LOW_##distance); \
            rows[i + distance] = PICK(a, b, HIGH_##distance); \
        }

/* Transpose a square block in place: number j of rows[i] becomes number i of rows[j]. */
INLINE void transpose(vf rows[LANES]){EXCHANGE(1) EXCHANGE(2)
#if LANES >= 8
                                          EXCHANGE(4)
#endif
#if LANES >= 16
                                              EXCHANGE(8)
#endif
}

/* The LANES samples from x on, as floats. The address needs no alignment. */
INLINE vf load_floats(const float *x)
{
    return *(const vf_unaligned *)x;
}
INLINE vf load_shorts(const int16_t *x)
{
#if defined(__AVX512F__)
    return (vf)_mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(_mm256_loadu_si256((const __m256i *)x)));
#elif defined(__AVX2__)
    return (vf)_mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)x)));
#else
    vf y;
    int16_t values[LANES];
    memcpy(values, x, sizeof values);
    for (int i = 0; i < LANES; i++)
        y[i] = values[i];
    return y;
#endif
}

#endif
