/* kaldi_features.h - Kaldi's speech features in one C99 file, with Kaldi's bits.

   Computes fbank, MFCC, PLP and spectrograms, of whole audio or in chunks, with Kaldi's dithering, and the steps that published
   models add: low frame rate, global, utterance and sliding normalization, deltas, stacking. The results are equal to Kaldi's, byte
   for byte, on every machine with IEEE 754 arithmetic, because the header has its own logarithms, cosines and FFT, and calls no
   function of <math.h>. It keeps no global state and allocates no memory.

   In one C or C++ file, define KALDI_FEATURES_IMPLEMENTATION before you include the header. All other files only include it:

       #define KALDI_FEATURES_IMPLEMENTATION
       #include "kaldi_features.h"

       kf_options options;
       size_t size;
       kf *fbank;
       options.struct_size = sizeof options;
       kf_status status = kf_from_preset("wespeaker", &options);
       if (!status) status = kf_size(&options, &size);
       void *memory = malloc(size);
       if (!status) status = kf_init(memory, size, &options, &fbank);
       if (!status) status = kf_compute(fbank, samples, count, features, capacity, &rows);
       if (status) fprintf(stderr, "%s\n", kf_strerror(status));

   Define KF_API to change the declarations of the functions, for example as `static`, which keeps them private to the file, or for a
   shared library. Flags that change numbers, such as -ffast-math, are refused by the compiler or by KF_ERROR_BUILD, or have no effect
   on this header. All other flags give the same bits; -O3 and -march=native make the code faster.

   Copyright 2026 The kaldi-compat authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef KALDI_FEATURES_H
#define KALDI_FEATURES_H

#include <stddef.h>
#include <stdint.h>

#define KF_VERSION "1.0.0"

#ifndef KF_API
#define KF_API extern
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Statuses that functions return, in order from 0, and the texts of kf_strerror(). */
#define KF_STATUSES(X)                                                                                                         \
    X(KF_OK, "no error")                                                                                                       \
    X(KF_ERROR_ARGUMENT, "a pointer is NULL, or a count is negative or 2^46 or more: pass what the function needs")            \
    X(KF_ERROR_STRUCT_SIZE,                                                                                                    \
      "options.struct_size is not that of this library: set it to sizeof(kf_options), and compile with the header of kf_version()") \
    X(KF_ERROR_VALUE, "an option is not a finite number, or is outside its range: see the comments of kf_options")             \
    X(KF_ERROR_NAME, "no option or preset has this name: use those of kf_options and kf_preset_name()")                        \
    X(KF_ERROR_RATE, "sample_frequency must be positive and below 1e9: pass the sampling rate in Hz")                          \
    X(KF_ERROR_FRAME, "frames must have 2 to 2^24 samples and be 1 to 2^31 - 1 apart: change frame_length or frame_shift")     \
    X(KF_ERROR_ODD_FFT, "the FFT must have an even number of points: change frame_length or set round_to_power_of_two")        \
    X(KF_ERROR_MEL_RANGE, "low_freq and high_freq must lie, in this order, between 0 and half of sample_frequency")            \
    X(KF_ERROR_MEL_BINS,                                                                                                       \
      "a mel bin holds no bin of the FFT: use fewer mel bins, a wider band or longer frames, or set allow_empty_bins")         \
    X(KF_ERROR_VTLN,                                                                                                           \
      "vtln_warp must be positive; vtln_low and vtln_high, also warped by it, must lie in order between low_freq and high_freq") \
    X(KF_ERROR_CEPSTRA, "num_ceps must be 1 to num_mel_bins (MFCC) or lpc_order + 1 (PLP), cepstral_lifter 0 or not near it")  \
    X(KF_ERROR_STEPS, "these steps exclude each other: low frame rate goes without stack_frames and steps of utterances")      \
    X(KF_ERROR_STATISTICS,                                                                                                     \
      "the model's statistics are missing, not finite or do not fit the columns: set shift and scale, or statistics to NULL")  \
    X(KF_ERROR_MEMORY, "there is less memory than the front end needs: pass as many bytes as kf_size() says")                  \
    X(KF_ERROR_BUFFER, "the output has too little room: pass as many rows as kf_rows() or kf_ready() says")                    \
    X(KF_ERROR_EMPTY, "the audio has no samples: check where it comes from")                                                   \
    X(KF_ERROR_SAMPLES, "the audio holds NaN or infinity: check how it was decoded")                                           \
    X(KF_ERROR_STREAM, "a step needs the whole utterance: use kf_compute(), or leave the step out")                            \
    X(KF_ERROR_BUILD,                                                                                                          \
      "the arithmetic is not IEEE 754's: compile with -ffp-contract=off and without fast math, round to nearest, keep denormals") \
    X(KF_ERROR_FFT, "double_precision and shorten_frame need an FFT of a power of two: set round_to_power_of_two")             \
    X(KF_ERROR_FEW_MEL_BINS, "num_mel_bins must be 3 or more: increase it")                                                    \
    X(KF_ERROR_SIZE,                                                                                                           \
      "the tables or the rows are too large: reduce num_mel_bins, frame_length, lpc_order, delta_order or the stacked frames")
#define KF__STATUS_NAME(name, text) name,
typedef enum kf_status { KF_STATUSES(KF__STATUS_NAME) KF_NUM_STATUSES } kf_status;

/* Features: kf_options.feature. */
enum { KF_FBANK, KF_MFCC, KF_PLP, KF_SPECTROGRAM };

/* Window functions: kf_options.window_type. */
enum { KF_POVEY, KF_HAMMING, KF_HANNING, KF_RECTANGULAR, KF_SINE, KF_BLACKMAN };

/* Options of a front end: Kaldi's options, with Kaldi's names, and the steps after the feature.

   Set struct_size, let kf_defaults() or kf_from_preset() fill in all other fields, and change the options that you need. Truth values
   are 0 or 1. Options that a feature does not have are ignored. The steps are computed in the order of their fields. A comment ends
   with the default. */
typedef struct kf_options {
    uint32_t struct_size; /* sizeof(kf_options) */
    int32_t feature;      /* KF_FBANK, KF_MFCC, KF_PLP or KF_SPECTROGRAM */
    /* Frames. */
    float sample_frequency;        /* Hz; 16000 */
    float frame_length;            /* milliseconds; 25 */
    float frame_shift;             /* milliseconds; 10 */
    float preemphasis_coefficient; /* 0 to 1; 0.97 */
    float dither;                  /* standard deviation of Kaldi's noise; 1, and 0 in presets */
    float blackman_coeff;          /* constant term of the Blackman window; 0.42 */
    float waveform_scale;          /* factor on the samples, positive; 1 */
    float full_scale;         /* floats of full amplitude: 32768, Kaldi's scale, or 1. 16-bit samples are converted to it */
    int32_t window_type;      /* KF_POVEY */
    int32_t remove_dc_offset; /* subtract the mean of each frame; 1 */
    int32_t round_to_power_of_two; /* pad frames with zeros to a power of two; 1 */
    int32_t snip_edges;            /* only frames that lie wholly in the audio; 0 reflects it at its ends; 1 */
    /* Mel bins: all but spectrograms. */
    int32_t num_mel_bins;     /* 3 or more; 23 */
    float low_freq;           /* Hz; 20 */
    float high_freq;          /* Hz; 0 or less is an offset from the Nyquist frequency; 0 */
    float vtln_low;           /* Hz; 100 */
    float vtln_high;          /* Hz; negative is an offset from the Nyquist frequency; -500 */
    float vtln_warp;          /* warp factor of the speaker; 1 */
    int32_t htk_compat;       /* order and scale of HTK; 0 */
    int32_t allow_empty_bins; /* accept mel bins that hold no bin of the FFT; 0 */
    /* Energy. */
    int32_t use_energy; /* log energy as first column or in place of C0; 0 for fbank, 1 for MFCC and PLP */
    int32_t raw_energy; /* energy before preemphasis and windowing; 1 */
    float energy_floor; /* floor on the energy before its logarithm; 0 is none */
    /* Fbank. */
    int32_t use_log_fbank; /* 1 */
    int32_t use_power;     /* power, not magnitude; 1 */
    /* MFCC and PLP. */
    int32_t num_ceps;      /* C0 included; 13 */
    int32_t lpc_order;     /* PLP; 12 */
    float cepstral_lifter; /* 22; 0 is none */
    float cepstral_scale;  /* PLP; 1 */
    float compress_factor; /* PLP; 0.33333 */
    /* Spectrogram. */
    int32_t return_raw_fft; /* real and imaginary parts instead of log power; 0 */
    /* Steps before the feature. */
    int32_t subtract_clip_mean; /* subtract the mean of all samples; 0 */
    int32_t shorten_frame;      /* whole audio shorter than a frame gives one shorter frame, as in FunASR; 0 */
    int32_t double_precision;   /* FFT in double precision instead of Kaldi's; 0 */
    /* Steps after the feature, in this order. */
    int32_t subtract_mean;          /* mean of the utterance, rounded as by Kaldi's --subtract-mean; 0 */
    int32_t cmn_window;             /* frames of Kaldi's sliding normalization (apply-cmvn-sliding); 0 is none */
    int32_t min_cmn_window;         /* frames at the start of an utterance, without cmn_center; 100 */
    int32_t cmn_center;             /* center the window on the frame; 0 */
    int32_t keep_voiced;            /* keep the frames that Kaldi's compute-vad finds voiced before the normalization; 0 */
    float vad_energy_threshold;     /* 5 */
    float vad_energy_mean_scale;    /* not negative; 0.5 */
    float vad_proportion_threshold; /* between 0 and 1; 0.6 */
    int32_t vad_frames_context;     /* 0 */
    int32_t utterance_cmvn;         /* subtract the mean of the utterance, in double precision; 0 */
    int32_t utterance_norm_vars;    /* also divide by the standard deviation of the utterance; 0 */
    int32_t utterance_unbiased;     /* divide sums of squares by frames - 1; 0 */
    int32_t delta_order;            /* append deltas, deltas of deltas and so on, like torchaudio, up to order 999; 0 */
    double utterance_epsilon;       /* added to the variance, not negative; 0 */
    int32_t delta_window;           /* frames on each side, 1 to 999; 2 */
    int32_t lfr_stack;              /* low frame rate: neighboring frames in a row, 1 to 999; 1 */
    int32_t lfr_stride;             /* frames from one row to the next, 1 to 999; 1 */
    int32_t stack_frames;           /* frames in a row, each used once, 1 to 999; 1 */
    int32_t pad_frames;             /* cut or pad the utterance to this number of rows; 0 does neither */
    int32_t num_statistics;         /* columns of shift and scale; 0 for none */
    double global_mean;             /* (x - global_mean) / global_std; 0 */
    double global_std;              /* 1e-37 to 1e37; 1 */
    const float *shift;             /* (x + shift[i]) * scale[i] for each column; copied by kf_init() */
    const float *scale;
    const char *statistics; /* model's file with shift and scale; kf_init() fails until kf_set_statistics() is called, or this is NULL */
    double floor_minimum;   /* lower limit of the features; -FLT_MAX is none */
} kf_options;

/* A front end: an opaque object in memory that you provide. Use a front end from one thread at a time. */
typedef struct kf kf;

/* Fill in Kaldi's defaults for a feature.

   options: struct_size must be set; all other fields may be uninitialized.
   feature: KF_FBANK, KF_MFCC, KF_PLP or KF_SPECTROGRAM.
   Returns KF_OK, KF_ERROR_ARGUMENT, KF_ERROR_STRUCT_SIZE or KF_ERROR_VALUE.
   Source: Kaldi's src/feat/feature-window.h, mel-computations.h and feature-*.h. */
KF_API kf_status kf_defaults(kf_options *options, int32_t feature);

/* Fill in the options of a published model.

   Audio for presets is in -1 to 1 (full_scale 1), or 16-bit. If `statistics` of a preset is not NULL, it names a file of the model that
   has a mean and a standard deviation for each column. Set shift to minus the mean, and scale to the inverse of the standard deviation.

   name: name of a preset, such as "wespeaker" or "paraformer"; see kf_preset_name().
   options: struct_size must be set; all other fields may be uninitialized.
   Returns KF_OK, KF_ERROR_NAME, KF_ERROR_ARGUMENT or KF_ERROR_STRUCT_SIZE. */
KF_API kf_status kf_from_preset(const char *name, kf_options *options);

/* Return the name of a preset, for index = 0, 1, ...; NULL after the last preset. */
KF_API const char *kf_preset_name(int index);

/* Return the version of the compiled library, such as "1.0.0". It is KF_VERSION if the library was compiled from this header. */
KF_API const char *kf_version(void);

/* Set an option from text: by a name and a value, such as "num_mel_bins", "80", or by a line of a Kaldi configuration file.

   name: a name of kf_options, in any case, with '-' or '_', with or without two leading dashes. If value is NULL, name is a line of a
       configuration file, of at most 255 characters without the blanks around it: `--name=value`, or `--name` to set a truth value.
       `#` starts a comment. An empty line changes nothing.
   value: a number with a decimal point in every locale; a truth value (true, false, t, f, 1 or 0, in any case); or a word.
   Returns KF_OK, KF_ERROR_NAME, KF_ERROR_VALUE, KF_ERROR_ARGUMENT or KF_ERROR_STRUCT_SIZE. */
KF_API kf_status kf_set(kf_options *options, const char *name, const char *value);

/* Set the model's statistics, for (x + shift[i]) * scale[i] in each column of the result. NULL and 0 columns omit this step. kf_init()
   copies the numbers; they must stay valid until then. Returns KF_OK, KF_ERROR_ARGUMENT or KF_ERROR_STRUCT_SIZE. */
KF_API kf_status kf_set_statistics(kf_options *options, const float *shift, const float *scale, int32_t columns);

/* Return sizeof(kf_options), for languages that keep the options as bytes and change them by name. */
KF_API size_t kf_options_size(void);

/* Compute the number of bytes of memory that a front end needs, and check its options.

   size: receives the number of bytes, also on KF_ERROR_STATISTICS.
   Returns KF_OK, or the error of an invalid option. */
KF_API kf_status kf_size(const kf_options *options, size_t *size);

/* Create a front end in memory that you provide. Nothing else is allocated, now or later. To destroy the front end, free the memory.

   memory: memory of any alignment.
   size: number of bytes of the memory, at least the result of kf_size().
   options: are copied, including shift and scale.
   out: receives the front end, which starts at a multiple of 64 within the memory.
   Returns KF_OK, KF_ERROR_MEMORY, KF_ERROR_BUILD, or the error of an invalid option. */
KF_API kf_status kf_init(void *memory, size_t size, const kf_options *options, kf **out);

/* Return the number of columns of the features. */
KF_API int32_t kf_dim(const kf *frontend);

/* Return the number of rows that kf_compute() needs room for, for `count` samples. It writes as many rows, or fewer if keep_voiced
   removes some. 0 for a negative number of samples. */
KF_API int64_t kf_rows(const kf *frontend, int64_t count);

/* Compute the features of a whole utterance.

   samples: (count); full_scale is the value of full amplitude.
   out: (capacity, dim), row by row.
   capacity: rows that out has room for, at least kf_rows(frontend, count).
   rows: receives the number of rows written.
   Returns KF_OK, KF_ERROR_EMPTY, KF_ERROR_SAMPLES, KF_ERROR_BUFFER, KF_ERROR_ARGUMENT, or KF_ERROR_BUILD if the processor does not
   round to nearest or flushes denormals to zero; after an error, out is unchanged. Audio that is shorter than a frame gives no rows and
   KF_OK. Discards a stream that has begun. */
KF_API kf_status kf_compute(kf *frontend, const float *samples, int64_t count, float *out, int64_t capacity, int64_t *rows);

/* Compute the features of a whole utterance of 16-bit samples; see kf_compute(). */
KF_API kf_status kf_compute_int16(kf *frontend, const int16_t *samples, int64_t count, float *out, int64_t capacity,
                                  int64_t *rows);

/* Return the number of rows that the next `count` samples of a stream complete. If `ended`, include the rows that its end completes. */
KF_API int64_t kf_ready(const kf *frontend, int64_t count, int ended);

/* Take the next chunk of a stream, of any length, and write the rows that it completes. All rows of a stream together equal the rows
   that kf_compute() gives for the whole utterance.

   samples: (count); may be NULL if count is 0.
   out: (capacity, dim); may be NULL if no row is ready.
   capacity: rows that out has room for, at least kf_ready(frontend, count, 0).
   rows: receives the number of rows written.
   Returns KF_OK, KF_ERROR_STREAM, KF_ERROR_SAMPLES, KF_ERROR_BUFFER, KF_ERROR_ARGUMENT or KF_ERROR_BUILD. After an error, the stream
   is unchanged. */
KF_API kf_status kf_accept(kf *frontend, const float *samples, int64_t count, float *out, int64_t capacity, int64_t *rows);

/* Take the next chunk of a stream of 16-bit samples; see kf_accept(). */
KF_API kf_status kf_accept_int16(kf *frontend, const int16_t *samples, int64_t count, float *out, int64_t capacity,
                                 int64_t *rows);

/* End a stream: write its last rows, at most kf_ready(frontend, 0, 1), and start a new stream. Returns the same statuses as kf_accept(). */
KF_API kf_status kf_finish(kf *frontend, float *out, int64_t capacity, int64_t *rows);

/* Discard a stream that has begun. */
KF_API void kf_reset(kf *frontend);

/* Restart the dithering noise, like srand(seed). After kf_init(), the seed is 1, as in Kaldi's programs, which never call srand(). The
   noise of an utterance continues the noise of the utterance before it. */
KF_API void kf_seed(kf *frontend, uint32_t seed);

/* Return a line of text for a status, which states the problem and the remedy. */
KF_API const char *kf_strerror(kf_status status);

#ifdef __cplusplus
}
#endif
#endif /* KALDI_FEATURES_H */

#if defined(KALDI_FEATURES_IMPLEMENTATION) && !defined(KALDI_FEATURES_IMPLEMENTED)
#define KALDI_FEATURES_IMPLEMENTED

#include <float.h>
#include <string.h>

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) || defined(__ASSOCIATIVE_MATH__) ||      \
    defined(__RECIPROCAL_MATH__) || defined(_M_FP_FAST)
#error "kaldi_features.h: fast math changes the features. Compile this file without -ffast-math, -Ofast and /fp:fast"
#endif
#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16 /* 16 widens _Float16 only */
#error "kaldi_features.h: float arithmetic in a wider type changes the features. Compile with -msse2 -mfpmath=sse"
#endif

/* Turn off flags that change numbers. Operations must be fused only by explicit calls, but GCC fuses by default and ignores the
   standard's pragma. kf__is_exact() detects compilers that change numbers nevertheless. */
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpass-failed"       /* Loops are not vectorized without optimization. */
#pragma clang diagnostic ignored "-Wunknown-pragmas"   /* Clang has float_control since version 11, */
#pragma clang diagnostic ignored "-Wignored-pragmas"   /* and not for every processor. */
#pragma float_control(precise, on, push)
#if __clang_major__ >= 11
#pragma clang fp reassociate(off)
#endif
#pragma STDC FP_CONTRACT OFF
#define KF__INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC optimize("O3", "fp-contract=off", "no-math-errno", "no-trapping-math", "no-unsafe-math-optimizations",             \
                     "no-associative-math", "no-reciprocal-math", "no-finite-math-only", "signed-zeros", "no-rounding-math")
#define KF__INDEPENDENT _Pragma("GCC ivdep")
#else
#define KF__INDEPENDENT
#endif
#if defined(__GNUC__) && (defined(__FMA__) || defined(__ARM_FEATURE_FMA))
#define KF__HAS_FMA
#endif
#ifdef __GNUC__
#define KF__INLINE static inline __attribute__((always_inline))
#else
#define KF__INLINE static inline
#endif

/* Number of frames that are computed at a time. A frame is a lane of every array in a block, x[i * KF__LANES + lane]. Each frame sees
   Kaldi's scalar operations in Kaldi's order, and loops over lanes become vector instructions. */
#ifdef __AVX512F__
#define KF__LANES 16
#else
#define KF__LANES 8
#endif
#define KF__EACH(l) KF__INDEPENDENT for (int l = 0; l < KF__LANES; l++)

#define KF__PI 3.141592653589793
#define KF__EPSILON 1.1920928955078125e-07f /* of float */
#define KF__TINY 1.1754943508222875e-38f    /* the smallest normal float */

/* ---- Bits and fused operations ---- */

/* clang-format off */
KF__INLINE uint32_t kf__bits(float x) { uint32_t bits; memcpy(&bits, &x, sizeof bits); return bits; }
KF__INLINE uint64_t kf__bits64(double x) { uint64_t bits; memcpy(&bits, &x, sizeof bits); return bits; }
KF__INLINE float kf__float(uint32_t bits) { float x; memcpy(&x, &bits, sizeof x); return x; }
KF__INLINE double kf__double(uint64_t bits) { double x; memcpy(&x, &bits, sizeof x); return x; }
/* clang-format on */
KF__INLINE int kf__finite(double x) { return x - x == 0.0; }
#define KF__NEGATIVE_NAN kf__float(0xffc00000u)

/* a * b + c, rounded once. Without such an instruction, in double precision: the product is exact, and their sum is "rounded to odd",
   which keeps the second rounding, to float, from going the wrong way. */
KF__INLINE float kf__fused(float a, float b, float c) {
#ifdef KF__HAS_FMA
    return __builtin_fmaf(a, b, c);
#else
    const double product = (double)a * (double)b, term = (double)c, sum = product + term, part = sum - product;
    const double error = (product - (sum - part)) + (term - part); /* NaN if the sum is infinite */
    const uint64_t bits = kf__bits64(sum), even = ~bits & 1u;
    const uint64_t inexact = (uint64_t)(error > 0.0) | (uint64_t)(error < 0.0);
    const uint64_t outward = (uint64_t)((error > 0.0) == (sum > 0.0)); /* the bits of larger numbers are larger */
    return (float)kf__double(bits + (even & inexact) * (2u * outward - 1u));
#endif
}
/* Numbers of twice the precision: an unevaluated sum of two doubles. For tables, which the C library must not decide. */
typedef struct {
    double hi, lo;
} kf__pair;

KF__INLINE kf__pair kf__sum(double a, double b) {
    const double hi = a + b, part = hi - a;
    const kf__pair s = {hi, (a - (hi - part)) + (b - part)};
    return s;
}
KF__INLINE kf__pair kf__product(double a, double b) {
    const double as = 134217729.0 * a, bs = 134217729.0 * b;
    const double ah = as - (as - a), bh = bs - (bs - b), al = a - ah, bl = b - bh;
    const kf__pair p = {a * b, ((ah * bh - a * b) + ah * bl + al * bh) + al * bl};
    return p;
}
KF__INLINE kf__pair kf__pair_of(double hi, double lo) {
    const kf__pair s = {hi + lo, lo - ((hi + lo) - hi)};
    return s;
}
KF__INLINE kf__pair kf__plus(kf__pair a, kf__pair b) {
    const kf__pair s = kf__sum(a.hi, b.hi), t = kf__sum(a.lo, b.lo), u = kf__pair_of(s.hi, s.lo + t.hi);
    return kf__pair_of(u.hi, u.lo + t.lo);
}
KF__INLINE kf__pair kf__times(kf__pair a, kf__pair b) {
    const kf__pair p = kf__product(a.hi, b.hi);
    return kf__pair_of(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}
KF__INLINE kf__pair kf__over(kf__pair a, double b) {
    const double q = a.hi / b;
    const kf__pair p = kf__product(q, b);
    return kf__pair_of(q, ((a.hi - p.hi) - p.lo + a.lo) / b);
}
/* a * b + c of doubles, rounded once. */
static double kf__fused_double(double a, double b, double c) {
    const kf__pair p = kf__product(a, b), s = kf__sum(p.hi, c);
    const double rest = s.lo + p.lo;
    return kf__finite(rest) && rest != 0.0 ? s.hi + rest : s.hi;
}

/* ---- Functions of a double: rounded from twice the precision ---- */

static double kf__nearest(double x) { return (x + 6755399441055744.0) - 6755399441055744.0; }
static kf__pair kf__exp_pair(kf__pair x) /* from -110 to 110 */
{
    const double k = kf__nearest(x.hi / 0.6931471805599453);
    kf__pair r = kf__sum(x.hi, -k * 0.6931471803691238), term = {1.0, 0.0}, total = {1.0, 0.0};
    const kf__pair rest = kf__product(-k, 1.9082149292705877e-10);
    r = kf__plus(r, kf__pair_of(rest.hi, rest.lo + (x.lo - k * 1.1612227229362533e-26)));
    for (int n = 1; n < 30; n++) {
        term = kf__over(kf__times(term, r), (double)n);
        total = kf__plus(total, term);
    }
    const double scale = kf__double((uint64_t)((int64_t)k + 1023) << 52);
    total.hi *= scale, total.lo *= scale;
    return total;
}
/* Natural logarithm of a normal positive number: m 2^e, m near 1, by a series; accurate to about 1e-16 of max(1, |e|). */
KF__INLINE double kf__log_near(double x, double *exponent) {
    const uint64_t bits = kf__bits64(x), above = bits - 0x3fe6a09e667f3bcdu;
    const int64_t e = (int64_t)above >> 52;
    const double m = kf__double(bits - ((uint64_t)e << 52)), s = (m - 1.0) / (m + 1.0), s2 = s * s;
    double series = 1.0 / 23;
    for (int n = 21; n > 0; n -= 2) series = series * s2 + 1.0 / n;
    *exponent = (double)e;
    return 2.0 * s * series;
}

static kf__pair kf__log_pair(double x) {
    double e;
    const double y = kf__log_near(x, &e), m = kf__double(kf__bits64(x) - ((uint64_t)(int64_t)e << 52));
    const kf__pair start = {-y, 0.0}, factor = {m, 0.0}, one = {-1.0, 0.0}, near = {y, 0.0};
    const kf__pair error = kf__plus(kf__times(kf__exp_pair(start), factor), one); /* exp(log(m) - y) - 1 */
    const kf__pair twos = {e * 0.6931471803691238, 0.0}, rest = kf__product(e, 1.9082149292705877e-10);
    const kf__pair small = kf__pair_of(rest.hi, rest.lo + e * 1.1612227229362533e-26);
    const kf__pair log = kf__plus(near, kf__pair_of(error.hi, error.lo - 0.5 * error.hi * error.hi));
    return kf__plus(twos, kf__plus(small, log));
}
/* exp of a number with an error below 1e-12 of it: whether its float is beyond doubt. */
static double kf__exp_near(double x) {
    const double k = kf__nearest(x * 1.4426950408889634);
    const double r = (x - k * 0.6931471803691238) - k * 1.9082149292705877e-10;
    double series = 1.0;
    for (int n = 13; n > 0; n--) series = 1.0 + series * r / n;
    return series * kf__double((uint64_t)((int64_t)k + 1023) << 52);
}
static int kf__is_doubtful(double x) {
    const int64_t low = (int64_t)(kf__bits64(x) & 0x1fffffffu) - 0x10000000;
    return (low > -8192 && low < 8192) || x < 1.2e-38 || x > 3.4e38;
}
/* The C library's pow of numbers that are not negative, rounded to float. */
static float kf__power(double x, double y) {
    if (y == 0.0 || x == 1.0) return 1.0f;
    if (x != x || y != y) return (float)(x + y);
    if (x == 0.0) return y > 0.0 ? 0.0f : kf__float(0x7f800000u);
    if (x < 0.0) return KF__NEGATIVE_NAN;
    if (!kf__finite(x)) return y > 0.0 ? (float)x : 0.0f;
    double e;
    const double log = kf__log_near(x, &e), near = y * (log + e * 0.6931471805599453);
    if (near > 100.0) return kf__float(0x7f800000u);
    if (near < -110.0) return 0.0f;
    const double quick = kf__exp_near(near);
    if (!kf__is_doubtful(quick)) return (float)quick;
    const kf__pair factor = {y, 0.0};
    return (float)kf__exp_pair(kf__times(kf__log_pair(x), factor)).hi;
}
/* -log(1 / x), rounded to float. */
static float kf__log_of_inverse(float x) {
    const double inverse = 1.0 / (double)x;
    if (x != x || x < 0.0f) return x != x ? -x : -KF__NEGATIVE_NAN;
    if (x == 0.0f || inverse == 0.0) return kf__float(x == 0.0f ? 0xff800000u : 0x7f800000u);
    return (float)-kf__log_pair(inverse).hi;
}
/* Sine and cosine up to 2^30. */
typedef struct {
    double cosine, sine;
} kf__direction;

static kf__direction kf__turn(double x) {
    const double quarters = kf__nearest(x * 0.6366197723675814);
    kf__pair r = kf__product(-quarters, 1.5707963267948966), small = kf__product(-quarters, 6.123233995736766e-17);
    const kf__pair start = {x, 0.0};
    small.lo += quarters * 1.4973849048591833e-33;
    r = kf__plus(kf__plus(start, r), small);
    kf__pair parts[2] = {{1.0, 0.0}, {0.0, 0.0}}, term = {1.0, 0.0}; /* cosine and sine by their series */
    parts[1] = r;
    const kf__pair square = kf__times(r, r), minus = {-square.hi, -square.lo};
    for (int odd = 0; odd < 2; odd++) {
        if (odd) term = r;
        for (int n = 1; n < 16; n++) {
            term = kf__over(kf__times(term, minus), (double)((2 * n - 1 + odd) * (2 * n + odd)));
            parts[odd] = kf__plus(parts[odd], term);
        }
    }
    const int quadrant = (int)((int64_t)quarters & 3);
    const double s = parts[quadrant % 2 ? 0 : 1].hi, c = parts[quadrant % 2 ? 1 : 0].hi;
    const kf__direction direction = {(quadrant + 1) & 2 ? -c : c, quadrant & 2 ? -s : s};
    return direction;
}
/* Square root of a positive number. */
static double kf__sqrt(double x) {
    double y = kf__double(0x1ff7a3bea91d9b1bu + (kf__bits64(x) >> 1));
    for (int i = 0; i < 6; i++) y = 0.5 * (y + x / y);
    const kf__pair square = kf__product(y, y);
    return y + ((x - square.hi) - square.lo) / (2.0 * y);
}

/* ---- Functions of a float: those of glibc 2.28 and later, in double precision ---- */

/* The centers of 16 intervals: their inverse and their logarithm. From Szabolcs Nagy's "Arm optimized routines". */
static const double kf__log_table[16][2] = {
    {0x1.661ec79f8f3bep+0, -0x1.57bf7808caadep-2}, {0x1.571ed4aaf883dp+0, -0x1.2bef0a7c06ddbp-2},
    {0x1.49539f0f010bp+0, -0x1.01eae7f513a67p-2},  {0x1.3c995b0b80385p+0, -0x1.b31d8a68224e9p-3},
    {0x1.30d190c8864a5p+0, -0x1.6574f0ac07758p-3}, {0x1.25e227b0b8eap+0, -0x1.1aa2bc79c81p-3},
    {0x1.1bb4a4a1a343fp+0, -0x1.a4e76ce8c0e5ep-4}, {0x1.12358f08ae5bap+0, -0x1.1973c5a611cccp-4},
    {0x1.0953f419900a7p+0, -0x1.252f438e10c1ep-5}, {0x1p+0, 0x0p+0},
    {0x1.e608cfd9a47acp-1, 0x1.aa5aa5df25984p-5},  {0x1.ca4b31f026aap-1, 0x1.c5e53aa362eb4p-4},
    {0x1.b2036576afce6p-1, 0x1.526e57720db08p-3},  {0x1.9c2d163a1aa2dp-1, 0x1.bc2860d22477p-3},
    {0x1.886e6037841edp-1, 0x1.1058bc8a07ee1p-2},  {0x1.767dcf5534862p-1, 0x1.4043057b6ee09p-2}};

/* Natural logarithm of normal positive numbers; infinity and NaN stay. */
KF__INLINE float kf__log(float x) {
    const uint32_t bits = kf__bits(x), above = bits - 0x3f330000u;
    const double *row = kf__log_table[(above >> 19) & 15u];
    const int32_t exponent = (int32_t)above >> 23;
    const double z = (double)kf__float(bits - ((uint32_t)exponent << 23)), r = z * row[0] - 1.0, r2 = r * r;
    const double y0 = row[1] + (double)exponent * 0x1.62e42fefa39efp-1;
    const double y = (-0x1.00ea348b88334p-2 * r2 + (0x1.5575b0be00b6ap-2 * r + -0x1.ffffef20a4123p-2)) * r2 + (y0 + r);
    return x <= FLT_MAX ? (float)y : x;
}
static float kf__exp(float x) {
    if (x != x) return x;
    if (x > 0x1.62e42ep6f) return kf__float(0x7f800000u);
    if (x < -0x1.9fe368p6f) return 0.0f;
    const double steps = 0x1.71547652b82fep+5 * (double)x, whole = kf__nearest(steps), r = steps - whole;
    const int64_t k = (int64_t)whole, row = ((k % 32) + 32) % 32;
    const kf__pair ln2 = {0.6931471805599453, 2.3190468138462996e-17}, share = {(double)row / 32.0, 0.0};
    const double scale = kf__exp_pair(kf__times(ln2, share)).hi * kf__double((uint64_t)((k - row) / 32 + 1023) << 52);
    const double c0 = 0x1.c6af84b912394p-20, c1 = 0x1.ebfce50fac4f3p-13, c2 = 0x1.62e42ff0c52d6p-6;
    return (float)(((c0 * r + c1) * (r * r) + (c2 * r + 1.0)) * scale);
}
/* Sine and cosine up to a few turns. */
KF__INLINE void kf__sin_cos(float angle, float *sine, float *cosine) {
    const double wide = (double)angle, shifted = wide * (2.0 / KF__PI) + 0x1.8p52;
    const double x = wide - (shifted - 0x1.8p52) * (KF__PI / 2.0), x2 = x * x, x4 = x2 * x2;
    const double s = (x + x * x2 * -0x1.555545995a603p-3) + x * x4 * (0x1.1107605230bc4p-7 + x2 * -0x1.994eb3774cf24p-13);
    const double c = ((1.0 + x2 * -0x1.ffffffd0c621cp-2) + x4 * 0x1.55553e1068f19p-5) +
                     x2 * x4 * (-0x1.6c087e89a359dp-10 + x2 * 0x1.99343027bf8c3p-16);
    const uint32_t quadrant = (uint32_t)kf__bits64(shifted);
    const float first = (float)(quadrant & 1u ? c : s), second = (float)(quadrant & 1u ? s : c);
    *sine = kf__float(kf__bits(first) ^ (quadrant & 2u) << 30);
    *cosine = kf__float(kf__bits(second) ^ ((quadrant + 1u) & 2u) << 30);
}
/* Square root of a float that is not negative, by Newton's method in double precision: correctly rounded. */
KF__INLINE float kf__sqrt_float(float value) {
    const double x = (double)value;
    double r = kf__double(0x5fe6eb50c7b537a9u - (kf__bits64(x) >> 1));
    r = r * (1.5 - 0.5 * x * r * r);
    r = r * (1.5 - 0.5 * x * r * r);
    r = r * (1.5 - 0.5 * x * r * r);
    r = r * (1.5 - 0.5 * x * r * r);
    const double y = x * r;
    return value <= FLT_MAX ? (float)(y + 0.5 * r * (x - y * y)) : value;
}

/* ---- Presets: written by `make generate` from kaldi_compat/frontends/presets ---- */
/* WebAssembly defines KF_NO_PRESETS, because its JavaScript brings the presets along. */

typedef struct {
    const char *name;
    int32_t feature;
    const char *options, *statistics;
} kf__preset;

static const kf__preset kf__presets[] = {
#ifndef KF_NO_PRESETS
    /* presets: begin */
    {"ast", KF_FBANK, "window_type=hanning num_mel_bins=128 allow_empty_bins=1 pad_frames=1024 global_mean=-4.2677393 global_std=9.1379948", NULL},
    {"audiomae", KF_FBANK, "window_type=hanning num_mel_bins=128 htk_compat=1 allow_empty_bins=1 subtract_clip_mean=1 pad_frames=1024 global_mean=-4.2677393 global_std=9.1379948", NULL},
    {"beats", KF_FBANK, "num_mel_bins=128 allow_empty_bins=1 waveform_scale=32768 global_mean=15.41663 global_std=13.11164", NULL},
    {"campplus", KF_FBANK, "num_mel_bins=80 utterance_cmvn=1", NULL},
    {"chatterbox", KF_FBANK, "num_mel_bins=80 utterance_cmvn=1", NULL},
    {"cosyvoice", KF_FBANK, "num_mel_bins=80 utterance_cmvn=1", NULL},
    {"eat", KF_FBANK, "window_type=hanning num_mel_bins=128 htk_compat=1 allow_empty_bins=1 subtract_clip_mean=1 pad_frames=1024 global_mean=-4.268 global_std=9.138", NULL},
    {"eres2net", KF_FBANK, "num_mel_bins=80 utterance_cmvn=1", NULL},
    {"fireredasr", KF_FBANK, "num_mel_bins=80 waveform_scale=32768", "cmvn.ark"},
    {"fireredasr2", KF_FBANK, "num_mel_bins=80 waveform_scale=32768", "cmvn.ark"},
    {"fireredlid", KF_FBANK, "num_mel_bins=80 waveform_scale=32768", "cmvn.ark"},
    {"fireredvad", KF_FBANK, "num_mel_bins=80 waveform_scale=32768", "cmvn.ark"},
    {"fsmn-vad", KF_FBANK, "window_type=hamming num_mel_bins=80 waveform_scale=32768 shorten_frame=1 lfr_stack=5 lfr_stride=1", "am.mvn"},
    {"hubert-mfcc", KF_MFCC, "use_energy=0 delta_order=2 delta_window=2", NULL},
    {"imagebind", KF_FBANK, "window_type=hanning num_mel_bins=128 htk_compat=1 allow_empty_bins=1 subtract_clip_mean=1 pad_frames=204 global_mean=-4.268 global_std=9.138", NULL},
    {"index-tts", KF_FBANK, "num_mel_bins=80 utterance_cmvn=1", NULL},
    {"kaldi-hires", KF_MFCC, "num_mel_bins=40 high_freq=-400 use_energy=0 num_ceps=40 waveform_scale=32768", NULL},
    {"mae-ast", KF_FBANK, "num_mel_bins=128 allow_empty_bins=1", NULL},
    {"medasr", KF_FBANK, "preemphasis_coefficient=0 remove_dc_offset=0 window_type=hanning num_mel_bins=128 low_freq=125 high_freq=7500 allow_empty_bins=1 double_precision=1 floor_minimum=-11.512925464970229", NULL},
    {"paraformer", KF_FBANK, "window_type=hamming num_mel_bins=80 waveform_scale=32768 shorten_frame=1 lfr_stack=7 lfr_stride=6", "am.mvn"},
    {"phi4-multimodal", KF_FBANK, "remove_dc_offset=0 window_type=hamming num_mel_bins=80 low_freq=0 high_freq=7690 waveform_scale=32768 floor_minimum=0", NULL},
    {"pyannote-wespeaker", KF_FBANK, "window_type=hamming num_mel_bins=80 waveform_scale=32768 utterance_cmvn=1", NULL},
    {"seamless-m4t", KF_FBANK, "num_mel_bins=80 waveform_scale=32768 utterance_cmvn=1 utterance_norm_vars=1 utterance_unbiased=1 utterance_epsilon=1e-07 stack_frames=2", NULL},
    {"seed-vc", KF_FBANK, "num_mel_bins=80 utterance_cmvn=1", NULL},
    {"sensevoice", KF_FBANK, "window_type=hamming num_mel_bins=80 waveform_scale=32768 shorten_frame=1 lfr_stack=7 lfr_stride=6", "am.mvn"},
    {"sonar", KF_FBANK, "num_mel_bins=80 waveform_scale=32768 utterance_cmvn=1 utterance_norm_vars=1 utterance_unbiased=1", NULL},
    {"speech2text", KF_FBANK, "num_mel_bins=80 waveform_scale=32768 utterance_cmvn=1 utterance_norm_vars=1", NULL},
    {"sre16-xvector", KF_MFCC, "snip_edges=0 high_freq=3700 num_ceps=23 sample_frequency=8000 waveform_scale=32768 keep_voiced=1 vad_energy_threshold=5.5 vad_energy_mean_scale=0.5 vad_frames_context=2 vad_proportion_threshold=0.12 cmn_window=300 min_cmn_window=100 cmn_center=1", NULL},
    {"ssast", KF_FBANK, "window_type=hanning num_mel_bins=128 htk_compat=1 allow_empty_bins=1 subtract_clip_mean=1 pad_frames=1024 global_mean=-4.2677393 global_std=9.1379948", NULL},
    {"step-audio", KF_FBANK, "num_mel_bins=80 utterance_cmvn=1", NULL},
    {"telespeech", KF_MFCC, "num_mel_bins=40 low_freq=40 high_freq=-200 use_energy=0 num_ceps=40 waveform_scale=32768 utterance_cmvn=1 utterance_norm_vars=1 utterance_epsilon=1e-10", NULL},
    {"voxceleb-xvector", KF_MFCC, "snip_edges=0 num_mel_bins=30 high_freq=7600 num_ceps=30 waveform_scale=32768 keep_voiced=1 vad_energy_threshold=5.5 vad_energy_mean_scale=0.5 vad_frames_context=2 vad_proportion_threshold=0.12 cmn_window=300 min_cmn_window=100 cmn_center=1", NULL},
    {"wav2vec2-bert", KF_FBANK, "num_mel_bins=80 waveform_scale=32768 utterance_cmvn=1 utterance_norm_vars=1 utterance_unbiased=1 utterance_epsilon=1e-07 stack_frames=2", NULL},
    {"wekws", KF_FBANK, "num_mel_bins=40 waveform_scale=32768", "global_cmvn"},
    {"wekws-mfcc", KF_MFCC, "num_mel_bins=80 use_energy=0 num_ceps=80 waveform_scale=32768", "global_cmvn"},
    {"wenet", KF_FBANK, "num_mel_bins=80 waveform_scale=32768", "global_cmvn"},
    {"wespeaker", KF_FBANK, "window_type=hamming num_mel_bins=80 waveform_scale=32768 utterance_cmvn=1", NULL},
    {"zipformer", KF_FBANK, "snip_edges=0 num_mel_bins=80 high_freq=-400", NULL},
    /* presets: end */
#endif
    {NULL, 0, NULL, NULL},
};

/* ---- Options ---- */

/* Type: feature, window, boolean, integer, float or double. */
typedef struct {
    const char *name;
    size_t offset;
    char type;
    double standard, low, high;
} kf__field;

/* clang-format off */
#define KF__MAX_FLOAT 3.4028234663852886e38
#define KF__FIELD(name, type, standard, low, high) {#name, offsetof(kf_options, name), type, standard, low, high}
#define KF__FLAG(name, standard) KF__FIELD(name, 'b', standard, 0, 1)
#define KF__REAL(name, standard) KF__FIELD(name, 'f', standard, -KF__MAX_FLOAT, KF__MAX_FLOAT)
static const kf__field kf__fields[] = {
    KF__FIELD(feature, 'F', KF_FBANK, 0, 3), KF__FIELD(window_type, 'W', KF_POVEY, 0, 5), KF__REAL(sample_frequency, 16000),
    KF__REAL(frame_length, 25), KF__REAL(frame_shift, 10), KF__FIELD(preemphasis_coefficient, 'f', 0.97, 0, 1),
    KF__REAL(dither, 1), KF__REAL(blackman_coeff, 0.42), KF__FIELD(waveform_scale, 'f', 1, 1e-37, KF__MAX_FLOAT),
    KF__FIELD(full_scale, 'f', 32768, 1e-37, KF__MAX_FLOAT), KF__FLAG(remove_dc_offset, 1),
    KF__FLAG(round_to_power_of_two, 1), KF__FLAG(snip_edges, 1), KF__FIELD(num_mel_bins, 'i', 23, 0, 1 << 26),
    KF__REAL(low_freq, 20), KF__REAL(high_freq, 0), KF__REAL(vtln_low, 100), KF__REAL(vtln_high, -500), KF__REAL(vtln_warp, 1),
    KF__FLAG(htk_compat, 0), KF__FLAG(allow_empty_bins, 0), KF__FLAG(use_energy, 1), KF__FLAG(raw_energy, 1),
    KF__REAL(energy_floor, 0), KF__FLAG(use_log_fbank, 1), KF__FLAG(use_power, 1), KF__FIELD(num_ceps, 'i', 13, 0, 1 << 26),
    KF__FIELD(lpc_order, 'i', 12, 0, 1 << 26), KF__REAL(cepstral_lifter, 22), KF__REAL(cepstral_scale, 1),
    KF__REAL(compress_factor, 0.33333), KF__FLAG(return_raw_fft, 0), KF__FLAG(subtract_clip_mean, 0),
    KF__FLAG(shorten_frame, 0), KF__FLAG(double_precision, 0), KF__FLAG(subtract_mean, 0),
    KF__FIELD(cmn_window, 'i', 0, 0, 1 << 24), KF__FIELD(min_cmn_window, 'i', 100, 0, 1 << 24), KF__FLAG(cmn_center, 0),
    KF__FLAG(keep_voiced, 0), KF__REAL(vad_energy_threshold, 5), KF__FIELD(vad_energy_mean_scale, 'f', 0.5, 0, KF__MAX_FLOAT),
    KF__FIELD(vad_proportion_threshold, 'f', 0.6, 1e-37, 0.99999994), KF__FIELD(vad_frames_context, 'i', 0, 0, 1 << 24),
    KF__FLAG(utterance_cmvn, 0), KF__FLAG(utterance_norm_vars, 0), KF__FLAG(utterance_unbiased, 0),
    KF__FIELD(delta_order, 'i', 0, 0, 999), KF__FIELD(utterance_epsilon, 'd', 0, 0, KF__MAX_FLOAT),
    KF__FIELD(delta_window, 'i', 2, 1, 999), KF__FIELD(lfr_stack, 'i', 1, 1, 999), KF__FIELD(lfr_stride, 'i', 1, 1, 999),
    KF__FIELD(stack_frames, 'i', 1, 1, 999), KF__FIELD(pad_frames, 'i', 0, 0, 1 << 24),
    KF__FIELD(num_statistics, 'i', 0, 0, 1 << 28), KF__FIELD(global_mean, 'd', 0, -KF__MAX_FLOAT, KF__MAX_FLOAT),
    KF__FIELD(global_std, 'd', 1, 1e-37, 1e+37),
    KF__FIELD(floor_minimum, 'd', -KF__MAX_FLOAT, -KF__MAX_FLOAT, KF__MAX_FLOAT)};
/* clang-format on */
#define KF__NUM_FIELDS ((int)(sizeof kf__fields / sizeof *kf__fields))

static const char *const kf__features[] = {"fbank", "mfcc", "plp", "spectrogram", NULL};
static const char *const kf__windows[] = {"povey", "hamming", "hanning", "rectangular", "sine", "blackman", NULL};

static void kf__write_field(kf_options *options, const kf__field *field, double value) {
    char *place = (char *)options + field->offset;
    const float narrow = field->type == 'f' ? (float)value : 0.0f;
    const int32_t integer = field->type == 'f' || field->type == 'd' ? 0 : (int32_t)value;
    if (field->type == 'f') memcpy(place, &narrow, sizeof narrow);
    else if (field->type == 'd') memcpy(place, &value, sizeof value);
    else memcpy(place, &integer, sizeof integer);
}
static double kf__read_field(const kf_options *options, const kf__field *field) {
    const char *place = (const char *)options + field->offset;
    float narrow;
    double value = 0.0;
    int32_t integer;
    memcpy(&narrow, place, sizeof narrow);
    memcpy(&integer, place, sizeof integer);
    if (field->type == 'd') memcpy(&value, place, sizeof value);
    return field->type == 'f' ? (double)narrow : field->type == 'd' ? value : (double)integer;
}
static int kf__fields_are_valid(const kf_options *options) {
    for (int i = 0; i < KF__NUM_FIELDS; i++) {
        const double value = kf__read_field(options, kf__fields + i);
        if (!(value >= kf__fields[i].low && value <= kf__fields[i].high)) return 0;
    }
    return 1;
}
KF_API kf_status kf_defaults(kf_options *options, int32_t feature) {
    if (!options) return KF_ERROR_ARGUMENT;
    if (options->struct_size != sizeof *options) return KF_ERROR_STRUCT_SIZE;
    if (feature < KF_FBANK || feature > KF_SPECTROGRAM) return KF_ERROR_VALUE;
    memset(options, 0, sizeof *options);
    options->struct_size = (uint32_t)sizeof *options;
    for (int i = 0; i < KF__NUM_FIELDS; i++) kf__write_field(options, kf__fields + i, kf__fields[i].standard);
    options->feature = feature;
    options->use_energy = feature != KF_FBANK;
    return KF_OK;
}
/* Read a decimal number, of which 18 digits count; return 0 if it is none. */
static int kf__read_number(const char *text, double *number) {
    const int negative = *text == '-';
    uint64_t digits = 0;
    int power = 0, any = 0, after = 0, exponent = 0;
    for (text += negative || *text == '+'; (*text >= '0' && *text <= '9') || (*text == '.' && !after); text++) {
        const int is_counted = digits < 100000000000000000u;
        if (*text != '.')
            any = 1, digits = is_counted ? 10u * digits + (uint64_t)(*text - '0') : digits, power += !is_counted - after;
        else after = 1;
    }
    if (any && (*text == 'e' || *text == 'E')) {
        const int minus = text[1] == '-', first = minus || text[1] == '+' ? 2 : 1;
        any = text[first] != 0;
        for (text += first; *text >= '0' && *text <= '9'; text++)
            exponent = exponent < 1000 ? 10 * exponent + (*text - '0') : exponent;
        power += minus ? -exponent : exponent;
    }
    const kf__pair high = {(double)(digits >> 32) * 4294967296.0, 0.0}, low = {(double)(digits & 0xffffffffu), 0.0},
                   ten = {10.0, 0.0};
    kf__pair value = kf__plus(high, low);
    for (int i = 0; i < power && i < 300 && value.hi < 1e300; i++) value = kf__times(value, ten);
    for (int i = 0; i > power && i > -400; i--) value = kf__over(value, 10.0);
    *number = negative ? -value.hi : value.hi;
    return any && !*text && kf__finite(value.hi);
}

static char kf__lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }
/* Whether a word is this name, in any case, with '-' or '_'. */
static int kf__is_name(const char *name, const char *word) {
    for (; *name; name++, word++)
        if (*name != (*word == '-' ? '_' : kf__lower(*word))) return 0;
    return !*word;
}
static int kf__choice(const char *const *names, const char *value) {
    int i = 0;
    while (names[i] && strcmp(names[i], value) != 0) i++;
    return names[i] ? i : -1;
}
static int kf__is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
/* Set an option by a line of a configuration file, as Kaldi's ReadConfigFile() reads it. */
static kf_status kf__set_by_line(kf_options *options, const char *line) {
    char name[256];
    const char *value = "true";
    size_t length = 0;
    while (kf__is_blank(*line)) line++;
    while (line[length] && line[length] != '#') length++;
    while (length && kf__is_blank(line[length - 1])) length--;
    if (!length) return KF_OK;
    if (length >= sizeof name || line[0] != '-' || line[1] != '-') return KF_ERROR_NAME;
    memcpy(name, line, length);
    name[length] = 0;
    for (char *c = name; *c; c++) {
        if (*c != '=') continue;
        *c = 0;
        value = c + 1;
        while (kf__is_blank(*value)) value++;
        break;
    }
    return kf_set(options, name, value);
}
KF_API kf_status kf_set(kf_options *options, const char *name, const char *value) {
    if (!options || !name) return KF_ERROR_ARGUMENT;
    if (options->struct_size != sizeof *options) return KF_ERROR_STRUCT_SIZE;
    if (!value) return kf__set_by_line(options, name);
    name += name[0] == '-' && name[1] == '-' ? 2 : 0;
    int i = 0;
    while (i < KF__NUM_FIELDS && !kf__is_name(kf__fields[i].name, name)) i++;
    if (i == KF__NUM_FIELDS) return KF_ERROR_NAME;
    const char type = kf__fields[i].type;
    double number = 0.0;
    if (type == 'F' || type == 'W') number = kf__choice(type == 'F' ? kf__features : kf__windows, value);
    else if (type == 'b' && (kf__is_name("true", value) || kf__is_name("t", value))) number = 1.0;
    else if (type == 'b' && (kf__is_name("false", value) || kf__is_name("f", value))) number = 0.0;
    else if (!kf__read_number(value, &number) || (type != 'f' && type != 'd' && number != kf__nearest(number)))
        return KF_ERROR_VALUE;
    if (!(number >= -KF__MAX_FLOAT && number <= KF__MAX_FLOAT) ||
        (type != 'f' && type != 'd' && !(number >= kf__fields[i].low && number <= kf__fields[i].high)))
        return KF_ERROR_VALUE;
    kf__write_field(options, kf__fields + i, number);
    return KF_OK;
}

KF_API const char *kf_version(void) { return KF_VERSION; }
KF_API size_t kf_options_size(void) { return sizeof(kf_options); }
KF_API kf_status kf_set_statistics(kf_options *options, const float *shift, const float *scale, int32_t columns) {
    if (!options || columns < 0 || (columns && (!shift || !scale))) return KF_ERROR_ARGUMENT;
    if (options->struct_size != sizeof *options) return KF_ERROR_STRUCT_SIZE;
    options->shift = shift, options->scale = scale, options->num_statistics = columns, options->statistics = NULL;
    return KF_OK;
}
KF_API const char *kf_preset_name(int index) {
    const int count = (int)(sizeof kf__presets / sizeof *kf__presets);
    return index >= 0 && index < count ? kf__presets[index].name : NULL; /* the last one has no name */
}
KF_API kf_status kf_from_preset(const char *name, kf_options *options) {
    int i = 0;
    if (!name || !options) return KF_ERROR_ARGUMENT;
    while (kf_preset_name(i) && strcmp(kf_preset_name(i), name) != 0) i++;
    if (!kf_preset_name(i)) return KF_ERROR_NAME;
    const kf_status status = kf_defaults(options, kf__presets[i].feature);
    if (status != KF_OK) return status;
    options->dither = 0.0f, options->full_scale = 1.0f;
    options->statistics = kf__presets[i].statistics;
    for (const char *text = kf__presets[i].options; *text;) {
        char words[2][64] = {{0}, {0}};
        for (int word = 0, at = 0; *text && *text != ' '; text++) {
            if (*text == '=') word = 1, at = 0;
            else if (at < 63) words[word][at++] = *text;
        }
        text += *text == ' ';
        const kf_status done = kf_set(options, words[0], words[1]);
        if (done != KF_OK) return done;
    }
    return KF_OK;
}
KF_API const char *kf_strerror(kf_status status) {
#define KF__STATUS_TEXT(name, text) text,
    static const char *const texts[] = {KF_STATUSES(KF__STATUS_TEXT)};
    return (int)status >= 0 && (int)status < KF_NUM_STATUSES ? texts[status] : "an unknown status";
}

/* ---- The plan: everything that does not depend on the audio ---- */

typedef struct {
    int size, shift, points, half, log_half; /* log2 of half, or -1 if that is no power of two */
    int dim, num_factors, largest_factor;
    int factors[32];
    int num_weights; /* room for mel weights */
    float energy_minimum, log_energy_floor;
    float *window;       /* (size) */
    float *twiddles;     /* of the split-radix steps of 8, 16, ... points: 6 for each of their first quarters */
    float *mixed_roots;  /* of each step of the mixed radix: (points of the step, 2) */
    float *roots;        /* (half / 2, 2): exp(-2 pi i k / points), k = 1, 2, ... */
    int32_t *order;      /* (half): where the FFT leaves each result */
    kf__direction *turn; /* (points), for double_precision */
    int32_t *mel;        /* (num_mel_bins, 3): first FFT bin, number of weights, and where they start */
    float *weights, *loudness, *matrix, *lifter;
} kf__plan;

/* Hands out parts of a memory; without one, counts only. */
typedef struct {
    char *memory;
    uint64_t used;
} kf__arena;

static void *kf__take(kf__arena *arena, int64_t count, size_t each) {
    void *part = arena->memory ? arena->memory + arena->used : NULL;
    arena->used += ((uint64_t)count * each + 63u) & ~(uint64_t)63;
    return part;
}
/* A frame's length or shift in samples; -1 if that is no such number. */
static int kf__in_samples(const kf_options *o, float milliseconds) {
    const double samples = (double)o->sample_frequency * 0.001 * (double)milliseconds;
    return samples >= 0.0 && samples < 2147483648.0 ? (int)samples : -1;
}
static float kf__high_freq(const kf_options *o) {
    const float nyquist = 0.5f * o->sample_frequency;
    return o->high_freq > 0.0f ? o->high_freq : nyquist + o->high_freq;
}
/* Sizes of a plan, of options that were checked; size: 0 or that of a shorter frame. */
static void kf__measure(kf__plan *p, const kf_options *o, float frame_length) {
    memset(p, 0, sizeof *p);
    p->size = kf__in_samples(o, frame_length);
    p->shift = kf__in_samples(o, o->frame_shift);
    p->points = p->size;
    if (o->round_to_power_of_two)
        for (p->points = 1; p->points < p->size;) p->points *= 2;
    p->half = p->points / 2;
    p->log_half = -1;
    if ((p->half & (p->half - 1)) == 0)
        for (p->log_half = 0; 1 << p->log_half < p->half;) p->log_half++;
    for (int left = p->log_half < 0 ? p->half : 1, factor = 2; left > 1;) {
        if (factor > left / factor && left % factor) factor = left;
        if (left % factor == 0) p->factors[p->num_factors++] = p->largest_factor = factor, left /= factor;
        else factor++;
    }
    p->num_weights = o->feature == KF_SPECTROGRAM ? 0 : p->points + o->num_mel_bins + 64;
    p->dim = o->feature == KF_FBANK         ? o->num_mel_bins + (o->use_energy != 0)
             : o->feature != KF_SPECTROGRAM ? o->num_ceps
             : o->return_raw_fft            ? p->points
                                            : p->half + 1;
}
static void kf__lay_out(kf__plan *p, const kf_options *o, kf__arena *arena) {
    const int mixed = p->log_half < 0, bins = o->feature == KF_SPECTROGRAM ? 0 : o->num_mel_bins;
    const int64_t rows = o->feature == KF_MFCC ? o->num_ceps : o->feature == KF_PLP ? o->lpc_order + 1 : 0;
    const int64_t matrix = rows * (o->feature == KF_PLP ? bins + 2 : bins);
    p->window = (float *)kf__take(arena, p->size, sizeof(float));
    p->twiddles = (float *)kf__take(arena, p->log_half >= 3 ? ((int64_t)3 << p->log_half) - 12 : 0, sizeof(float));
    p->mixed_roots = (float *)kf__take(arena, mixed ? 4 * (int64_t)p->half : 0, sizeof(float));
    p->roots = (float *)kf__take(arena, p->half, sizeof(float));
    p->order = (int32_t *)kf__take(arena, p->half, sizeof(int32_t));
    p->turn = (kf__direction *)kf__take(arena, o->double_precision ? p->points : 0, sizeof *p->turn);
    p->mel = (int32_t *)kf__take(arena, 3 * (int64_t)bins, sizeof(int32_t));
    p->weights = (float *)kf__take(arena, p->num_weights, sizeof(float));
    p->loudness = (float *)kf__take(arena, bins, sizeof(float));
    p->matrix = (float *)kf__take(arena, matrix, sizeof(float));
    p->lifter = (float *)kf__take(arena, bins ? o->num_ceps : 0, sizeof(float));
}
static void kf__fill_window(const kf__plan *p, const kf_options *o) {
    const double step = 2.0 * KF__PI / (p->size > 1 ? p->size - 1 : 1), blackman = (double)o->blackman_coeff;
    for (int i = 0; i < p->size; i++) {
        const int type = o->window_type;
        const double cosine = type == KF_RECTANGULAR || type == KF_SINE ? 0.0 : kf__turn(step * i).cosine;
        p->window[i] = type == KF_HAMMING   ? (float)(0.54 - 0.46 * cosine)
                       : type == KF_HANNING ? (float)(0.5 - 0.5 * cosine)
                       : type == KF_POVEY   ? kf__power(0.5 - 0.5 * cosine, 0.85)
                       : type == KF_SINE    ? (float)kf__turn(0.5 * step * i).sine
                       : type == KF_BLACKMAN
                           ? (float)(blackman - 0.5 * cosine + (0.5 - blackman) * kf__turn(2.0 * step * i).cosine)
                           : 1.0f;
    }
}
/* Powers of a root of unity, from the first on, each the rounded product of the one before and it. */
static void kf__powers(int n, int count, float *powers) {
    float root_re, root_im, re = 1.0f, im = 0.0f;
    kf__sin_cos((float)(-2.0 * KF__PI / n), &root_im, &root_re);
    for (int k = 0; k < count; k++, powers += 2) {
        const float next = re * root_re - im * root_im;
        im = re * root_im + im * root_re;
        re = next;
        powers[0] = re, powers[1] = im;
    }
}
static void kf__fill_fft(const kf__plan *p, const kf_options *o) {
    if (o->double_precision) {
        for (int k = 0; k < p->points; k++) p->turn[k] = kf__turn(2.0 * KF__PI * k / p->points);
        return;
    }
    float *twiddle = p->twiddles;
    for (int size = 8; size <= p->half && p->log_half >= 0; size *= 2)
        for (int n = 0; n < size / 4; n++)
            for (int step = 1; step <= 3; step += 2, twiddle += 3) {
                float sine, cosine;
                kf__sin_cos((float)((double)((int64_t)step * n) * (2.0 * KF__PI) / size), &sine, &cosine);
                twiddle[0] = cosine, twiddle[1] = -(sine + cosine), twiddle[2] = sine - cosine;
            }
    kf__powers(p->points, p->half / 2, p->roots);
    for (int k = 0; k < p->half; k++) { /* the bits of each number in reverse, or the number itself */
        p->order[k] = p->log_half < 0 ? k : 0;
        for (int bit = 0; bit < p->log_half; bit++) p->order[k] |= (k >> bit & 1) << (p->log_half - 1 - bit);
    }
    if (p->log_half >= 0) return;
    float *root = p->mixed_roots;
    int n = p->half;
    for (int f = 0; f < p->num_factors; f++, root += 2 * n, n /= p->factors[f - 1]) {
        const int radix = p->factors[f], length = n / radix;
        float turn[2];
        root[0] = 1.0f, root[1] = 0.0f;
        kf__powers(n, length - 1, root + 2);
        kf__powers(radix, 1, turn);
        for (int i = length; i < n; i++) {
            const float *before = root + 2 * (i - length);
            root[2 * i] = before[0] * turn[0] - before[1] * turn[1];
            root[2 * i + 1] = before[0] * turn[1] + before[1] * turn[0];
        }
    }
}

static float kf__mel_scale(float frequency) { return 1127.0f * kf__log(1.0f + frequency / 700.0f); }
static float kf__inverse_mel_scale(float mel) { return 700.0f * (kf__exp(mel / 1127.0f) - 1.0f); }
/* Kaldi's piecewise linear frequency warp. Fails if its inflection points leave the mel bins' range. */
static kf_status kf__warp(const kf_options *o, float *frequency) {
    const float nyquist = 0.5f * o->sample_frequency, factor = o->vtln_warp, low = o->low_freq, high = kf__high_freq(o);
    const float low_cutoff = o->vtln_low, high_cutoff = o->vtln_high + (o->vtln_high < 0.0f ? nyquist : 0.0f);
    const float lower = low_cutoff * (factor > 1.0f ? factor : 1.0f), upper = high_cutoff * (factor < 1.0f ? factor : 1.0f);
    const float scale = 1.0f / factor, f = *frequency;
    if (!(factor > 0.0f && (low > 0.0f ? low : 0.0f) < low_cutoff && low_cutoff < high_cutoff && high_cutoff < high &&
          lower > low && upper < high))
        return KF_ERROR_VTLN;
    const float left_slope = (scale * lower - low) / (lower - low), right_slope = (high - scale * upper) / (high - upper);
    if (f >= low && f <= high)
        *frequency = f < lower ? low + left_slope * (f - low) : f < upper ? scale * f : high + right_slope * (f - high);
    return KF_OK;
}
static kf_status kf__fill_mel(const kf__plan *p, const kf_options *o, int allow_empty) {
    const float mel_low = kf__mel_scale(o->low_freq), mel_high = kf__mel_scale(kf__high_freq(o));
    const float delta = (mel_high - mel_low) / (float)(o->num_mel_bins + 1), width = o->sample_frequency / (float)p->points;
    float edges[3];
    int used = 0, start = 0;
    for (int bin = -2; bin < o->num_mel_bins; bin++) {
        edges[0] = edges[1], edges[1] = edges[2];
        edges[2] = mel_low + (float)(bin + 2) * delta;
        if (o->vtln_warp != 1.0f) {
            float frequency = kf__inverse_mel_scale(edges[2]);
            const kf_status status = kf__warp(o, &frequency);
            if (status != KF_OK) return status;
            edges[2] = kf__mel_scale(frequency);
        }
        if (bin < 0) continue;
        const float left = edges[0], center = edges[1], right = edges[2];
        int first = 0, end = 0, inside = 0;
        while (start > 0 && kf__mel_scale(width * (float)start) > left) start--;
        for (int i = start; i < p->half; i++) {
            const float mel = kf__mel_scale(width * (float)i);
            if (mel >= right) break;
            start = mel > left ? start : i;
            if (!(mel > left)) continue;
            inside = 1;
            const float weight = mel <= center ? (mel - left) / (center - left) : (right - mel) / (right - center);
            if (weight != 0.0f) first = end ? first : i, end = i + 1;
            if (!end) continue;
            if (used + (i - first) >= p->num_weights) return KF_ERROR_MEL_BINS;
            p->weights[used + (i - first)] = weight;
        }
        if (!inside && !allow_empty) return KF_ERROR_MEL_BINS;
        if (!end) /* no weights are a single weight of zero */
            end = 1, p->weights[used] = 0.0f;
        p->mel[3 * bin] = first, p->mel[3 * bin + 1] = end - first, p->mel[3 * bin + 2] = used;
        used += end - first;
        if (used >= p->num_weights) return KF_ERROR_MEL_BINS;
        const float hz = kf__inverse_mel_scale(center), squared = hz * hz;
        const double wide = (double)squared;
        const float share = (float)(wide / (wide + 1.6e5)), square = share * share;
        p->loudness[bin] = (float)((double)square * ((wide + 1.44e6) / (wide + 9.61e6)));
    }
    return KF_OK;
}
static void kf__fill_cepstra(const kf__plan *p, const kf_options *o) {
    const int bins = o->num_mel_bins, columns = bins + 2;
    float *row = p->matrix;
    if (o->feature == KF_MFCC) {
        const double others = (double)(float)kf__sqrt(2.0 / bins), step = KF__PI / bins;
        for (int k = 0; k < o->num_ceps; k++)
            for (int n = 0; n < bins; n++)
                *row++ = k ? (float)(others * kf__turn(step * (n + 0.5) * k).cosine) : (float)kf__sqrt(1.0 / bins);
    } else {
        const float angle = (float)(KF__PI / (columns - 1));
        const double scale = (double)(float)(1.0 / (2.0 * (columns - 1)));
        for (int i = 0; i <= o->lpc_order; i++)
            for (int j = 0; j < columns; j++) {
                const float product = angle * (float)i * (float)j;
                const double cosine = kf__turn((double)product).cosine;
                *row++ = (float)(j == 0 ? scale : j + 1 < columns ? 2.0 * scale * cosine : scale * cosine);
            }
    }
    const double q = (double)o->cepstral_lifter;
    for (int i = 0; i < o->num_ceps; i++)
        p->lifter[i] = q == 0.0 ? 1.0f : (float)(1.0 + 0.5 * q * kf__turn(KF__PI * i / q).sine);
}
static kf_status kf__fill(kf__plan *p, const kf_options *o, int allow_empty) {
    p->energy_minimum = o->feature == KF_PLP ? KF__TINY : KF__EPSILON;
    p->log_energy_floor = o->energy_floor > 0.0f ? o->energy_floor < KF__TINY ? (float)kf__log_pair((double)o->energy_floor).hi
                                                                              : kf__log(o->energy_floor)
                                                 : kf__float(0xff800000u);
    kf__fill_window(p, o);
    kf__fill_fft(p, o);
    if (o->feature == KF_SPECTROGRAM) return KF_OK;
    if (o->feature != KF_FBANK) kf__fill_cepstra(p, o);
    return kf__fill_mel(p, o, allow_empty);
}

/* ---- Sums in the order of OpenBLAS's SkylakeX kernels, which decides their last bits ---- */

/* The sum of x[i] * y[i], i < n: `sdot`. y has a number for each lane, or one for all (step 1, lane 0). `sums` has room for 64. */
KF__INLINE void kf__dot(const float *x, const float *y, int step, int lane, int n, float *sums, float *result) {
    const int halves = n & ~31, whole = n & ~63;
    double rest[KF__LANES];
    KF__EACH(l) rest[l] = 0.0;
    for (int i = halves; i < n; i++)
        KF__EACH(l) rest[l] += (double)(x[i * KF__LANES + l] * y[i * step + l * lane]);
    if (!halves) {
        KF__EACH(l) result[l] = (float)rest[l];
        return;
    }
    memset(sums, 0, 64 * KF__LANES * sizeof *sums);
    for (int i = 0; i < whole; i += 64)
        for (int j = 0; j < 64; j++)
            KF__EACH(l)
                sums[j * KF__LANES + l] =
                    kf__fused(x[(i + j) * KF__LANES + l], y[(i + j) * step + l * lane], sums[j * KF__LANES + l]);
    for (int k = 0; k < 4; k++) /* 64 sums to 32; a last half of a block goes on with these */
        for (int j = 0; j < 8; j++) {
            float *sum = sums + (8 * k + j) * KF__LANES;
            const float *first = sums + (16 * k + j) * KF__LANES, *second = first + 8 * KF__LANES;
            const int i = whole + 8 * k + j;
            if (whole < halves)
                KF__EACH(l) sum[l] = kf__fused(x[i * KF__LANES + l], y[i * step + l * lane], first[l] + second[l]);
            else
                KF__EACH(l) sum[l] = first[l] + second[l];
        }
    for (int j = 0; j < 8; j++)
        KF__EACH(l) {
            float *sum = sums + j * KF__LANES + l;
            *sum = ((*sum + sum[8 * KF__LANES]) + sum[16 * KF__LANES]) + sum[24 * KF__LANES];
        }
    KF__EACH(l) {
        const float *sum = sums + l;
        const float s0 = sum[0] + sum[4 * KF__LANES], s1 = sum[KF__LANES] + sum[5 * KF__LANES];
        const float s2 = sum[2 * KF__LANES] + sum[6 * KF__LANES], s3 = sum[3 * KF__LANES] + sum[7 * KF__LANES];
        result[l] = (float)(rest[l] + (double)((s0 + s1) + (s2 + s3)));
    }
}
/* A row of a matrix times x, as `sgemv` adds it. Rows in groups of four add fused products in 8 accumulators; of a pair of rows that is
   left, each uses 4, a single row 8, both without fusing. OpenBLAS has kernels of their own for 4 and 8 columns. */
static void kf__row_times(const float *row, int columns, const float *x, int is_fused, int is_pair, float *result) {
    float sums[8][KF__LANES];
    const int whole = columns & ~3, accumulators = is_pair ? 4 : 8, first = whole % accumulators, left = columns - whole;
    if (columns == 4 || columns == 8) {
        memset(sums, 0, sizeof sums);
        for (int i = 0; i < columns; i++)
            KF__EACH(l) sums[i][l] = row[i] * x[i * KF__LANES + l];
        if (!is_fused && !is_pair)
            for (int i = 4; i < columns; i++)
                KF__EACH(l) sums[i - 4][l] += sums[i][l];
        KF__EACH(l) {
            const float s0 = sums[0][l] + sums[1][l], s1 = sums[2][l] + sums[3][l], s2 = sums[4][l] + sums[5][l];
            const float s3 = sums[6][l] + sums[7][l];
            const float total = !is_fused && !is_pair ? (s0 + sums[2][l]) + sums[3][l]
                                : columns == 4        ? s0 + s1
                                : is_pair             ? (s0 + s2) + (s1 + s3)
                                                      : (s0 + s1) + (s2 + s3);
            result[l] = 0.0f + total;
        }
        return;
    }
    memset(sums, 0, sizeof sums);
    for (int i = -first; i < whole - first; i++) { /* an odd group of four columns comes first */
        float *sum = sums[i < 0 ? i + first : i % accumulators];
        const float factor = row[i + first], *z = x + (i + first) * KF__LANES;
        if (is_fused)
            KF__EACH(l) sum[l] = kf__fused(factor, z[l], sum[l]);
        else
            KF__EACH(l) sum[l] += factor * z[l];
    }
    const float *z = x + whole * KF__LANES, *w = row + whole;
    KF__EACH(l) {
        const float s0 = sums[0][l] + sums[4][l], s1 = sums[1][l] + sums[5][l];
        const float s2 = sums[2][l] + sums[6][l], s3 = sums[3][l] + sums[7][l];
        result[l] = 0.0f + ((s0 + s1) + (s2 + s3));
    }
    if (left == 1)
        KF__EACH(l) result[l] = kf__fused(w[0], z[l], result[l]);
    else if (left == 2)
        KF__EACH(l) result[l] += kf__fused(w[0], z[l], w[1] * z[KF__LANES + l]);
    else if (left == 3)
        KF__EACH(l) result[l] += kf__fused(w[2], z[2 * KF__LANES + l], kf__fused(w[0], z[l], w[1] * z[KF__LANES + l]));
}
/* `sgemv` of a row-major matrix, alpha 1, beta 0. */
static void kf__matrix_times(const float *matrix, int rows, int columns, const float *x, float *y) {
    for (int r = 0; r < rows; r++)
        kf__row_times(matrix + (int64_t)r * columns, columns, x, r < (rows & ~3), r >= (rows & ~3) && r < (rows & ~1),
                      y + r * KF__LANES);
}

/* ---- FFT of real signals with Kaldi's rounding: src/matrix/srfft.cc and src/matrix/matrix-functions.cc ---- */

#define KF__COMPLEX (2 * KF__LANES) /* floats of a complex number: real parts, then imaginary parts */

/* The sums and differences of a step of the split radix: those for its upper quarters are returned. */
typedef struct {
    float ax, ay, bx, by;
} kf__turned;

KF__INLINE kf__turned kf__butterfly(float *z, int quarter, int l) {
    float *z0 = z + l, *z1 = z0 + quarter * KF__COMPLEX, *z2 = z1 + quarter * KF__COMPLEX, *z3 = z2 + quarter * KF__COMPLEX;
    const float px = *z0 - *z2, py = z0[KF__LANES] - z2[KF__LANES], qx = *z1 - *z3, qy = z1[KF__LANES] - z3[KF__LANES];
    const kf__turned turned = {px + qy, py - qx, px - qy, py + qx};
    *z0 += *z2, z0[KF__LANES] += z2[KF__LANES];
    *z1 += *z3, z1[KF__LANES] += z3[KF__LANES];
    return turned;
}
/* One step: a transform of m points becomes one of m/2 and two of m/4. `w` has 6 multipliers for each index. */
KF__INLINE void kf__split(float *z, int m, const float *w) {
    const float half_root = 0x1.6a09e6p-1f; /* sqrt(1/2) */
    const int quarter = m / 4;
    for (int n = 0; n < quarter; n++, z += KF__COMPLEX, w += 6) {
        float *re = z + 2 * quarter * KF__COMPLEX, *im = re + KF__LANES, *other = re + quarter * KF__COMPLEX;
        if (n == 0)
            KF__EACH(l) {
                const kf__turned t = kf__butterfly(z, quarter, l);
                re[l] = t.ax, im[l] = t.ay, other[l] = t.bx, other[l + KF__LANES] = t.by;
            }
        else if (2 * n == quarter)
            KF__EACH(l) {
                const kf__turned t = kf__butterfly(z, quarter, l);
                re[l] = half_root * (t.ax + t.ay), im[l] = half_root * (t.ay - t.ax);
                other[l] = half_root * (t.by - t.bx), other[l + KF__LANES] = -half_root * (t.bx + t.by);
            }
        else
            KF__EACH(l) { /* multiplied by roots of unity with three products */
                const kf__turned t = kf__butterfly(z, quarter, l);
                const float a = w[0] * (t.ax + t.ay), b = w[3] * (t.bx + t.by);
                re[l] = w[2] * t.ay + a, im[l] = w[1] * t.ax + a;
                other[l] = w[5] * t.by + b, other[l + KF__LANES] = w[4] * t.bx + b;
            }
    }
}

KF__INLINE void kf__fft_2(float *z) {
    KF__EACH(l) {
        const float x = z[l], y = z[l + KF__LANES], u = z[l + KF__COMPLEX], v = z[l + KF__COMPLEX + KF__LANES];
        z[l] = x + u, z[l + KF__LANES] = y + v;
        z[l + KF__COMPLEX] = x - u, z[l + KF__COMPLEX + KF__LANES] = y - v;
    }
}
/* In place, of 2^log_m points; the results are in bit-reversed order. */
static void kf__split_radix(float *z, int log_m, const float *twiddles) {
    if (log_m == 1) kf__fft_2(z);
    if (log_m <= 1) return;
    kf__split(z, 1 << log_m, twiddles + (log_m < 3 ? 0 : ((int64_t)3 << (log_m - 1)) - 12));
    kf__split_radix(z, log_m - 1, twiddles);
    if (log_m == 2) return;
    kf__split_radix(z + ((int64_t)KF__COMPLEX << (log_m - 1)), log_m - 2, twiddles);
    kf__split_radix(z + ((int64_t)KF__COMPLEX * 3 << (log_m - 2)), log_m - 2, twiddles);
}
/* FFT of n points in[0], in[stride], ... by the prime factors of n. `spare` has room for the largest factor. */
static void kf__mixed_radix(const float *in, int64_t stride, float *out, int n, const int *factors, const float *roots,
                            float *spare) {
    if (n == 1) {
        memcpy(out, in, KF__COMPLEX * sizeof *out);
        return;
    }
    const int parts = *factors, length = n / parts;
    for (int p = 0; p < parts; p++)
        kf__mixed_radix(in + p * stride * KF__COMPLEX, stride * parts, out + p * length * KF__COMPLEX, length, factors + 1,
                        roots + 2 * n, spare);
    for (int q = 0; q < length; q++) {
        for (int k = 0; k < parts; k++) {
            const float *root = roots + 2 * (k * length + q);
            float re = root[0], im = root[1], *sum = spare + k * KF__COMPLEX;
            memcpy(sum, out + q * KF__COMPLEX, KF__COMPLEX * sizeof *sum);
            for (int p = 1; p < parts; p++) {
                const float *z = out + (p * length + q) * KF__COMPLEX;
                KF__EACH(l) {
                    sum[l] += z[l] * re - z[l + KF__LANES] * im;
                    sum[l + KF__LANES] += z[l] * im + z[l + KF__LANES] * re;
                }
                const float next = re * root[0] - im * root[1];
                im = re * root[1] + im * root[0];
                re = next;
            }
        }
        for (int k = 0; k < parts; k++)
            memcpy(out + (k * length + q) * KF__COMPLEX, spare + k * KF__COMPLEX, KF__COMPLEX * sizeof *out);
    }
}
/* FFT of a real signal in double precision, of n points, a power of two: `turn` has cosine and sine of n * stride points. */
static void kf__accurate(const double *in, int stride, double *out, int n, const kf__direction *turn) {
    if (n == 1) {
        out[0] = *in, out[1] = 0.0;
        return;
    }
    kf__accurate(in, 2 * stride, out, n / 2, turn);
    kf__accurate(in + stride, 2 * stride, out + n, n / 2, turn);
    for (double *even = out, *odd = out + n; even < out + n; even += 2, odd += 2, turn += stride) {
        const double re = odd[0] * turn->cosine + odd[1] * turn->sine, im = odd[1] * turn->cosine - odd[0] * turn->sine;
        odd[0] = even[0] - re, odd[1] = even[1] - im;
        even[0] += re, even[1] += im;
    }
}

/* ---- A block of frames ---- */

struct kf {
    kf_options options;
    kf__plan plan, shorter;  /* shorter: of a frame as long as the audio, for shorten_frame */
    const kf__plan *current; /* the one in use */
    char *shorter_memory;
    int row_dim, out_dim;    /* columns of the feature and of the result */
    int by_utterance, whole; /* a step after the feature needs the whole utterance; that, or any other step does */
    float offset;            /* subtracted from each sample */
    uint32_t random[31];
    int random_at;
    float *x, *z, *spare, *spectrum, *power, *mel, *lpc, *features, *sums, *pairs; /* a block */
    double *wide;                                                                  /* for double_precision */
    float *edges;         /* frames that reach past the ends, (lanes, size) */
    float *rows;          /* (lanes, row_dim): frames on their way to be stacked */
    float *window, *kept; /* the last rows, for stacking; the last values of a column, for the sliding window */
    float *shift, *scale;
    float *buffer;                   /* samples that later frames need, from number `origin` on */
    int64_t room, origin, end, done; /* of the buffer; samples received; frames computed */
    int64_t frames, stacked;         /* frames that were stacked, rows that came out */
};

static uint32_t kf__rand(kf *f) /* glibc's rand(): r[i] = r[i - 3] + r[i - 31] */
{
    const int at = f->random_at;
    f->random[at] += f->random[(at + 28) % 31];
    f->random_at = (at + 1) % 31;
    return f->random[at] >> 1;
}
KF_API void kf_seed(kf *frontend, uint32_t seed) {
    if (!frontend) return;
    int64_t word = (int32_t)(seed ? seed : 1u);
    for (int i = 0; i < 31; i++) {
        frontend->random[i] = (uint32_t)word;
        word = 16807 * word % 2147483647;
        word += word < 0 ? 2147483647 : 0;
    }
    frontend->random_at = 3;
    for (int i = 0; i < 310; i++) (void)kf__rand(frontend);
}
/* A draw of rand_r() has 11 bits of its first word and 10 bits of two others, which are steps of a linear congruence. */
KF__INLINE float kf__uniform(uint32_t *state) {
    const uint32_t first = *state * 1103515245u + 12345u, second = first * 1103515245u + 12345u;
    *state = second * 1103515245u + 12345u;
    const uint32_t draw = ((first >> 16 & 0x7ffu) << 20) | ((second >> 16 & 0x3ffu) << 10) | (*state >> 16 & 0x3ffu);
    return (float)(((double)(int32_t)draw + 1.0) * (1.0 / 2147483649.0));
}
/* Kaldi's noise, RandGauss: three short loops, which compilers can vectorize. */
static void kf__add_noise(kf *f, int size, uint32_t *states) {
    float *pairs = f->pairs;
    const float dither = f->options.dither;
    for (int start = 0; start < size; start += 32) {
        const int count = size - start < 32 ? size - start : 32;
        float *x = f->x + start * KF__LANES;
        for (int i = 0; i < 2 * count; i++)
            KF__EACH(l) pairs[i * KF__LANES + l] = kf__uniform(states + l);
        for (int i = 0; i < count; i++)
            KF__EACH(l) pairs[2 * i * KF__LANES + l] = kf__sqrt_float(-2.0f * kf__log(pairs[2 * i * KF__LANES + l]));
        for (int i = 0; i < count; i++)
            KF__EACH(l) {
                float sine, cosine;
                kf__sin_cos((float)(2.0 * KF__PI * (double)pairs[(2 * i + 1) * KF__LANES + l]), &sine, &cosine);
                x[i * KF__LANES + l] += pairs[2 * i * KF__LANES + l] * cosine * dither;
            }
    }
}
static void kf__gather(kf *f, int size, const float *const *frames) {
    for (int i = 0; i < size; i += 16) /* parts that stay in the first-level cache */
        for (int l = 0; l < KF__LANES; l++)
            for (int j = i; j < size && j < i + 16; j++) f->x[j * KF__LANES + l] = frames[l][j];
}
static void kf__log_energy(kf *f, int n, float minimum, float *result) {
    kf__dot(f->x, f->x, KF__LANES, 1, n, f->sums, result);
    KF__EACH(l) result[l] = kf__log(result[l] < minimum ? minimum : result[l]);
}
/* Samples to windowed frames, and their log energies. */
static void kf__window_frames(kf *f, const kf__plan *p, float *log_energy) {
    const kf_options *o = &f->options;
    const int size = p->size, use_energy = o->use_energy || o->feature == KF_SPECTROGRAM;
    const float preemphasis = o->preemphasis_coefficient, *window = p->window;
    float *x = f->x;
    if (o->remove_dc_offset) { /* Vector::Sum is `sdot` with a single 1: pairs added in float, then in double */
        double sum[KF__LANES];
        float mean[KF__LANES];
        KF__EACH(l) sum[l] = 0.0;
        for (int i = 0; i + 1 < size; i += 2)
            KF__EACH(l) sum[l] += (double)(x[i * KF__LANES + l] + x[(i + 1) * KF__LANES + l]);
        if (size % 2)
            KF__EACH(l) sum[l] += (double)x[(size - 1) * KF__LANES + l];
        KF__EACH(l) mean[l] = (float)sum[l] / (float)size;
        for (int i = 0; i < size; i++)
            KF__EACH(l) x[i * KF__LANES + l] -= mean[l];
    }
    if (use_energy && o->raw_energy) kf__log_energy(f, size, KF__EPSILON, log_energy);
    if (preemphasis != 0.0f) {
        for (int i = size - 1; i > 0; i--)
            KF__EACH(l) {
                float *sample = x + i * KF__LANES + l;
                *sample = (*sample - preemphasis * sample[-KF__LANES]) * window[i];
            }
        KF__EACH(l) x[l] = (x[l] - preemphasis * x[l]) * window[0];
    } else {
        for (int i = 0; i < size; i++)
            KF__EACH(l) x[i * KF__LANES + l] *= window[i];
    }
    memset(x + size * KF__LANES, 0, (size_t)(p->points - size) * KF__LANES * sizeof *x);
    if (use_energy && !o->raw_energy) kf__log_energy(f, p->points, p->energy_minimum, log_energy);
    if (use_energy)
        KF__EACH(l) log_energy[l] = log_energy[l] < p->log_energy_floor ? p->log_energy_floor : log_energy[l];
}
/* Windowed frames to their FFT in Kaldi's layout: real values at 0 and the Nyquist frequency, then real and imaginary parts. */
static void kf__transform(kf *f, const kf__plan *p, float *out) {
    const int half = p->half, points = p->points;
    const float *z = f->x;
    for (int l = 0; l < KF__LANES && f->options.double_precision; l++) {
        double *in = f->wide, *spectrum = in + points;
        for (int i = 0; i < points; i++) in[i] = (double)f->x[i * KF__LANES + l];
        kf__accurate(in, 1, spectrum, points, p->turn);
        spectrum[1] = spectrum[2 * half];
        for (int i = 0; i < points; i++) out[i * KF__LANES + l] = (float)spectrum[i];
    }
    if (f->options.double_precision) return;
    if (p->log_half >= 0) kf__split_radix(f->x, p->log_half, p->twiddles);
    else kf__mixed_radix(f->x, 1, f->z, half, p->factors, p->mixed_roots, f->spare), z = f->z;
    for (int k = half / 2; k > 0; k--) {
        const float *a = z + p->order[k] * KF__COMPLEX, *b = z + p->order[half - k] * KF__COMPLEX;
        const float re = p->roots[2 * k - 2], im = p->roots[2 * k - 1];
        float *at_k = out + k * KF__COMPLEX, *mirror = out + (half - k) * KF__COMPLEX;
        KF__EACH(l) {
            const float ax = a[l], ay = a[l + KF__LANES], bx = b[l], by = b[l + KF__LANES];
            const float c_re = 0.5f * (ax + bx), c_im = 0.5f * (ay - by), d_re = 0.5f * (ay + by), d_im = -0.5f * (ax - bx);
            const float re_re = re * d_re, im_im = im * d_im, re_im = re * d_im, im_re = im * d_re;
            mirror[l] = c_re + (im_im - re_re), mirror[l + KF__LANES] = (re_im + im_re) - c_im;
            at_k[l] = c_re + (re_re - im_im), at_k[l + KF__LANES] = c_im + (re_im + im_re);
        }
    }
    KF__EACH(l) out[l] = z[l] + z[l + KF__LANES], out[l + KF__LANES] = z[l] - z[l + KF__LANES];
}
static void kf__power_spectrum(const float *z, int half, float *power) {
    KF__EACH(l) power[l] = z[l] * z[l], power[half * KF__LANES + l] = z[l + KF__LANES] * z[l + KF__LANES];
    for (int k = 1; k < half; k++)
        KF__EACH(l) {
            const float re = z[k * KF__COMPLEX + l], im = z[k * KF__COMPLEX + KF__LANES + l];
            power[k * KF__LANES + l] = re * re + im * im;
        }
}
static void kf__take_logs(float *x, int n) {
    for (int i = 0; i < n; i++, x += KF__LANES)
        KF__EACH(l) x[l] = kf__log(x[l] < KF__EPSILON ? KF__EPSILON : x[l]);
}
static void kf__mel_energies(const kf *f, const kf__plan *p, float *energies) {
    const int32_t *mel = p->mel;
    for (int i = 0; i < f->options.num_mel_bins; i++, mel += 3, energies += KF__LANES) {
        const float *power = f->power + mel[0] * KF__LANES, *weights = p->weights + mel[2];
        if (mel[1] < 32) kf__dot(power, weights, 1, 0, mel[1] & 31, f->sums, energies);
        else kf__dot(power, weights, 1, 0, mel[1], f->sums, energies);
    }
}
/* The energy in the place of C0, and HTK's order, in which that comes last. */
static void kf__finish_cepstra(kf *f, const float *log_energy) {
    const kf_options *o = &f->options;
    float first[KF__LANES];
    memcpy(first, o->use_energy ? log_energy : f->features, sizeof first);
    if (o->htk_compat) {
        if (o->feature == KF_MFCC && !o->use_energy) /* HTK's DCT has no special scale for C0 */
            KF__EACH(l) first[l] = (float)((double)first[l] * 1.4142135623730951);
        memmove(f->features, f->features + KF__LANES, (size_t)(o->num_ceps - 1) * sizeof first);
    }
    memcpy(f->features + (o->htk_compat ? o->num_ceps - 1 : 0) * KF__LANES, first, sizeof first);
}
/* Results on a and b with the signs of NaN that Kaldi's build gives: that of the first operand which is NaN, and a new one is negative.
   Other processors, and compilers that swap operands, give others. */
KF__INLINE float kf__signed(float result, float a, float b) {
    return result == result ? result : a != a ? a : b != b ? b : KF__NEGATIVE_NAN;
}
KF__INLINE double kf__signed_double(double result, double a, double b) {
    return result == result ? result : a != a ? a : b != b ? b : (double)KF__NEGATIVE_NAN;
}
/* Linear prediction from the autocorrelation by Durbin's recursion, the cepstra of its all-pole model, and minus the logarithm of the
   residual energy; numbers are `stride` apart. */
static void kf__predict(const float *lags, int order, int stride, float exponent, float *lpc, float *before, float *cepstra,
                        float *energy) {
#define KF__LAG(i)                                                                                                             \
    (lags[(i)*stride] == lags[(i)*stride] ? lags[(i)*stride] : kf__float(exponent == exponent ? 0xffc00000u : 0x7fc00000u))
    float error = KF__LAG(0);
    for (int i = 0; i < order; i++) {
        float reflection = KF__LAG(i + 1);
        for (int j = 0; j < i; j++) {
            const float lag = KF__LAG(i - j), a = lpc[j * stride], term = kf__signed(a * lag, a, lag);
            reflection = kf__signed(reflection + term, reflection, term);
        }
        reflection = kf__signed(reflection / error, reflection, error);
        const float square = kf__signed(reflection * reflection, reflection, reflection);
        float factor = kf__signed(1.0f - square, 1.0f, square);
        factor = factor < 1.0e-5f ? 1.0e-5f : factor;
        error = kf__signed(error * factor, error, factor);
        for (int j = 0; j < i; j++) before[j * stride] = lpc[j * stride];
        for (int j = 0; j < i; j++) {
            const float a = before[j * stride], b = before[(i - j - 1) * stride],
                        term = kf__signed(reflection * b, reflection, b);
            lpc[j * stride] = kf__signed(a - term, a, term);
        }
        lpc[i * stride] = -reflection;
    }
#undef KF__LAG
    *energy = kf__log_of_inverse(error);
    *energy = *energy < KF__TINY ? KF__TINY : *energy;
    for (int i = 0; i < order; i++) {
        double sum = 0.0;
        const double first = -(double)lpc[i * stride];
        for (int j = 0; j < i; j++) {
            const float a = lpc[j * stride], b = cepstra[(i - j - 1) * stride];
            const float weighed = kf__signed((float)(i - j) * a, a, a), term = kf__signed(weighed * b, weighed, b);
            sum = kf__signed_double(sum + (double)term, sum, (double)term);
        }
        sum /= i + 1;
        cepstra[i * stride] = (float)kf__signed_double(first - sum, first, sum);
    }
}
static void kf__plp_of_mel(kf *f, const kf__plan *p) {
    const kf_options *o = &f->options;
    const int bins = o->num_mel_bins, order = o->lpc_order;
    float *loud = f->mel + KF__LANES, *lags = f->lpc, *lpc = lags + (order + 2) * KF__LANES;
    float *before = lpc + (order + 2) * KF__LANES, *cepstra = before + (order + 2) * KF__LANES;
    kf__mel_energies(f, p, loud);
    for (int i = 0; i < bins; i++)
        for (int l = 0; l < KF__LANES; l++)
            loud[i * KF__LANES + l] = kf__power((double)(loud[i * KF__LANES + l] * p->loudness[i]), (double)o->compress_factor);
    memcpy(f->mel, loud, KF__LANES * sizeof *loud);
    memcpy(loud + bins * KF__LANES, loud + (bins - 1) * KF__LANES, KF__LANES * sizeof *loud);
    kf__matrix_times(p->matrix, order + 1, bins + 2, f->mel, lags);
    for (int l = 0; l < KF__LANES; l++)
        kf__predict(lags + l, order, KF__LANES, o->compress_factor, lpc + l, before + l, cepstra + l, f->features + l);
    memcpy(f->features + KF__LANES, cepstra, (size_t)(o->num_ceps - 1) * KF__LANES * sizeof *loud);
    for (int i = 0; i < o->num_ceps; i++)
        KF__EACH(l) {
            float *c = f->features + i * KF__LANES + l;
            *c *= p->lifter[i];
            *c = o->cepstral_scale == 0.0f ? 0.0f : *c * o->cepstral_scale; /* `sscal` sets zeros */
        }
}
/* Compute the features of a block of frames; out: (count, dim). */
static void kf__block(kf *f, const kf__plan *p, const float *const *frames, int count, float *out) {
    const kf_options *o = &f->options;
    float log_energy[KF__LANES] = {0.0f}, *features = f->features, *spectrum = f->spectrum;
    const int bins = o->num_mel_bins, dim = p->dim, energy = o->use_energy != 0;
    kf__gather(f, p->size, frames);
    if (o->dither != 0.0f) {
        uint32_t states[KF__LANES] = {0};
        for (int l = 0; l < count; l++) states[l] = kf__rand(f) + 27437u;
        kf__add_noise(f, p->size, states);
    }
    kf__window_frames(f, p, log_energy);
    kf__transform(f, p, spectrum);
    kf__power_spectrum(spectrum, p->half, f->power);
    if (o->feature == KF_SPECTROGRAM && o->return_raw_fft) {
        features = spectrum;
    } else if (o->feature == KF_SPECTROGRAM) {
        features = f->power;
        kf__take_logs(features, dim);
        memcpy(features, log_energy, sizeof log_energy);
    } else if (o->feature == KF_FBANK) {
        for (int i = 0; i <= p->half && !o->use_power; i++)
            KF__EACH(l) f->power[i * KF__LANES + l] = kf__sqrt_float(f->power[i * KF__LANES + l]);
        float *energies = features + (energy && !o->htk_compat) * KF__LANES;
        kf__mel_energies(f, p, energies);
        kf__take_logs(energies, o->use_log_fbank ? bins : 0);
        if (energy) memcpy(features + (o->htk_compat ? bins : 0) * KF__LANES, log_energy, sizeof log_energy);
    } else if (o->feature == KF_MFCC) {
        kf__mel_energies(f, p, f->mel);
        kf__take_logs(f->mel, bins);
        kf__matrix_times(p->matrix, o->num_ceps, bins, f->mel, features);
        for (int i = 0; i < dim; i++)
            KF__EACH(l) features[i * KF__LANES + l] *= p->lifter[i];
        kf__finish_cepstra(f, log_energy);
    } else {
        kf__plp_of_mel(f, p);
        kf__finish_cepstra(f, log_energy);
    }
    for (int i = 0; i < dim; i += 8)
        for (int l = 0; l < count; l++)
            for (int j = i; j < dim && j < i + 8; j++) out[(int64_t)l * dim + j] = features[j * KF__LANES + l];
}
static int64_t kf__first_sample(const kf *f) {
    return f->options.snip_edges ? 0 : (int64_t)(f->current->shift / 2) - f->current->size / 2;
}
/* Compute `count` frames of the buffer, at most a block of them, from number `frame` on; out: (count, dim). The buffer is reflected at
   its ends, which are then those of the audio. */
static void kf__frames(kf *f, int64_t frame, int count, float *out) {
    const float *frames[KF__LANES];
    const kf__plan *p = f->current;
    const int64_t length = f->end - f->origin;
    for (int l = 0; l < KF__LANES; l++) {
        const int64_t first = kf__first_sample(f) + (frame + l) * p->shift - f->origin;
        float *edge = f->edges + (int64_t)l * p->size;
        frames[l] = l >= count ? frames[0] : first >= 0 && first + p->size <= length ? f->buffer + first : edge;
        for (int i = 0; i < p->size && frames[l] == edge; i++) {
            const int64_t index = ((first + i) % (2 * length) + 2 * length) % (2 * length);
            edge[i] = f->buffer[index < length ? index : 2 * length - 1 - index];
        }
    }
    kf__block(f, p, frames, count, out);
}

/* ---- Steps after the feature ---- */

/* The sum of the columns of (rows, dim) as Kaldi's Vector::AddRowSumMat. More than 64 rows are multiplied by ones: OpenBLAS's `sgemv`,
   column-major, adds eight rows at a time, in an order that depends on the column. */
static float kf__column_sum(const float *column, int64_t rows, int dim, int c) {
    float total = 0.0f;
    const int whole = dim & ~3, in_turns = c < whole % 16;
    if (rows <= 64 || c >= whole) {
        for (int64_t r = 0; r < rows; r++) total += column[r * dim];
        return total;
    }
    for (int64_t r = 0; r < rows;) {
        const int left = rows - r < 8 ? (int)(rows - r) : 8, group = left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
        float part = 0.0f, other = 0.0f;
        for (int i = 0; i < group; i++)
            if (in_turns && group >= 4 && i % 2) other += column[(r + i) * dim];
            else part += column[(r + i) * dim];
        total += in_turns && group >= 4 ? part + other : part;
        r += group;
    }
    return total;
}
static void kf__subtract_mean(float *features, int64_t rows, int dim) {
    const float share = rows ? (float)(1.0 / (double)rows) : 0.0f;
    for (int c = 0; c < dim; c++) {
        const float mean = kf__column_sum(features + c, rows, dim, c) * share;
        for (int64_t r = 0; r < rows; r++) features[r * dim + c] -= mean;
    }
}
static void kf__normalize_utterance(const kf_options *o, float *features, int64_t rows, int dim) {
    for (int c = 0; c < dim; c++) {
        double mean = 0.0, variance = 0.0, deviation = 1.0;
        for (int64_t r = 0; r < rows; r++) mean += (double)features[r * dim + c];
        mean /= (double)(rows > 1 ? rows : 1);
        int constant = 0;
        if (o->utterance_norm_vars) {
            const int64_t missing = o->utterance_unbiased ? 1 : 0, count = rows - missing > 1 ? rows - missing : 1;
            for (int64_t r = 0; r < rows; r++) {
                const double x = (double)features[r * dim + c] - mean;
                variance += x * x;
            }
            variance /= (double)count;
            const double small = 0x1p-18 * mean; /* a smaller deviation is rounding error */
            constant = variance <= small * small;
            deviation = constant ? 1.0 : kf__sqrt(variance + o->utterance_epsilon);
        }
        for (int64_t r = 0; r < rows; r++) {
            const double x = (double)features[r * dim + c] - mean;
            features[r * dim + c] = constant ? 0.0f : (float)(o->utterance_norm_vars ? x / deviation : x);
        }
    }
}
/* Normalize a column in place by the mean of a window: Kaldi's SlidingWindowCmn. `kept` has room for cmn_window + 1 of its values. The sums run on from window to window, so that their
   rounding errors stay, as in Kaldi. */
static void kf__slide(const kf_options *o, float *x, int64_t frames, int dim, float *kept) {
    const int64_t room = (int64_t)o->cmn_window + 1, width = o->cmn_center ? o->cmn_window / 2 : o->cmn_window;
    int64_t start = 0, end = 0;
    double sum = 0.0;
    for (int64_t t = 0; t < frames; t++) {
        int64_t first = t > width ? t - width : 0;
        int64_t last = o->cmn_center ? first + o->cmn_window : t + 1 > o->min_cmn_window ? t + 1 : o->min_cmn_window;
        const int64_t overhang = last > frames ? last - frames : 0;
        first = first > overhang ? first - overhang : 0, last -= overhang;
        for (int64_t r = 0; t == 0 && r < last; r++) sum += (double)x[r * dim];
        if (t > 0) {
            const int64_t leaves = first - 1, enters = last - 1;
            sum += first == start ? 0.0 : -(double)(leaves < t ? kept[leaves % room] : x[leaves * dim]);
            sum += last == end ? 0.0 : (double)x[enters * dim];
        }
        start = first, end = last;
        kept[t % room] = x[t * dim];
        x[t * dim] = (float)kf__fused_double(-1.0 / (double)(end - start), sum, (double)x[t * dim]);
    }
}
/* Decide for each frame if it is voiced: Kaldi's compute-vad. Its rounding decides where an energy equals the threshold. */
static void kf__decide(const kf_options *o, const float *features, int64_t frames, int dim, unsigned char *voiced) {
    const float scale = o->vad_energy_mean_scale;
    const int64_t context = o->vad_frames_context;
    double total = 0.0;
    for (int64_t t = 0; t + 1 < frames; t += 2) total += (double)(features[t * dim] + features[(t + 1) * dim]);
    if (frames % 2) total += (double)features[(frames - 1) * dim];
    const float mean = scale != 0.0f ? scale * (float)total / (float)(frames > 1 ? frames : 1) : 0.0f;
    const float threshold = mean + o->vad_energy_threshold;
    int64_t votes = 0, first = 0, last = 0; /* of frames first to last - 1 */
    for (int64_t t = 0; t < frames; t++) {
        for (; last < frames && last <= t + context; last++) votes += features[last * dim] > threshold;
        for (; first < t - context; first++) votes -= features[first * dim] > threshold;
        voiced[t] = (float)votes >= (float)(last - first) * o->vad_proportion_threshold;
    }
}
/* Spread rows (frames, dim) over rows of (order + 1) * dim and append deltas, each of those before with its own edges repeated. */
static void kf__append_deltas(const kf_options *o, float *features, int64_t frames, int dim) {
    const int wide = dim * (o->delta_order + 1), window = o->delta_window;
    float squares = 0.0f;
    for (int j = -window; j <= window; j++) squares += (float)j * (float)j;
    const float share = (float)(1.0 / (double)squares);
    for (int64_t t = frames - 1; t > 0; t--) memmove(features + t * wide, features + t * dim, (size_t)dim * sizeof *features);
    for (int order = 1; order <= o->delta_order; order++)
        for (int64_t t = 0; t < frames; t++) {
            float *row = features + t * wide + order * dim;
            memset(row, 0, (size_t)dim * sizeof *row);
            for (int j = -window; j <= window; j++) {
                const int64_t other = t + j < 0 ? 0 : t + j < frames ? t + j : frames - 1;
                const float *from = features + other * wide + (order - 1) * dim, weight = (float)j * share;
                for (int c = 0; j && c < dim; c++) row[c] = kf__fused(weight, from[c], row[c]);
            }
        }
}
/* Steps of single rows. */
static void kf__finish_rows(const kf *f, float *rows, int64_t count) {
    const kf_options *o = &f->options;
    const int dim = f->out_dim;
    const float minimum = (float)o->floor_minimum;
    if (o->num_statistics)
        for (int64_t r = 0; r < count; r++)
            for (int c = 0; c < dim; c++) rows[r * dim + c] = (rows[r * dim + c] + f->shift[c]) * f->scale[c];
    if (o->global_mean != 0.0 || o->global_std != 1.0) {
        const float shift = (float)-o->global_mean, scale = (float)(1.0 / o->global_std);
        for (int64_t i = 0; i < count * dim; i++) rows[i] = (rows[i] + shift) * scale;
    }
    if (o->floor_minimum > -KF__MAX_FLOAT)
        for (int64_t i = 0; i < count * dim; i++) rows[i] = rows[i] < minimum ? minimum : rows[i];
}

/* ---- Stacking: rows of `stack` frames that start `stride` frames apart ---- */

static int kf__stack(const kf *f) { return f->options.stack_frames > 1 ? f->options.stack_frames : f->options.lfr_stack; }
static int kf__stride(const kf *f) { return f->options.stack_frames > 1 ? f->options.stack_frames : f->options.lfr_stride; }
static int kf__left(const kf *f) { return f->options.stack_frames > 1 ? 0 : (f->options.lfr_stack - 1) / 2; }
/* Rows that are known after so many frames. */
static int64_t kf__stacked_rows(const kf *f, int64_t frames, int ended) {
    const int64_t beyond = kf__stack(f) - kf__left(f), stride = kf__stride(f);
    if (ended) return (frames + stride - 1) / stride;
    return frames < beyond ? 0 : (frames - beyond) / stride + 1;
}
/* Write the rows that are known; missing frames repeat the first or the last one, or are zero with stack_frames. */
static float *kf__write_stacks(kf *f, float *out, int ended) {
    const int stack = kf__stack(f), dim = f->row_dim;
    for (const int64_t known = kf__stacked_rows(f, f->frames, ended); f->stacked < known; f->stacked++, out += f->out_dim) {
        const int64_t first = f->stacked * kf__stride(f) - kf__left(f);
        for (int j = 0; j < stack; j++) {
            int64_t t = first + j < 0 ? 0 : first + j;
            const int missing = t >= f->frames;
            t = missing ? f->frames - 1 : t;
            if (missing && f->options.stack_frames > 1) memset(out + (int64_t)j * dim, 0, (size_t)dim * sizeof *out);
            else memcpy(out + (int64_t)j * dim, f->window + t % stack * dim, (size_t)dim * sizeof *out);
        }
        kf__finish_rows(f, out, 1);
    }
    return out;
}
/* Compute frames up to `end` and write the rows that they decide; returns where the next row goes. */
static float *kf__compute_frames(kf *f, int64_t end, float *out) {
    const int stack = kf__stack(f), dim = f->row_dim, plain = f->by_utterance || (stack == 1 && kf__stride(f) == 1);
    while (f->done < end) {
        const int count = end - f->done < KF__LANES ? (int)(end - f->done) : KF__LANES;
        kf__frames(f, f->done, count, plain ? out : f->rows);
        f->done += count;
        if (plain) {
            kf__finish_rows(f, out, f->by_utterance ? 0 : count);
            out += (int64_t)count * dim;
            f->stacked += count;
            continue;
        }
        for (int i = 0; i < count; i++) {
            memcpy(f->window + f->frames++ % stack * dim, f->rows + (int64_t)i * dim, (size_t)dim * sizeof *out);
            out = kf__write_stacks(f, out, 0);
        }
    }
    return out;
}

/* ---- Front ends ---- */

static int kf__needs_utterance(const kf_options *o) {
    return o->subtract_mean || o->cmn_window || o->keep_voiced || o->utterance_cmvn || o->delta_order;
}
static kf_status kf__check(const kf_options *o) {
    if (!o) return KF_ERROR_ARGUMENT;
    if (o->struct_size != sizeof *o) return KF_ERROR_STRUCT_SIZE;
    if (!kf__fields_are_valid(o)) return KF_ERROR_VALUE;
    const float nyquist = 0.5f * o->sample_frequency, high = kf__high_freq(o);
    if (!(o->sample_frequency > 0.0f && o->sample_frequency < 1e9f)) return KF_ERROR_RATE;
    const int size = o->frame_length > 0.0f && o->frame_length < 1e9f ? kf__in_samples(o, o->frame_length) : -1;
    if (size < 2 || size > 1 << 24 || !(o->frame_shift > 0.0f && o->frame_shift < 1e9f) ||
        kf__in_samples(o, o->frame_shift) < 1)
        return KF_ERROR_FRAME;
    kf__plan p;
    if (o->feature != KF_SPECTROGRAM) {
        if (o->num_mel_bins < 3) return KF_ERROR_FEW_MEL_BINS;
        if (o->feature != KF_FBANK &&
            (o->num_ceps < 1 || o->num_ceps - 1 > (o->feature == KF_MFCC ? o->num_mel_bins - 1 : o->lpc_order)))
            return KF_ERROR_CEPSTRA;
        const double angle = KF__PI * o->num_ceps, q = (double)o->cepstral_lifter;
        if (o->feature != KF_FBANK && q != 0.0 && !((q < 0.0 ? -q : q) * 1e9 > angle)) return KF_ERROR_CEPSTRA;
        if (!(o->low_freq >= 0.0f && o->low_freq < nyquist && high > 0.0f && high <= nyquist && o->low_freq < high))
            return KF_ERROR_MEL_RANGE;
        if (o->feature == KF_PLP && (int64_t)(o->lpc_order + 1) * (o->num_mel_bins + 2) > 1 << 26) return KF_ERROR_SIZE;
    }
    kf__measure(&p, o, o->frame_length);
    if (p.points % 2) return KF_ERROR_ODD_FFT;
    if (o->feature != KF_SPECTROGRAM && (int64_t)o->num_mel_bins * p.half > 1 << 26) return KF_ERROR_SIZE;
    if ((o->shorten_frame || o->double_precision) && !o->round_to_power_of_two) return KF_ERROR_FFT;
    const int low_rate = o->lfr_stack > 1 || o->lfr_stride > 1;
    if (low_rate && (kf__needs_utterance(o) || o->stack_frames > 1)) return KF_ERROR_STEPS;
    return (int64_t)p.dim * (o->delta_order + 1) * o->stack_frames * o->lfr_stack > 1 << 28 ? KF_ERROR_SIZE : KF_OK;
}
/* Hand out the memory of a front end: all but itself. */
static void kf__divide(kf *f, kf__arena *arena) {
    const kf_options *o = &f->options;
    const kf__plan *p = &f->plan;
    const int is_mel = o->feature != KF_SPECTROGRAM, mixed = p->log_half<0, stacked = kf__stack(f)> 1 || kf__stride(f) > 1;
    const size_t lanes = KF__LANES * sizeof(float);
    const int64_t samples = p->points > p->size ? p->points : p->size;
    kf__lay_out(&f->plan, o, arena);
    f->shorter_memory = NULL;
    if (o->shorten_frame) {
        kf__plan same = f->plan;
        f->shorter_memory = (char *)kf__take(arena, 0, 1);
        kf__lay_out(&same, o, arena);
    }
    f->x = (float *)kf__take(arena, samples, lanes);
    f->z = (float *)kf__take(arena, mixed ? p->points : 0, lanes);
    f->spare = (float *)kf__take(arena, mixed ? 2 * (int64_t)p->largest_factor : 0, lanes);
    f->power = (float *)kf__take(arena, (int64_t)p->half + 1, lanes);
    f->mel = (float *)kf__take(arena, is_mel ? (int64_t)o->num_mel_bins + 2 : 0, lanes);
    f->lpc = (float *)kf__take(arena, o->feature == KF_PLP ? 4 * ((int64_t)o->lpc_order + 2) : 0, lanes);
    f->spectrum = (float *)kf__take(arena, p->points, lanes);
    f->features = (float *)kf__take(arena, is_mel ? (int64_t)p->dim + 1 : 0, lanes);
    f->sums = (float *)kf__take(arena, 64, lanes);
    f->pairs = (float *)kf__take(arena, o->dither != 0.0f ? 64 : 0, lanes);
    f->wide = (double *)kf__take(arena, o->double_precision ? 3 * (int64_t)p->points : 0, sizeof(double));
    f->edges = (float *)kf__take(arena, p->size, lanes);
    f->rows = (float *)kf__take(arena, stacked ? p->dim : 0, lanes);
    f->window = (float *)kf__take(arena, stacked ? (int64_t)kf__stack(f) * p->dim : 0, sizeof(float));
    f->kept = (float *)kf__take(arena, o->cmn_window ? (int64_t)o->cmn_window + 1 : 0, sizeof(float));
    f->shift = (float *)kf__take(arena, o->num_statistics, sizeof(float));
    f->scale = (float *)kf__take(arena, o->num_statistics, sizeof(float));
    /* Kept are at most size + 1 samples that a later frame needs; with a block of frames more, samples are seldom moved. */
    f->room = 3 * (int64_t)p->size + 64 + (int64_t)KF__LANES * (p->shift < p->size ? p->shift : p->size);
    f->buffer = (float *)kf__take(arena, f->room, sizeof(float));
}
static kf_status kf__prepare(const kf_options *options, kf *f) {
    const kf_status status = kf__check(options);
    if (status != KF_OK) return status;
    memset(f, 0, sizeof *f);
    f->options = *options;
    kf_options *o = &f->options;
    kf__measure(&f->plan, o, o->frame_length);
    f->by_utterance = kf__needs_utterance(o);
    f->whole = f->by_utterance || o->pad_frames || o->subtract_clip_mean;
    f->row_dim = f->plan.dim;
    f->out_dim = f->row_dim * (o->delta_order + 1) * kf__stack(f);
    if (o->num_statistics && (o->num_statistics != f->out_dim || !o->shift || !o->scale)) return KF_ERROR_STATISTICS;
    return KF_OK;
}
KF_API kf_status kf_size(const kf_options *options, size_t *size) {
    kf f;
    kf__arena arena = {NULL, 0};
    if (!size) return KF_ERROR_ARGUMENT;
    *size = 0;
    const kf_status status = kf__prepare(options, &f);
    if (status != KF_OK) return status;
    (void)kf__take(&arena, 1, sizeof f);
    kf__divide(&f, &arena);
    if (arena.used > (SIZE_MAX >> 1) - 64u) return KF_ERROR_SIZE;
    *size = (size_t)arena.used + 63u;
    return options->statistics && !options->num_statistics ? KF_ERROR_STATISTICS : KF_OK;
}
/* Whether the processor rounds to nearest and keeps denormals. Programs can change both at any time, for their thread. */
static int kf__mode_is_exact(void) {
    volatile float one = 1.0f, part = 0x1.8p-24f, tiny = KF__TINY;
    volatile double small = 2.2250738585072014e-308;
    const float up = one + part, down = -one - part, near = one + 0.5f * part;
    return up == 1.0f + 0x1p-23f && down == -1.0f - 0x1p-23f && near == 1.0f && tiny * 0.5f != 0.0f && small * 0.5 != 0.0;
}
/* Whether the compiler left the arithmetic as it is written: without fused, reordered or inverted operations, in the types of the
   operands, with NaN, infinity and signed zeros. Volatile operands keep it from computing these results itself. */
static int kf__is_exact(void) {
    static const float thirds[] = {0x1.aaaaaap0f, 0x1.2aaaaap1f, 0x1.aaaaaap1f, 0x1.2aaaaap2f, 0x1.6aaaaap2f, 0x1.aaaaaap2f, 0x1.eaaaaap2f, 0x1.0aaaaap3f};
    static const double wide_thirds[] = {0x1.aaaaaaaaaaaabp0, 0x1.2aaaaaaaaaaabp1, 0x1.aaaaaaaaaaaabp1, 0x1.2aaaaaaaaaaabp2, 0x1.6aaaaaaaaaaabp2, 0x1.aaaaaaaaaaaabp2, 0x1.eaaaaaaaaaaabp2, 0x1.0aaaaaaaaaaabp3};
    static volatile float numerators[] = {5.0f, 7.0f, 10.0f, 14.0f, 17.0f, 20.0f, 23.0f, 25.0f};
    volatile float a = 1.0f + 0x1p-12f, three = 3.0f, minus_zero = -0.0f, large = 0x1p24f, one = 1.0f, infinite = KF__MAX_FLOAT;
    volatile double b = 1.0 + 0x1p-27, wide_three = 3.0, wide_large = 0x1p53;
    const float x = a, divisor = three, far = large, zero = minus_zero + 0.0f, infinity = infinite * 2.0f;
    const double z = b, wide_divisor = wide_three, wide_far = wide_large, tenth = 0.1;
    const float undefined = infinity - infinity;
    const volatile float fused = x * x - (1.0f + 0x1p-11f), sum = (one + far) - far;
    const volatile double wide_fused = z * z - (1.0 + 0x1p-26), wide_sum = ((double)one + wide_far) - wide_far;
    int exact = fused == 0.0f && wide_fused == 0.0 && sum == 0.0f && wide_sum == 0.0 && tenth != (double)0.1f;
    exact = exact && kf__bits(zero) == 0u && undefined != undefined && !kf__finite((double)infinity);
    for (int i = 0; i < 8; i++) {
        const float n = numerators[i];
        exact = exact && n / divisor == thirds[i] && n / 3.0f == thirds[i];
        exact = exact && (double)n / wide_divisor == wide_thirds[i] && (double)n / 3.0 == wide_thirds[i];
    }
    return exact && kf__mode_is_exact();
}
KF_API kf_status kf_init(void *memory, size_t size, const kf_options *options, kf **out) {
    kf local;
    size_t needed;
    if (!memory || !out) return KF_ERROR_ARGUMENT;
    *out = NULL;
    kf_status status = kf_size(options, &needed);
    if (status == KF_OK)
        status = size < needed ? KF_ERROR_MEMORY : !kf__is_exact() ? KF_ERROR_BUILD : kf__prepare(options, &local);
    if (status != KF_OK) return status;
    kf__arena arena = {(char *)memory + (63u - ((uintptr_t)memory + 63u) % 64u), 0};
    kf *f = (kf *)kf__take(&arena, 1, sizeof local);
    *f = local;
    kf__divide(f, &arena);
    status = kf__fill(&f->plan, &f->options, f->options.allow_empty_bins);
    if (status != KF_OK) return status;
    if (options->num_statistics) {
        memcpy(f->shift, options->shift, (size_t)options->num_statistics * sizeof(float));
        memcpy(f->scale, options->scale, (size_t)options->num_statistics * sizeof(float));
    }
    for (int i = 0; i < options->num_statistics; i++)
        if (!kf__finite((double)f->shift[i]) || !kf__finite((double)f->scale[i])) return KF_ERROR_STATISTICS;
    f->options.shift = f->options.scale = NULL;
    f->options.statistics = NULL;
    kf_seed(f, 1);
    kf_reset(f);
    *out = f;
    return KF_OK;
}
KF_API int32_t kf_dim(const kf *frontend) { return frontend ? frontend->out_dim : 0; }

#define KF__MOST ((int64_t)1 << 46) /* samples */

static int64_t kf__num_frames(const kf *f, const kf__plan *p, int64_t count) {
    if (f->options.snip_edges) return count < p->size ? 0 : (count - p->size) / p->shift + 1;
    return (count + p->shift / 2) / p->shift;
}
/* Whether audio gives a single frame of its own length. */
static int kf__is_shortened(const kf *f, int64_t count) {
    return f->options.shorten_frame && count >= 2 && count < f->plan.size;
}
static kf__plan kf__shorter(const kf *f, int64_t count) {
    kf__plan p;
    kf__measure(&p, &f->options, (float)(1000.0 * (double)count / (double)f->options.sample_frequency));
    return p;
}
KF_API int64_t kf_rows(const kf *frontend, int64_t count) {
    if (!frontend || count < 0 || count >= KF__MOST) return 0;
    const kf__plan p = kf__is_shortened(frontend, count) ? kf__shorter(frontend, count) : frontend->plan;
    const int64_t frames = p.size < 2 ? 0 : kf__num_frames(frontend, &p, count), dim = frontend->row_dim;
    int64_t rows = kf__stacked_rows(frontend, frames, 1);
    if (frontend->options.keep_voiced) /* and a byte for each frame's decision */
        rows += (frames + 4 * dim - 1) / (4 * dim);
    return rows < frontend->options.pad_frames ? frontend->options.pad_frames : rows;
}

/* ---- Whole utterances ---- */

/* The steps that need the whole utterance, on (frames, row_dim) in `out`; returns the number of rows. */
static int64_t kf__finish_utterance(kf *f, float *out, int64_t frames) {
    const kf_options *o = &f->options;
    const int dim = f->row_dim, wide = dim * (o->delta_order + 1);
    unsigned char *voiced = (unsigned char *)(out + frames * dim);
    if (o->subtract_mean) kf__subtract_mean(out, frames, dim);
    if (o->keep_voiced) kf__decide(o, out, frames, dim, voiced);
    for (int c = 0; o->cmn_window && c < dim; c++) kf__slide(o, out + c, frames, dim, f->kept);
    if (o->keep_voiced) {
        int64_t kept = 0;
        for (int64_t t = 0; t < frames; t++)
            if (voiced[t]) memmove(out + kept++ * dim, out + t * dim, (size_t)dim * sizeof *out);
        frames = kept;
    }
    if (o->utterance_cmvn) kf__normalize_utterance(o, out, frames, dim);
    if (o->delta_order) kf__append_deltas(o, out, frames, dim);
    const int64_t rows = kf__stacked_rows(f, frames, 1);
    memset(out + frames * wide, 0, (size_t)(rows * f->out_dim - frames * wide) * sizeof *out);
    kf__finish_rows(f, out, rows);
    return rows;
}
/* Make the plan of a frame that is as long as the audio. */
static kf_status kf__shorten(kf *f, int64_t count) {
    kf__arena arena = {f->shorter_memory, 0};
    f->shorter = kf__shorter(f, count);
    if (f->shorter.size < 2 || f->shorter.size > f->plan.size) return KF_ERROR_FRAME;
    f->current = &f->shorter;
    kf__lay_out(&f->shorter, &f->options, &arena);
    return kf__fill(&f->shorter, &f->options, 1);
}

KF_API void kf_reset(kf *frontend) {
    if (!frontend) return;
    frontend->origin = frontend->end = frontend->done = frontend->frames = frontend->stacked = 0;
    frontend->offset = 0.0f;
    frontend->current = &frontend->plan;
}
/* Frames that are known after so many samples. Without snip_edges the last ones are known to be frames only later. */
static int64_t kf__known_frames(const kf *f, int64_t end, int ended) {
    const int64_t shift = f->current->shift, first = kf__first_sample(f) + f->current->size;
    const int64_t needed = first > shift - shift / 2 ? first : shift - shift / 2;
    if (f->options.snip_edges || ended) return kf__num_frames(f, f->current, end);
    return end < needed ? 0 : (end - needed) / shift + 1;
}
/* Compute the frames of the buffer that are known, and discard the samples that no later frame needs. */
static float *kf__advance(kf *f, int ended, float *out) {
    out = kf__compute_frames(f, kf__known_frames(f, f->end, ended), out);
    int64_t oldest = kf__first_sample(f) + f->done * f->current->shift;
    if (!f->options.snip_edges && oldest > f->end - f->current->size) /* the reflection at the end needs a frame */
        oldest = f->end - f->current->size;
    oldest = oldest > f->end ? f->end : oldest;
    if (oldest > f->origin) {
        memmove(f->buffer, f->buffer + (oldest - f->origin), (size_t)(f->end - oldest) * sizeof *f->buffer);
        f->origin = oldest;
    }
    return out;
}
/* Append samples to the buffer, as often as it is full, and compute what they decide. One of the two pointers is not NULL. */
static float *kf__take_samples(kf *f, const float *floats, const int16_t *shorts, int64_t count, float *out) {
    const float convert = floats ? 1.0f : f->options.full_scale / 32768.0f, scale = f->options.waveform_scale;
    for (int64_t taken = 0; taken < count;) {
        const int64_t room = f->room - (f->end - f->origin), part = count - taken < room ? count - taken : room;
        float *place = f->buffer + (f->end - f->origin);
        for (int64_t i = 0; i < part; i++)
            place[i] = ((floats ? floats[taken + i] : (float)shorts[taken + i] * convert) - f->offset) * scale;
        taken += part, f->end += part;
        out = kf__advance(f, 0, out);
    }
    return out;
}
static kf_status kf__check_samples(const float *floats, const int16_t *shorts, int64_t count) {
    uint32_t bad = 0;
    if (count && !floats && !shorts) return KF_ERROR_ARGUMENT;
    for (int64_t i = 0; i < count && floats; i++) bad |= (uint32_t)((kf__bits(floats[i]) & 0x7f800000u) == 0x7f800000u);
    return bad ? KF_ERROR_SAMPLES : KF_OK;
}
static kf_status kf__compute(kf *f, const float *floats, const int16_t *shorts, int64_t count, float *out, int64_t capacity,
                             int64_t *rows) {
    if (!f || !rows) return KF_ERROR_ARGUMENT;
    *rows = 0;
    if (count <= 0 || count >= KF__MOST) return count ? KF_ERROR_ARGUMENT : KF_ERROR_EMPTY;
    const int64_t needed = kf_rows(f, count), pad = f->options.pad_frames;
    if (capacity < needed || (needed && !out)) return out ? KF_ERROR_BUFFER : KF_ERROR_ARGUMENT;
    float nothing;
    if (!out) out = &nothing; /* no row is written, and NULL + 0 is undefined */
    kf_status status = kf__mode_is_exact() ? kf__check_samples(floats, shorts, count) : KF_ERROR_BUILD;
    kf_reset(f);
    if (status == KF_OK && kf__is_shortened(f, count)) status = kf__shorten(f, count);
    if (status != KF_OK) return status;
    if (f->options.subtract_clip_mean) {
        double sum = 0.0;
        for (int64_t i = 0; i < count; i++)
            sum += (double)(floats ? floats[i] : (float)shorts[i] * (f->options.full_scale / 32768.0f));
        f->offset = (float)(sum / (double)count);
    }
    float *end = kf__advance(f, 1, kf__take_samples(f, floats, shorts, count, out));
    *rows = f->by_utterance ? kf__finish_utterance(f, out, f->done) : (kf__write_stacks(f, end, 1) - out) / f->out_dim;
    if (*rows < pad) {
        memset(out + *rows * f->out_dim, 0, (size_t)((pad - *rows) * f->out_dim) * sizeof *out);
        kf__finish_rows(f, out + *rows * f->out_dim, pad - *rows);
    }
    *rows = pad ? pad : *rows;
    kf_reset(f);
    return KF_OK;
}
KF_API kf_status kf_compute(kf *frontend, const float *samples, int64_t count, float *out, int64_t capacity, int64_t *rows) {
    return kf__compute(frontend, samples, NULL, count, out, capacity, rows);
}
KF_API kf_status kf_compute_int16(kf *frontend, const int16_t *samples, int64_t count, float *out, int64_t capacity,
                                  int64_t *rows) {
    return kf__compute(frontend, NULL, samples, count, out, capacity, rows);
}

/* ---- Streams ---- */

KF_API int64_t kf_ready(const kf *frontend, int64_t count, int ended) {
    if (!frontend || frontend->whole || count < 0 || count >= KF__MOST) return 0;
    const int64_t frames = kf__known_frames(frontend, frontend->end + count, ended);
    return kf__stacked_rows(frontend, frames, ended) - frontend->stacked;
}
static kf_status kf__accept(kf *f, const float *floats, const int16_t *shorts, int64_t count, int ended, float *out,
                            int64_t capacity, int64_t *rows) {
    if (!f || !rows) return KF_ERROR_ARGUMENT;
    *rows = 0;
    if (count < 0 || count >= KF__MOST || f->end >= (int64_t)1 << 61) return KF_ERROR_ARGUMENT;
    if (f->whole) return KF_ERROR_STREAM;
    const int64_t ready = kf_ready(f, count, ended), before = f->stacked;
    if (capacity < ready || (ready && !out)) return out ? KF_ERROR_BUFFER : KF_ERROR_ARGUMENT;
    float nothing;
    if (!out) out = &nothing; /* no row is written, and NULL + 0 is undefined */
    const kf_status status = kf__mode_is_exact() ? kf__check_samples(floats, shorts, count) : KF_ERROR_BUILD;
    if (status != KF_OK) return status;
    if (!ended) (void)kf__take_samples(f, floats, shorts, count, out);
    else if (ready) (void)kf__write_stacks(f, kf__advance(f, 1, out), 1);
    *rows = f->stacked - before;
    if (ended) kf_reset(f);
    return KF_OK;
}
KF_API kf_status kf_accept(kf *frontend, const float *samples, int64_t count, float *out, int64_t capacity, int64_t *rows) {
    return kf__accept(frontend, samples, NULL, count, 0, out, capacity, rows);
}
KF_API kf_status kf_accept_int16(kf *frontend, const int16_t *samples, int64_t count, float *out, int64_t capacity,
                                 int64_t *rows) {
    return kf__accept(frontend, NULL, samples, count, 0, out, capacity, rows);
}
KF_API kf_status kf_finish(kf *frontend, float *out, int64_t capacity, int64_t *rows) {
    return kf__accept(frontend, NULL, NULL, 0, 1, out, capacity, rows);
}

#if defined(__clang__)
#pragma float_control(pop)
#pragma STDC FP_CONTRACT DEFAULT
#pragma clang diagnostic pop
#elif defined(__GNUC__)
#pragma GCC pop_options
#endif

#endif /* KALDI_FEATURES_IMPLEMENTATION */
