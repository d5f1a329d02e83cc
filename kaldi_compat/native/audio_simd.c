/* Audio at another sampling rate, with Kaldi's bits. */
#include "frames.h"
#include "simd.h"

/* The filters of one period of two sampling rates. kaldi_compat/exact/resample.py computes them. */
typedef struct {
    int32_t phases, period; /* output and input samples in a period */
    int32_t longest;        /* length of the longest filter in samples */
    const int64_t *first;   /* (phases): the input sample that each filter begins at, counted from the period's start */
    const int32_t *taps;    /* (phases): length of each filter in samples */
    const int64_t *offset;  /* (phases): where each filter starts in weights */
    const float *weights;
} resampling_filters;

static float sample_at(const void *samples, int type, int64_t i)
{
    return type == SHORTS ? ((const int16_t *)samples)[i] : ((const float *)samples)[i];
}

/* Compute an output sample whose filter reaches past the audio. Kaldi then adds the products in float. */
static float edge_sample(const void *samples, int type, int64_t count, int64_t first, const float *weights, int taps)
{
    float sum = 0.0f;
    for (int i = 0; i < taps; i++)
        if (first + i >= 0 && first + i < count) sum += weights[i] * sample_at(samples, type, first + i);
    return sum;
}

/* Compute outputs `begin` to `end`; output k is out[k - begin]. The filters of outputs inside_begin to inside_end lie within the
   samples. `x` has room for `longest` vectors. */
static void resample_phase(const resampling_filters *f, int phase, const void *samples, int type, int64_t count,
                           int64_t begin, int64_t inside_begin, int64_t inside_end, int64_t end, vf *x, float *out)
{
    const float *weights = f->weights + f->offset[phase];
    int taps = f->taps[phase], bytes = type == SHORTS ? 2 : 4, step = f->phases;
    int64_t k = begin + (phase - begin % step + step) % step;
    while (k < end) {
        int64_t first = f->first[phase] + k / step * f->period;
        if (k < inside_begin || k >= inside_end) {
            out[k - begin] = edge_sample(samples, type, count, first, weights, taps);
            k += step;
            continue;
        }
        const void *starts[LANES];
        int types[LANES], lanes = 0;
        for (int l = 0; l < LANES; l++) {
            if (k + (int64_t)l * step < inside_end) lanes = l + 1;
            starts[l] = (const char *)samples + (first + (int64_t)(lanes - 1) * f->period) * bytes;
            types[l] = type;
        }
        gather(starts, types, taps, x);
        vf sums = dot_product(x, weights, 1, taps);
        for (int l = 0; l < lanes; l++, k += step)
            out[k - begin] = ((const float *)&sums)[l];
    }
}

/* A chunk of audio to resample. Samples start to start + count of the audio are known. Samples before `begin` belong to earlier
   chunks. Outputs `first` to `end` are written from out[place] on. */
typedef struct {
    int64_t start, count, begin, first, end, place;
} resampling_chunk;

static int64_t filter_begin(const resampling_filters *f, int64_t k)
{
    return f->first[k % f->phases] + k / f->phases * f->period;
}

static int64_t filter_end(const resampling_filters *f, int64_t k)
{
    return filter_begin(f, k) + f->taps[k % f->phases];
}

/* Resample chunks of utterances (Kaldi: LinearResample::Resample). `work` has room for f->longest + 1 vectors. */
EXPORT int SIMD_NAME(resample_chunks)(const resampling_filters *f, const void *samples, int32_t type,
                                      const resampling_chunk *chunks, int64_t count, char *work, float *out)
{
    vf *x = (vf *)(work + (sizeof(vf) - (uintptr_t)work % sizeof(vf)));
    for (const resampling_chunk *c = chunks; c < chunks + count; c++) {
        int64_t low = c->first, high = c->end; /* the first output whose filter does not reach back to earlier chunks */
        while (low < high) {
            int64_t middle = low + (high - low) / 2;
            if (filter_begin(f, middle) < c->begin)
                low = middle + 1;
            else
                high = middle;
        }
        int64_t inside_begin = low;
        for (high = c->end; low < high;) { /* the first output whose filter reaches past the end */
            int64_t middle = low + (high - low) / 2;
            if (filter_end(f, middle) <= c->count)
                low = middle + 1;
            else
                high = middle;
        }
        const char *audio = (const char *)samples + c->start * (type == SHORTS ? 2 : 4);
        for (int phase = 0; phase < f->phases; phase++)
            resample_phase(f, phase, audio, type, c->count, c->first, inside_begin, low, c->end, x, out + c->place);
    }
    return 0;
}
