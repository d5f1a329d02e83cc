/* Spectral features with Kaldi's bits: fbank, MFCC, PLP and spectrogram, one frame per SIMD lane.

   A block has as many frames as there are lanes, of one utterance or several. It goes through all steps while it is in the first-level
   cache. Each lane does the scalar operations of Kaldi's programs in their order. All tables (window, roots of unity, mel weights,
   cosines) come from Python. */
#include <stdlib.h>

#include "accurate_fft.h"
#include "cepstra.h"
#include "dither.h"
#include "fft.h"
#include "frames.h"
#include "mixed_radix.h"
#include "simd.h"

enum { FRAMES, SPECTROGRAM, FBANK, MFCC, PLP };

/* The plan of a feature. kaldi_compat/exact/compiled.py makes it. */
typedef struct {
    int32_t kind, size, shift, points, dim;
    int32_t remove_dc_offset, use_energy, raw_energy, use_log_fbank, use_power, htk_compat, return_raw_fft;
    int32_t num_mel_bins, num_ceps, lpc_order;
    int32_t log_points;     /* log2 of points / 2, or -1 if points / 2 is not a power of two */
    int32_t largest_factor; /* the largest prime factor of points / 2 */
    float waveform_scale, dither, preemphasis_coefficient, energy_minimum, log_energy_floor, compress_factor,
        cepstral_scale;
    const float *window;                 /* (size) */
    const twiddle *twiddles[32];         /* for transforms of 2^k points: (2^k / 4) */
    const int32_t *factors;              /* prime factors of points / 2 */
    const float *mixed_roots;            /* for mixed_radix() */
    const float *roots;                  /* (points / 4, 2): exp(-2 pi i k / points), k = 1, 2, ... */
    const int32_t *order;                /* (points / 2): where the FFT leaves each result */
    const double *directions;            /* (points / 2, 2) for accurate_fft(), or NULL. With it, `order` is (points). */
    const float *matrix;                 /* (num_ceps, num_mel_bins), for PLP (lpc_order + 1, num_mel_bins + 2) */
    const float *lifter;                 /* (num_ceps) */
    const int32_t *mel_first, *mel_size; /* (warps, num_mel_bins): the first FFT bin with a weight, and their number */
    const int64_t *mel_offset;           /* (warps, num_mel_bins): where the weights start in mel_weights */
    const float *mel_weights;
    const float *loudness; /* (warps, num_mel_bins), for PLP */
} spectral_plan;

/* Utterances in one buffer. Frame r of utterance u starts at sample first[u] + r * shift of the utterance. Before the start and past the
   end of an utterance, its audio is reflected. The features of the frame are row rows[u] + r of the output. */
typedef struct {
    const void *samples;
    int64_t count;
    const int64_t *start, *length, *first; /* (count), in samples */
    const int64_t *rows;                   /* (count + 1) */
    const int32_t *warp;                   /* (count), or NULL for 0: index of each utterance's mel weights */
    const int32_t *seeds;                  /* (rows), or NULL: rand_r() states for dithering */
    int32_t type;                          /* SHORTS or FLOATS */
} audio_batch;

/* The frames of a block, and working memory. */
typedef struct {
    const void *starts[LANES];
    int types[LANES], warps[LANES];
    vi seeds;
    float *edges[LANES]; /* (size) each: copies of frames that reach past the ends */
    vf *x;               /* (points): samples, then the FFT in place */
    complex_lanes *z;    /* (points / 2): results of mixed_radix() */
    complex_lanes *spare;
    wide_lanes *wide; /* (points): results of accurate_fft() */
    vf *power;    /* (points / 2 + 1) */
    vf *mel;      /* (num_mel_bins + 2) */
    vf *lpc;      /* 4 * (lpc_order + 2) */
    vf *features; /* (dim) */
    vf log_energy;
} block;

static vf *take(char **memory, int64_t vectors)
{
    vf *start = (vf *)*memory;
    *memory += vectors * sizeof(vf);
    return start;
}

/* Allocate the memory of a block. Returns what must be freed, or NULL. */
static void *make_block(block *b, const spectral_plan *plan)
{
    int half = plan->points / 2, mixed = plan->log_points < 0;
    int64_t edge = (plan->size + LANES - 1) / LANES;
    int64_t wide = plan->directions ? plan->points * (int64_t)(sizeof(wide_lanes) / sizeof(vf)) : 0;
    int64_t vectors = LANES * edge + plan->points + 2 * (mixed ? half + plan->largest_factor : 0) + wide + half + 1 +
                      plan->num_mel_bins + 2 + 4 * (plan->lpc_order + 2) + plan->dim;
    void *allocated = malloc((vectors + 1) * sizeof(vf));
    if (!allocated) return NULL;
    char *memory = (char *)allocated + (sizeof(vf) - (uintptr_t)allocated % sizeof(vf));
    for (int l = 0; l < LANES; l++)
        b->edges[l] = (float *)take(&memory, edge);
    b->x = take(&memory, plan->points);
    b->z = (complex_lanes *)(mixed ? take(&memory, 2 * half) : b->x);
    b->spare = (complex_lanes *)take(&memory, mixed ? 2 * plan->largest_factor : 0);
    b->wide = (wide_lanes *)take(&memory, wide);
    b->power = take(&memory, half + 1);
    b->mel = take(&memory, plan->num_mel_bins + 2);
    b->lpc = take(&memory, 4 * (plan->lpc_order + 2));
    b->features = take(&memory, plan->dim);
    return allocated;
}

/* Find the audio of the frames from row `row` on. Lanes from row `end` on repeat the first lane. The utterance of the first frame is at or
   after *utterance, which receives the utterance of the last frame. */
static void fill_block(block *b, const spectral_plan *plan, const audio_batch *batch, int64_t row, int64_t end,
                       int64_t *utterance)
{
    int64_t u = *utterance;
    for (int l = 0; l < LANES; l++) {
        if (row + l >= end) {
            b->starts[l] = b->starts[0], b->types[l] = b->types[0], b->warps[l] = b->warps[0],
            b->seeds[l] = b->seeds[0];
            continue;
        }
        while (row + l >= batch->rows[u + 1])
            u++;
        int64_t first = batch->first[u] + (row + l - batch->rows[u]) * plan->shift, length = batch->length[u];
        const char *audio = (const char *)batch->samples + batch->start[u] * (batch->type == SHORTS ? 2 : 4);
        if (first >= 0 && first + plan->size <= length) {
            b->starts[l] = audio + first * (batch->type == SHORTS ? 2 : 4);
            b->types[l] = batch->type;
        } else {
            copy_reflected(audio, batch->type, length, first, plan->size, b->edges[l]);
            b->starts[l] = b->edges[l];
            b->types[l] = FLOATS;
        }
        b->warps[l] = batch->warp ? batch->warp[u] : 0;
        b->seeds[l] = batch->seeds ? batch->seeds[row + l] : 0;
    }
    *utterance = u;
}

static vf log_of_energy(const vf *x, int n, float minimum)
{
    return log_of(at_least(dot_product(x, (const float *)x, 0, n), minimum));
}

/* Convert samples to windowed frames, and compute the log energies of the frames. */
static void window_frames(block *b, const spectral_plan *plan, int dithered)
{
    vf *x = b->x;
    gather(b->starts, b->types, plan->size, x);
    if (plan->waveform_scale != 1.0f) scale_samples(x, plan->size, plan->waveform_scale);
    if (dithered) add_noise(x, plan->size, (vu)b->seeds, plan->dither);
    if (plan->remove_dc_offset) remove_dc(x, plan->size);
    if (plan->use_energy && plan->raw_energy) b->log_energy = log_of_energy(x, plan->size, 0x1p-23f);
    weigh(x, plan->size, plan->preemphasis_coefficient, plan->window);
    memset(x + plan->size, 0, (plan->points - plan->size) * sizeof(vf));
    if (plan->use_energy && !plan->raw_energy) b->log_energy = log_of_energy(x, plan->points, plan->energy_minimum);
    if (plan->use_energy)
        b->log_energy = choose(b->log_energy < plan->log_energy_floor, splat(plan->log_energy_floor), b->log_energy);
}

/* Do what transform() does by an FFT in double precision, whose results are rounded once. */
static void transform_accurately(block *b, const spectral_plan *plan, vf *raw)
{
    int half = plan->points / 2;
    accurate_fft(b->x, plan->points, plan->order, plan->directions, b->wide);
    vf zeroth = narrow(b->wide[0].re), nyquist = narrow(b->wide[half].re);
    for (int k = 1; k < half; k++) {
        vf re = narrow(b->wide[k].re), im = narrow(b->wide[k].im);
        if (raw)
            raw[2 * k] = re, raw[2 * k + 1] = im;
        else
            b->power[k] = re * re + im * im;
    }
    if (raw)
        raw[0] = zeroth, raw[1] = nyquist;
    else
        b->power[0] = zeroth * zeroth, b->power[half] = nyquist * nyquist;
}

/* Transform windowed frames to their power spectrum, b->power. If `raw` (points) is not NULL, transform them instead to the FFT in Kaldi's
   layout: the real values at 0 and at the Nyquist frequency, then the real and imaginary part at each frequency in between. */
static void transform(block *b, const spectral_plan *plan, vf *raw)
{
    int half = plan->points / 2;
    const complex_lanes *z = b->z;
    if (plan->log_points >= 0)
        split_radix((complex_lanes *)b->x, plan->log_points, plan->twiddles);
    else
        mixed_radix((complex_lanes *)b->x, 1, b->z, half, plan->factors, plan->mixed_roots, b->spare);
    const int32_t *order = plan->order;
    vf *power = b->power;
    for (int k = half / 2; k > 0; k--) {
        complex_lanes a, m;
        unzip(z[order[k]], z[order[half - k]], plan->roots[2 * k - 2], plan->roots[2 * k - 1], &a, &m);
        if (raw) {
            raw[2 * (half - k)] = m.re, raw[2 * (half - k) + 1] = m.im;
            raw[2 * k] = a.re, raw[2 * k + 1] = a.im;
        } else {
            power[half - k] = m.re * m.re + m.im * m.im;
            power[k] = a.re * a.re + a.im * a.im;
        }
    }
    vf zeroth = z[0].re + z[0].im, nyquist = z[0].re - z[0].im;
    if (raw)
        raw[0] = zeroth, raw[1] = nyquist;
    else
        power[0] = zeroth * zeroth, power[half] = nyquist * nyquist;
}

static void mel_energies(const block *b, const spectral_plan *plan, int warp, vf *energies)
{
    for (int i = 0; i < plan->num_mel_bins; i++) {
        int64_t at = (int64_t)warp * plan->num_mel_bins + i;
        const float *weights = plan->mel_weights + plan->mel_offset[at];
        energies[i] = dot_product(b->power + plan->mel_first[at], weights, 1, plan->mel_size[at]);
    }
}

static void take_logs(vf *x, int n)
{
    for (int i = 0; i < n; i++)
        x[i] = log_of(at_least(x[i], 0x1p-23f));
}

static void fbank_of_mel(block *b, const spectral_plan *plan, int warp)
{
    vf *bins = b->features + (plan->use_energy && !plan->htk_compat);
    mel_energies(b, plan, warp, bins);
    if (plan->use_log_fbank) take_logs(bins, plan->num_mel_bins);
    if (plan->use_energy) b->features[plan->htk_compat ? plan->num_mel_bins : 0] = b->log_energy;
}

static void weigh_cepstra(vf *cepstra, const float *lifter, int n)
{
    for (int i = 0; i < n; i++)
        cepstra[i] *= lifter[i];
}

/* Replace C0 by the energy, and move it to the end for HTK's order. */
static void finish_cepstra(block *b, const spectral_plan *plan)
{
    vf first = plan->use_energy ? b->log_energy : b->features[0];
    b->features[0] = first;
    if (!plan->htk_compat) return;
    memmove(b->features, b->features + 1, (plan->num_ceps - 1) * sizeof(vf));
    if (plan->kind == MFCC && !plan->use_energy) { /* HTK's DCT has no special scale for C0 */
        vd2 wide = widen(first);
        first = narrow((vd2){wide.low * 0x1.6a09e667f3bcdp0, wide.high * 0x1.6a09e667f3bcdp0});
    }
    b->features[plan->num_ceps - 1] = first;
}

static void mfcc_of_mel(block *b, const spectral_plan *plan, int warp)
{
    mel_energies(b, plan, warp, b->mel);
    take_logs(b->mel, plan->num_mel_bins);
    matrix_vector(plan->matrix, plan->num_ceps, plan->num_mel_bins, b->mel, b->features);
    weigh_cepstra(b->features, plan->lifter, plan->num_ceps);
    finish_cepstra(b, plan);
}

static void plp_of_mel(block *b, const spectral_plan *plan, int warp)
{
    int bins = plan->num_mel_bins, order = plan->lpc_order;
    vf *loudness = b->mel, *lags = b->lpc, *lpc = lags + order + 2, *spare = lpc + order + 2,
       *cepstra = spare + order + 2;
    mel_energies(b, plan, warp, loudness + 1);
    for (int i = 0; i < bins; i++)
        loudness[i + 1] = power_of(loudness[i + 1] * plan->loudness[(int64_t)warp * bins + i], plan->compress_factor);
    loudness[0] = loudness[1];
    loudness[bins + 1] = loudness[bins];
    matrix_vector(plan->matrix, order + 1, bins + 2, loudness, lags);
    vf residual = linear_prediction(lags, order, lpc, spare);
    cepstra_of_prediction(lpc, order, cepstra);
    b->features[0] = at_least(log_of_residual(residual), 0x1p-126f);
    for (int l = 0; l < LANES; l++)
        if (has_nan(cepstra, order, l))
            sign_nans(lags, order, plan->compress_factor, lpc, spare, cepstra, b->features, l);
    memcpy(b->features + 1, cepstra, (plan->num_ceps - 1) * sizeof(vf));
    weigh_cepstra(b->features, plan->lifter, plan->num_ceps);
    if (plan->cepstral_scale == 0.0f) /* OpenBLAS's sscal writes zeros without a sign for a factor of 0 */
        memset(b->features, 0, plan->num_ceps * sizeof(vf));
    else if (plan->cepstral_scale != 1.0f)
        for (int i = 0; i < plan->num_ceps; i++)
            b->features[i] *= plan->cepstral_scale;
    finish_cepstra(b, plan);
}

/* Write the features of the lanes below `count` whose mel weights have the index `warp` to the same rows of out (count, dim). */
static void write_rows(const block *b, int dim, int count, int warp, float *out)
{
    int i = 0;
    for (; i + LANES <= dim; i += LANES) {
        vf rows[LANES];
        memcpy(rows, b->features + i, sizeof rows);
        transpose(rows);
        for (int l = 0; l < count; l++)
            if (b->warps[l] == warp) memcpy(out + (int64_t)l * dim + i, rows + l, sizeof(vf));
    }
    for (; i < dim; i++)
        for (int l = 0; l < count; l++)
            if (b->warps[l] == warp) out[(int64_t)l * dim + i] = ((const float *)(b->features + i))[l];
}

static void spectrogram_of_power(block *b, const spectral_plan *plan)
{
    int bins = plan->points / 2 + 1;
    memcpy(b->features, b->power, bins * sizeof(vf));
    take_logs(b->features, bins);
    b->features[0] = b->log_energy;
}

static void features_of_block(block *b, const spectral_plan *plan, int dithered, int count, float *out)
{
    window_frames(b, plan, dithered);
    if (plan->kind == FRAMES)
        memcpy(b->features, b->x, plan->dim * sizeof(vf));
    else if (plan->directions)
        transform_accurately(b, plan, plan->return_raw_fft ? b->features : NULL);
    else
        transform(b, plan, plan->return_raw_fft ? b->features : NULL);
    if (plan->kind <= SPECTROGRAM) {
        if (plan->kind == SPECTROGRAM && !plan->return_raw_fft) spectrogram_of_power(b, plan);
        for (int l = 0; l < LANES; l++)
            b->warps[l] = 0;
        write_rows(b, plan->dim, count, 0, out);
        return;
    }
    if (!plan->use_power)
        for (int i = 0; i <= plan->points / 2; i++)
            b->power[i] = square_root(b->power[i]);
    for (int l = 0; l < count; l++) {
        int warp = b->warps[l], done = 0;
        for (int earlier = 0; earlier < l; earlier++)
            done |= b->warps[earlier] == warp;
        if (done) continue;
        if (plan->kind == FBANK)
            fbank_of_mel(b, plan, warp);
        else if (plan->kind == MFCC)
            mfcc_of_mel(b, plan, warp);
        else
            plp_of_mel(b, plan, warp);
        write_rows(b, plan->dim, count, warp, out);
    }
}

/* Compute rows row_begin to row_end of the features of a batch; `out` is (row_end - row_begin, dim). Returns 0, or 1 if there is
   no memory. Several threads may work on different rows of the same batch. */
EXPORT int SIMD_NAME(spectral_features)(const spectral_plan *plan, const audio_batch *batch, int64_t row_begin,
                                        int64_t row_end, float *out)
{
    block b;
    void *memory = make_block(&b, plan);
    if (!memory) return 1;
    int64_t utterance = 0, beyond = batch->count; /* the utterance of the first row lies in between */
    while (beyond - utterance > 1) {
        int64_t middle = utterance + (beyond - utterance) / 2;
        if (batch->rows[middle] <= row_begin)
            utterance = middle;
        else
            beyond = middle;
    }
    int dithered = batch->seeds != NULL && plan->dither != 0.0f;
    for (int64_t row = row_begin; row < row_end; row += LANES) {
        int count = row_end - row < LANES ? (int)(row_end - row) : LANES;
        fill_block(&b, plan, batch, row, row_end, &utterance);
        features_of_block(&b, plan, dithered, count, out + (row - row_begin) * plan->dim);
    }
    free(memory);
    return 0;
}
