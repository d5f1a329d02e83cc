/* Compute most of a CRC-32 with multiplications without carry, which some processors have. */
#include "ark.h"

#ifdef __x86_64__
#include <immintrin.h>

#define HAS_CLMUL __builtin_cpu_supports("pclmul")
#define CLMUL __attribute__((target("pclmul")))

static CLMUL __m128i load(const uint8_t *from) { return _mm_loadu_si128((const __m128i *)from); }

/* Return `sum` times a power of x, modulo the polynomial of CRC-32, plus `next`. `factors` has two remainders of the power. */
static CLMUL __m128i fold(__m128i sum, __m128i factors, __m128i next)
{
    const __m128i low = _mm_clmulepi64_si128(sum, factors, 0x00), high = _mm_clmulepi64_si128(sum, factors, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/* The factors are those of V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction"
 * (Intel, 2009), for the polynomial of CRC-32 with reversed bits. */
static CLMUL void fold_all(const uint8_t *data, int64_t size, int64_t start, uint8_t *folded)
{
    const __m128i by_512 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4), by_128 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
    __m128i sums[4];
    for (int i = 0; i < 4; i++)
        sums[i] = load(data + 16 * i);
    sums[0] = _mm_xor_si128(sums[0], _mm_cvtsi32_si128((int)~(uint32_t)start));
    for (int64_t at = 64; at < size; at += 64)
        for (int i = 0; i < 4; i++)
            sums[i] = fold(sums[i], by_512, load(data + at + 16 * i));
    for (int i = 1; i < 4; i++)
        sums[i] = fold(sums[i - 1], by_128, sums[i]);
    _mm_storeu_si128((__m128i *)folded, sums[3]);
}
#else
#define HAS_CLMUL 0
#define fold_all(data, size, start, folded) ((void)0)
#endif

/* Fold the bytes that precede the last `size` % 64 bytes to the 16 bytes of `folded`, which have the same CRC-32 if its
 * computation starts with 0 instead of `start` and inverted bits. Returns the number of bytes that were folded: 0 if the
 * processor lacks the instruction. */
EXPORT int64_t ark_fold_crc(const uint8_t *data, int64_t size, int64_t start, uint8_t *folded)
{
    const int64_t whole = HAS_CLMUL ? size / 64 * 64 : 0;
    if (whole) fold_all(data, whole, start, folded);
    return whole;
}
