/* CRC-32 by carry-less multiplication: replace the start of the data by 16 bytes with the same CRC-32. */
#include "simd.h"

#ifdef __x86_64__
#include <immintrin.h>

#define WITH_PCLMUL __attribute__((target("pclmul")))

/* Move a state of 16 bytes ahead by d bits, and add the data there. The factors are the remainders of x^(d + 63) and x^(d - 1)
 * after division by the polynomial of CRC-32, with reversed bits. */
WITH_PCLMUL static __m128i fold(__m128i state, __m128i factors, __m128i data)
{
    const __m128i first = _mm_clmulepi64_si128(state, factors, 0x00), second = _mm_clmulepi64_si128(state, factors, 0x11);
    return _mm_xor_si128(_mm_xor_si128(first, second), data);
}

WITH_PCLMUL static int64_t fold_blocks(const __m128i *data, int64_t blocks, int64_t before, __m128i *folded)
{
    const __m128i by_64_bytes = _mm_set_epi64x((int64_t)0xcad38e8f00000000, 0x653d982200000000);
    const __m128i by_16_bytes = _mm_set_epi64x((int64_t)0x9ba54c6f00000000, 0x65673b4600000000);
    __m128i states[4];
    for (int i = 0; i < 4; i++)
        states[i] = _mm_loadu_si128(data + i);
    states[0] = _mm_xor_si128(states[0], _mm_cvtsi64_si128(before));
    for (int64_t block = 1; block < blocks; block++)
        for (int i = 0; i < 4; i++)
            states[i] = fold(states[i], by_64_bytes, _mm_loadu_si128(data + 4 * block + i));
    for (int i = 1; i < 4; i++)
        states[i] = fold(states[i - 1], by_16_bytes, states[i]);
    _mm_storeu_si128(folded, states[3]);
    return 64 * blocks;
}
#endif

/* Write 16 bytes whose CRC-32, from an empty register, is that of the first bytes of `data` from the register `before`. Returns
 * the number of these bytes, a multiple of 64; 0 if the processor has no suitable instruction. */
EXPORT int64_t crc32_fold(const uint8_t *data, int64_t size, int64_t before, uint8_t *folded)
{
#ifdef __x86_64__
    if (size >= 64 && __builtin_cpu_supports("pclmul"))
        return fold_blocks((const __m128i *)data, size / 64, before, (__m128i *)folded);
#endif
    return 0;
}
