/* Tell which of the compiled instruction sets this processor supports. */
#include "simd.h"

/* Return the digest of all functions and structures. Python refuses a library with another digest. See setup.py. */
EXPORT int native_interface(void) { return INTERFACE; }

/* Return the digest of sources and flags, with which setup.py decides whether the library is up to date. */
EXPORT const char native_made_from[] = MADE_FROM;

/* Return a bit for each level: 1 plain, 2 sse2, 4 avx2 (with FMA), 8 avx512 (F, DQ, BW, VL). */
EXPORT int simd_levels(void)
{
    int levels = 0;
#ifdef HAVE_PLAIN
    levels |= 1;
#endif
#ifdef HAVE_SSE2
    levels |= 2;
#endif
#ifdef HAVE_AVX2
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) levels |= 4;
#endif
#ifdef HAVE_AVX512
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma"))
        levels |= 8;
#endif
    return levels;
}
