/* Names, types and sizes shared by the C files that are compiled once per instruction set.

   A file *_simd.c is compiled with SIMD_LEVEL=sse2, avx2, avx512 (x86-64) or plain (elsewhere). Its functions for Python are
   declared as `EXPORT int SIMD_NAME(decode)(...)`, which gives decode_sse2, decode_avx2, ... Everything else is static.
   Python asks simd_levels() which of them the processor can run. */
#ifndef SIMD_H
#define SIMD_H

#include <stdint.h>

#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0 && __FLT_EVAL_METHOD__ != 16 /* 16 widens _Float16 only. */
#error "float arithmetic in a wider type changes the features: leave -mfpmath=387 out of CFLAGS"
#endif
typedef char double_constants_are_double[sizeof(1.0) == sizeof(double) ? 1 : -1]; /* GCC: -fsingle-precision-constant */

#define EXPORT __attribute__((visibility("default")))

#define SIMD_JOIN_(name, level) name##_##level
#define SIMD_JOIN(name, level) SIMD_JOIN_(name, level)
#define SIMD_NAME(name) SIMD_JOIN(name, SIMD_LEVEL)

#endif
