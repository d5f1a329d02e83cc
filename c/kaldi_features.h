/* kaldi_features.h - Kaldi's speech features in one C99 file, with Kaldi's bits.

   Computes fbank, MFCC, PLP and spectrograms, of whole audio or in chunks, with Kaldi's dithering, and the steps that published
   models add: low frame rate, global, utterance and sliding normalization, deltas, stacking. The results are equal to Kaldi's, byte
   for byte, on every machine with IEEE 754 arithmetic: the header has its own logarithms, cosines and FFT, and calls no function
   of <math.h>. It keeps no global state and allocates no memory.

   In one C or C++ file, define KALDI_FEATURES_IMPLEMENTATION before the header is included; all others include it alone:

       #define KALDI_FEATURES_IMPLEMENTATION
       #include "kaldi_features.h"

       kf_options options;
       size_t size;
       kf *fbank;
       int64_t rows;
       options.struct_size = sizeof options;
       kf_status status = kf_from_preset("wespeaker", &options);
       if (status == KF_OK)
           status = kf_size(&options, &size);
       void *memory = malloc(size);
       if (status == KF_OK)
           status = kf_init(memory, size, &options, &fbank);
       if (status == KF_OK)
           status = kf_compute(fbank, samples, count, features, capacity, &rows);
       if (status != KF_OK)
           fprintf(stderr, "%s\n", kf_strerror(status));

   Define KF_STATIC as well to keep all functions private to that file, or KF_API to declare them otherwise (for a shared library).
   Compile without -ffast-math, which is refused. No other flag changes a result; -O3 and -march=native make it faster.

   Copyright 2026 The kaldi-compat authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef KALDI_FEATURES_H
#define KALDI_FEATURES_H

#include <stddef.h>
#include <stdint.h>

#define KF_VERSION "1.0.0"

#ifndef KF_API
#ifdef KF_STATIC
#define KF_API static
#else
#define KF_API extern
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Result of a function. Text for people: kf_strerror(). */
typedef enum kf_status {
    KF_OK = 0,
    KF_ERROR_ARGUMENT = 1,    /* a null pointer, a negative count, or a count of 2^46 or more */
    KF_ERROR_STRUCT_SIZE = 2, /* options.struct_size is not sizeof(kf_options) of a version this header knows */
    KF_ERROR_VALUE = 3,       /* an option is NaN, infinite, or outside its range */
    KF_ERROR_NAME = 4,        /* kf_set(): no option, or kf_from_preset(): no preset of this name */
    KF_ERROR_RATE = 5,        /* sample_frequency is not positive, or is 1e9 or more */
    KF_ERROR_FRAME = 6,       /* frame_length or frame_shift is invalid */
    KF_ERROR_ODD_FFT = 7,     /* the FFT has an odd number of points */
    KF_ERROR_MEL_RANGE = 8,   /* low_freq and high_freq are not in order between 0 and the Nyquist frequency */
    KF_ERROR_MEL_BINS = 9,    /* too few or too many mel bins: one holds no bin of the FFT */
    KF_ERROR_VTLN = 10,       /* vtln_low, vtln_high and vtln_warp do not fit the mel bins */
    KF_ERROR_CEPSTRA = 11,    /* num_ceps, lpc_order or cepstral_lifter is invalid */
    KF_ERROR_STEPS = 12,      /* steps after the feature that exclude each other */
    KF_ERROR_STATISTICS = 13, /* statistics that are missing or do not fit */
    KF_ERROR_MEMORY = 14,     /* less memory than kf_size() says, or more than can be addressed */
    KF_ERROR_BUFFER = 15,     /* the output buffer is too small */
    KF_ERROR_EMPTY = 16,      /* audio without samples */
    KF_ERROR_SAMPLES = 17,    /* a sample is NaN or infinite */
    KF_ERROR_STREAM = 18,     /* a step needs the whole utterance, so audio cannot come in chunks */
    KF_ERROR_BUILD = 19       /* the compiler changed the arithmetic, by fused operations for example */
} kf_status;

/* Features: kf_options.feature. */
enum { KF_FBANK, KF_MFCC, KF_PLP, KF_SPECTROGRAM };

/* Window functions: kf_options.window_type. */
enum { KF_POVEY, KF_HAMMING, KF_HANNING, KF_RECTANGULAR, KF_SINE, KF_BLACKMAN };

/* Options of a front end: Kaldi's, by Kaldi's names, and the steps after the feature.

   Set struct_size, let kf_defaults() or kf_from_preset() fill in the rest, and change what you need. Truth values are 0 or 1.
   Options that a feature does not have are ignored. The steps are computed in the order in which they are listed. */
typedef struct kf_options {
    uint32_t struct_size;           /* sizeof(kf_options) */
    int32_t feature;                /* KF_FBANK, KF_MFCC, KF_PLP or KF_SPECTROGRAM */

    /* Frames. */
    float sample_frequency;         /* Hz; 16000 */
    float frame_length;             /* milliseconds; 25 */
    float frame_shift;              /* milliseconds; 10 */
    float preemphasis_coefficient;  /* 0 to 1; 0.97 */
    float dither;                   /* standard deviation of Kaldi's noise; 1, and 0 in presets */
    float blackman_coeff;           /* constant term of the Blackman window; 0.42 */
    float waveform_scale;           /* factor on the samples; 1 */
    float full_scale;               /* floats of full amplitude: 32768, Kaldi's scale, or 1. 16-bit samples are converted to it */
    int32_t window_type;            /* KF_POVEY */
    int32_t remove_dc_offset;       /* subtract the mean of each frame; 1 */
    int32_t round_to_power_of_two;  /* pad frames with zeros to a power of two; 1 */
    int32_t snip_edges;             /* only frames that lie wholly in the audio; 0 reflects it at its ends; 1 */

    /* Mel bins: all but spectrograms. */
    int32_t num_mel_bins;           /* 23 */
    float low_freq;                 /* Hz; 20 */
    float high_freq;                /* Hz; 0 or less is an offset from the Nyquist frequency; 0 */
    float vtln_low;                 /* Hz; 100 */
    float vtln_high;                /* Hz; negative is an offset from the Nyquist frequency; -500 */
    float vtln_warp;                /* warp factor of the speaker; 1 */
    int32_t htk_compat;             /* order and scale of HTK; 0 */
    int32_t allow_empty_bins;       /* accept mel bins that hold no bin of the FFT; 0 */

    /* Energy. */
    int32_t use_energy;             /* log energy as first column or in place of C0; 0 for fbank, 1 for MFCC and PLP */
    int32_t raw_energy;             /* energy before preemphasis and windowing; 1 */
    float energy_floor;             /* floor on the energy before its logarithm; 0 is none */

    /* Fbank. */
    int32_t use_log_fbank;          /* 1 */
    int32_t use_power;              /* power, not magnitude; 1 */

    /* MFCC and PLP. */
    int32_t num_ceps;               /* C0 included; 13 */
    int32_t lpc_order;              /* PLP; 12 */
    float cepstral_lifter;          /* 22; 0 is none */
    float cepstral_scale;           /* PLP; 1 */
    float compress_factor;          /* PLP; 0.33333 */

    /* Spectrogram. */
    int32_t return_raw_fft;         /* real and imaginary parts instead of log power; 0 */

    /* Steps before the feature. */
    int32_t subtract_clip_mean;     /* subtract the mean of all samples; 0 */
    int32_t shorten_frame;          /* whole audio shorter than a frame gives one shorter frame, as in FunASR; 0 */
    int32_t double_precision;       /* FFT in double precision instead of Kaldi's; 0 */

    /* Steps after the feature, in this order. */
    int32_t subtract_mean;          /* mean of the utterance, rounded as by Kaldi's --subtract-mean; 0 */
    int32_t cmn_window;             /* frames of Kaldi's sliding normalization (apply-cmvn-sliding); 0 is none */
    int32_t min_cmn_window;         /* frames at the start of an utterance, without cmn_center; 100 */
    int32_t cmn_center;             /* centre the window on the frame; 0 */
    int32_t cmn_norm_vars;          /* sliding variances, too; 0 */
    int32_t keep_voiced;            /* keep the frames that Kaldi's compute-vad finds voiced before the normalization; 0 */
    float vad_energy_threshold;     /* 5 */
    float vad_energy_mean_scale;    /* 0.5 */
    float vad_proportion_threshold; /* 0.6 */
    int32_t vad_frames_context;     /* 0 */
    int32_t utterance_cmvn;         /* subtract the mean of the utterance, in double precision; 0 */
    int32_t utterance_norm_vars;    /* divide by its standard deviation, too; 0 */
    int32_t utterance_unbiased;     /* divide sums of squares by frames - 1; 0 */
    int32_t delta_order;            /* append deltas, deltas of those ..., as torchaudio; 0 */
    double utterance_epsilon;       /* added to the variance; 0 */
    int32_t delta_window;           /* frames on each side; 2 */
    int32_t lfr_stack;              /* low frame rate: neighbouring frames in a row; 1 */
    int32_t lfr_stride;             /* frames from one row to the next; 1 */
    int32_t stack_frames;           /* frames in a row, each used once; 1 */
    int32_t pad_frames;             /* cut or pad the utterance to so many rows; 0 does not */
    int32_t num_statistics;         /* columns of shift and scale; 0 for none */
    double global_mean;             /* (x - global_mean) / global_std; 0 */
    double global_std;              /* 1 */
    const float *shift;             /* (x + shift[i]) * scale[i] for each column; copied by kf_init() */
    const float *scale;
    const char *statistics;         /* file of the model with those numbers; kf_init() fails until you set them, or this to NULL */
    double floor_minimum;           /* lower limit of the features; minus infinity is none */
} kf_options;

/* A front end: an opaque object in your memory. Use each from one thread at a time. */
typedef struct kf kf;

/* Fill in Kaldi's defaults for a feature.

   options: its struct_size is set, the rest may be uninitialized.
   feature: KF_FBANK, KF_MFCC, KF_PLP or KF_SPECTROGRAM.
   Returns KF_OK, KF_ERROR_ARGUMENT, KF_ERROR_STRUCT_SIZE or KF_ERROR_VALUE.
   Source: Kaldi's src/feat/feature-window.h, mel-computations.h and feature-*.h. */
KF_API kf_status kf_defaults(kf_options *options, int32_t feature);

/* Fill in the options of a published model.

   Audio of presets is in -1 to 1 (full_scale 1), or 16-bit. A preset whose `statistics` is not NULL needs shift and scale, numbers
   of the model's file of this name: minus the mean, and the inverse of the standard deviation, of each column.

   name: such as "wespeaker", "paraformer": see kf_preset_name().
   options: its struct_size is set, the rest may be uninitialized.
   Returns KF_OK, KF_ERROR_NAME, KF_ERROR_ARGUMENT or KF_ERROR_STRUCT_SIZE. */
KF_API kf_status kf_from_preset(const char *name, kf_options *options);

/* Return the name of a preset, for index = 0, 1, ...; NULL past the last one. */
KF_API const char *kf_preset_name(int index);

/* Set an option by its name, as text: "num_mel_bins", "80".

   Takes the names of kf_options, with '-' or '_', with or without leading dashes, so that lines of Kaldi's configuration files can
   be passed on. Numbers are read with a decimal point, whatever the locale; truth values are true, false, 1 or 0.

   Returns KF_OK, KF_ERROR_NAME, KF_ERROR_VALUE, KF_ERROR_ARGUMENT or KF_ERROR_STRUCT_SIZE. */
KF_API kf_status kf_set(kf_options *options, const char *name, const char *value);

/* Compute how many bytes of memory a front end needs, and check its options.

   size: receives the number of bytes, also on KF_ERROR_STATISTICS.
   Returns KF_OK, or what is wrong with the options. */
KF_API kf_status kf_size(const kf_options *options, size_t *size);

/* Make a front end in your memory. Nothing else is allocated, now or later; to destroy it, free your memory.

   memory: of any alignment.
   size: its bytes, at least those of kf_size().
   options: copied, with shift and scale.
   out: receives the front end, which starts at a multiple of 64 within the memory.
   Returns KF_OK, KF_ERROR_MEMORY, KF_ERROR_BUILD, or what is wrong with the options. */
KF_API kf_status kf_init(void *memory, size_t size, const kf_options *options, kf **out);

/* Return the number of columns of the features. */
KF_API int32_t kf_dim(const kf *frontend);

/* Return the number of rows that kf_compute() needs room for, for so many samples: the number of rows that it writes, or more if
   the features decide how many are kept. 0 for a negative number of samples. */
KF_API int64_t kf_rows(const kf *frontend, int64_t count);

/* Compute the features of a whole utterance.

   samples: (count), of the amplitude that full_scale says.
   out: (capacity, dim), row by row.
   capacity: rows that out has room for, at least kf_rows(frontend, count).
   rows: receives the number of rows written.
   Returns KF_OK, KF_ERROR_EMPTY, KF_ERROR_SAMPLES, KF_ERROR_BUFFER or KF_ERROR_ARGUMENT; out is then unchanged. Audio shorter than a
   frame has no rows, which is no error. Discards a stream that has begun. */
KF_API kf_status kf_compute(kf *frontend, const float *samples, int64_t count, float *out, int64_t capacity, int64_t *rows);

/* The same of 16-bit samples. */
KF_API kf_status kf_compute_int16(kf *frontend, const int16_t *samples, int64_t count, float *out, int64_t capacity,
                                  int64_t *rows);

/* Return the number of rows that the next so many samples of a stream decide; with `ended`, those of its end, too. */
KF_API int64_t kf_ready(const kf *frontend, int64_t count, int ended);

/* Take the next chunk of a stream, of any length, and write the rows that it decides. All rows of a stream together are those that
   kf_compute() gives for the whole utterance.

   samples: (count); may be NULL if count is 0.
   out: (capacity, dim); may be NULL if no row is ready.
   capacity: rows that out has room for, at least kf_ready(frontend, count, 0).
   rows: receives the number of rows written.
   Returns KF_OK, KF_ERROR_STREAM, KF_ERROR_SAMPLES, KF_ERROR_BUFFER or KF_ERROR_ARGUMENT; the chunk is then not taken. */
KF_API kf_status kf_accept(kf *frontend, const float *samples, int64_t count, float *out, int64_t capacity, int64_t *rows);

/* The same of 16-bit samples. */
KF_API kf_status kf_accept_int16(kf *frontend, const int16_t *samples, int64_t count, float *out, int64_t capacity,
                                 int64_t *rows);

/* End a stream: write its last rows, at most kf_ready(frontend, 0, 1), and start the next one. Returns what kf_accept() does. */
KF_API kf_status kf_finish(kf *frontend, float *out, int64_t capacity, int64_t *rows);

/* Discard a stream that has begun. */
KF_API void kf_reset(kf *frontend);

/* Start the noise of dithering again, as srand(seed) does. Kaldi's programs never seed, which is seed 1, as after kf_init(); from then
   on the noise carries on from one utterance to the next. */
KF_API void kf_seed(kf *frontend, uint32_t seed);

/* Return a line of text for a status: what is wrong, then what to do. */
KF_API const char *kf_strerror(kf_status status);

/* Detect voiced frames by their energy, as Kaldi's compute-vad.

   features: (frames, dim); the first column is a log energy or C0.
   options: the vad_* options.
   voiced: (frames): receives 1 or 0.
   Returns KF_OK, KF_ERROR_ARGUMENT, KF_ERROR_STRUCT_SIZE or KF_ERROR_VALUE. */
KF_API kf_status kf_vad(const float *features, int64_t frames, int32_t dim, const kf_options *options, float *voiced);

/* Normalize each frame over a sliding window, as Kaldi's apply-cmvn-sliding.

   features: (frames, dim).
   options: cmn_window, min_cmn_window, cmn_center and cmn_norm_vars.
   out: (frames, dim), not the same as features.
   Returns KF_OK, KF_ERROR_ARGUMENT, KF_ERROR_STRUCT_SIZE or KF_ERROR_VALUE. */
KF_API kf_status kf_sliding_cmvn(const float *features, int64_t frames, int32_t dim, const kf_options *options, float *out);

/* Compute shift and scale of Kaldi's statistics for global normalization, with variances, as apply-cmvn --norm-vars=true does.

   stats: (2, dim + 1): sums and the number of frames, sums of squares and zero, as compute-cmvn-stats writes them.
   shift, scale: (dim): receive minus the mean, and the inverse of the standard deviation.
   Returns KF_OK, KF_ERROR_ARGUMENT, or KF_ERROR_STATISTICS if these count no frame or are not finite. */
KF_API kf_status kf_statistics_of_kaldi(const double *stats, int32_t dim, float *shift, float *scale);

#ifdef __cplusplus
}
#endif
#endif /* KALDI_FEATURES_H */
