/* Which instruction sets this processor can run, of those that the library was compiled for. */
#include "simd.h"

/* Number of the interface between this library and Python: raise it, here and in library.py, whenever a signature or a
   structure changes, so that a library of another version is refused and not called. */
EXPORT int native_interface(void) { return 1; }

/* A bit for each level: 1 plain, 2 sse2, 4 avx2 (with FMA), 8 avx512 (F, DQ, BW, VL). */
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
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        levels |= 4;
#endif
#ifdef HAVE_AVX512
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma"))
        levels |= 8;
#endif
    return levels;
}
