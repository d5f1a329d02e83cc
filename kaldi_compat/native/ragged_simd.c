/* Processing of features of many utterances at once: deltas, splicing, normalization, voice activity.

   The features of all utterances are one matrix of `dim` columns. Utterance u has the rows from rows[u] to before rows[u + 1], and `count`
   is the number of utterances. Each function does the operations of Kaldi (src/feat/feature-functions.cc, src/transform/cmvn.cc,
   src/ivector/voice-activity-detection.cc) in Kaldi's order. */
#include "libm.h"
#include "simd.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK 256 /* rows that are filtered at once */
#define GROUP 64  /* numbers whose sums are kept in registers */

/* Copy rows `first` to before `last` of an utterance with rows `begin` to before `end`. Its first and last row repeat past its edges. */
static void copy_rows(const float *x, int64_t dim, int64_t begin, int64_t end, int64_t first, int64_t last, float *out)
{
    int64_t row = first;
    for (; row < last && row < begin; row++, out += dim)
        memcpy(out, x + begin * dim, dim * sizeof(float));
    if (row < last && row < end) {
        int64_t count = (last < end ? last : end) - row;
        memcpy(out, x + row * dim, count * dim * sizeof(float));
        row += count, out += count * dim;
    }
    for (; row < last; row++, out += dim)
        memcpy(out, x + (end - 1) * dim, dim * sizeof(float));
}

/* out[i] = sum over j of weights[j] * x[i + j * dim], with a fused multiply-add for each term, as OpenBLAS's saxpy. */
static void filter(const float *x, int64_t count, int64_t dim, const float *weights, int taps, float *out)
{
    int64_t i = 0;
    for (; i + GROUP <= count; i += GROUP) {
        float sums[GROUP] = {0};
        for (int j = 0; j < taps; j++) {
            const float *terms = x + i + j * dim, weight = weights[j];
            if (weight != 0.0f)
                for (int l = 0; l < GROUP; l++)
                    sums[l] = __builtin_fmaf(weight, terms[l], sums[l]);
        }
        memcpy(out + i, sums, sizeof sums);
    }
    for (; i < count; i++) {
        float sum = 0;
        for (int j = 0; j < taps; j++)
            if (weights[j] != 0.0f) sum = __builtin_fmaf(weights[j], x[i + j * dim], sum);
        out[i] = sum;
    }
}

/* Filter each utterance along time. Filter f has the next taps[f] numbers of `weights`, and its first weight applies to the frame that is
   firsts[f] frames after the current frame. A filter without taps copies this frame. `out` has `filters` * dim columns, starting with
   filter 0. Returns 0, or 1 if there is no memory. */
EXPORT int SIMD_NAME(ragged_filter)(const float *x, const int64_t *rows, int64_t count, int64_t dim,
                                    const float *weights, const int32_t *taps, const int32_t *firsts, int32_t filters,
                                    float *out)
{
    int64_t left = 0, right = 0, width = dim * filters;
    for (int f = 0; f < filters; f++) {
        left = firsts[f] < left ? firsts[f] : left;
        int64_t last = firsts[f] + (taps[f] ? taps[f] - 1 : 0);
        right = last > right ? last : right;
    }
    float *padded = malloc(((CHUNK + right - left) * dim + CHUNK * dim) * sizeof(float));
    if (!padded) return 1;
    float *filtered = padded + (CHUNK + right - left) * dim;
    for (int64_t u = 0; u < count; u++)
        for (int64_t row = rows[u]; row < rows[u + 1]; row += CHUNK) {
            int64_t end = row + CHUNK < rows[u + 1] ? row + CHUNK : rows[u + 1];
            const float *of_filter = weights;
            copy_rows(x, dim, rows[u], rows[u + 1], row + left, end + right, padded);
            for (int f = 0, count; f < filters; of_filter += taps[f], f += count) {
                const float *from = padded + (firsts[f] - left) * dim;
                for (count = 1;
                     !taps[f] && f + count < filters && !taps[f + count] && firsts[f + count] == firsts[f] + count;)
                    count++; /* numbers of neighboring columns are adjacent */
                if (taps[f]) {
                    filter(from, (end - row) * dim, dim, of_filter, taps[f], filtered);
                    from = filtered;
                }
                const size_t bytes = count * dim * sizeof(float);
                float *to = out + row * width + f * dim;
                for (int64_t i = row; i < end; i++, from += dim, to += width)
                    memcpy(to, from, bytes);
            }
        }
    free(padded);
    return 0;
}

/* Add the sums of each utterance, and its sums of squares, to out (count, 2, dim + 1), and the sum of the weights to the last column of the
   first row. Every weight is 1 if `weights` is NULL. Terms are rounded to float before they are added. Rows of weight 0 may hold any
   numbers, even NaN. */
EXPORT int SIMD_NAME(ragged_stats)(const float *x, const int64_t *rows, int64_t count, int64_t dim,
                                   const float *weights, double *out)
{
    for (int64_t u = 0; u < count; u++, out += 2 * (dim + 1)) {
        double *sums = out, *squares = out + dim + 1;
        for (int64_t row = rows[u]; row < rows[u + 1]; row++, x += dim) {
            const float weight = weights ? weights[row] : 1.0f;
            if (weight == 0.0f) continue;
            for (int64_t d = 0; d < dim; d++) {
                float term = x[d] * weight, square = x[d] * x[d];
                square = square * weight;
                sums[d] += term;
                squares[d] += square;
            }
            sums[dim] += weight;
        }
    }
    return 0;
}

/* Compute the sums of squares of the first window in the order of OpenBLAS's ddot with a stride. `odd` is scratch memory. */
static void strided_squares(const float *x, int64_t dim, int64_t count, double *odd, double *total)
{
    int64_t whole = count & ~(int64_t)3;
    for (int64_t d = 0; d < dim; d++)
        total[d] = odd[d] = 0;
    for (int64_t i = 0; i < whole; i += 4)
        for (int64_t d = 0; d < dim; d++) {
            const float *at = x + i * dim + d;
            double a = at[0], b = at[dim], c = at[2 * dim], e = at[3 * dim];
            total[d] = total[d] + (a * a + c * c);
            odd[d] = odd[d] + (b * b + e * e);
        }
    for (int64_t i = whole; i < count; i++)
        for (int64_t d = 0; d < dim; d++)
            total[d] = total[d] + (double)x[i * dim + d] * x[i * dim + d];
    for (int64_t d = 0; d < dim; d++)
        total[d] = total[d] + odd[d];
}

/* Find the window, from `start` to before `end`, of frame t of `frames` frames. It has at least `least` frames unless it is centered. */
static void window_of(int64_t t, int64_t frames, int64_t window, int64_t least, int center, int64_t *start,
                      int64_t *end)
{
    int64_t from = center ? t - window / 2 : t - window, to;
    from = from < 0 ? 0 : from;
    to = center ? from + window : t + 1 > least ? t + 1 : least;
    int64_t overhang = to > frames ? to - frames : 0;
    from -= overhang;
    *start = from < 0 ? 0 : from;
    *end = to - overhang;
}

/* Subtract from each frame the mean over its window, and with `norm_vars` divide by the standard deviation. Windows start and end as
   compute_sliding_windows() in functional/cmvn.py returns them. Returns 0, 1 if there is no memory, or 2 if a variance is below the
   floor or a window would be empty. */
EXPORT int SIMD_NAME(ragged_sliding)(const float *x, const int64_t *rows, int64_t count, int64_t dim, int64_t window,
                                     int64_t least, int32_t center, int32_t norm_vars, float *out)
{
    double *sums = malloc(3 * dim * sizeof(double)), *squares = sums + dim, *odd = squares + dim;
    int status = sums ? 0 : 1;
    for (int64_t u = 0; u < count && !status; u++) {
        int64_t frames = rows[u + 1] - rows[u], begin = 0, end = 0;
        const float *all = x + rows[u] * dim;
        for (int64_t t = 0; t < frames && !status; t++, out += dim) {
            int64_t from, to;
            window_of(t, frames, window, least, center, &from, &to);
            if (to <= from) {
                status = 2;
                break;
            }
            if (t == 0) {
                memset(sums, 0, dim * sizeof(double));
                for (int64_t i = from; i < to; i++)
                    for (int64_t d = 0; d < dim; d++)
                        sums[d] += all[i * dim + d];
                if (norm_vars) strided_squares(all + from * dim, dim, to - from, odd, squares);
            } else {
                if (from > begin)
                    for (int64_t d = 0; d < dim; d++) {
                        double leaves = all[begin * dim + d];
                        sums[d] -= leaves;
                        squares[d] -= norm_vars ? leaves * leaves : 0;
                    }
                if (to > end)
                    for (int64_t d = 0; d < dim; d++) {
                        double enters = all[end * dim + d];
                        sums[d] += enters;
                        squares[d] += norm_vars ? enters * enters : 0;
                    }
            }
            begin = from, end = to;
            const double size = (double)(to - from), share = -1.0 / size;
            const float *frame = all + t * dim;
            if (!norm_vars) {
                for (int64_t d = 0; d < dim; d++)
                    out[d] = (float)__builtin_fma(share, sums[d], (double)frame[d]);
            } else if (to - from == 1) {
                memset(out, 0, dim * sizeof(float));
            } else {
                for (int64_t d = 0; d < dim; d++) {
                    double variance = squares[d] * (1.0 / size);
                    variance += (-1.0 / (size * size)) * sums[d] * sums[d];
                    if (!(variance >= 1e-10)) status = 2;
                    out[d] = (float)(__builtin_fma(share, sums[d], (double)frame[d]) * pow(variance, -0.5));
                }
            }
        }
    }
    free(sums);
    return status;
}

/* Write 1 for voiced frames by the log energy in the first column, else 0, to out (rows), and the number of voiced frames to voiced[u]. */
EXPORT int SIMD_NAME(ragged_vad)(const float *x, const int64_t *rows, int64_t count, int64_t dim, float threshold,
                                 float mean_scale, int32_t context, float proportion, float *out, int64_t *voiced)
{
    for (int64_t u = 0; u < count; u++) {
        int64_t frames = rows[u + 1] - rows[u], votes = 0, from = 0, to = 0;
        const float *energy = x + rows[u] * dim;
        double total = 0; /* as OpenBLAS's sdot with a stride of zero: pairs are added in single precision */
        for (int64_t t = 0; t + 1 < frames; t += 2)
            total += energy[t * dim] + energy[(t + 1) * dim];
        if (frames % 2) total += energy[(frames - 1) * dim];
        float limit = threshold;
        if (mean_scale != 0.0f) /* 0 times an infinite mean would be NaN */
            limit += mean_scale * (float)total / (float)(frames > 0 ? frames : 1);
        voiced[u] = 0;
        for (int64_t t = 0; t < frames; t++) {
            int64_t first = t > context ? t - context : 0, last = t + context + 1 < frames ? t + context + 1 : frames;
            for (; to < last; to++)
                votes += energy[to * dim] > limit;
            for (; from < first; from++)
                votes -= energy[from * dim] > limit;
            out[rows[u] + t] = (float)votes >= (float)(last - first) * proportion;
            voiced[u] += out[rows[u] + t] != 0;
        }
    }
    return 0;
}

/* Weighted means over a window around each frame, which has `left` frames before it and `right` frames after it (both at least -1). As
   Kaldi does, subtract the frame that leaves the window from running sums in double precision, and then add the frame that enters it. */
EXPORT int SIMD_NAME(ragged_window_means)(const float *weights, const float *weighted, const int64_t *rows,
                                          int64_t utterances, int64_t left, int64_t right, float *out)
{
    for (int64_t u = 0; u < utterances; u++) {
        const float *w = weights + rows[u], *x = weighted + rows[u];
        int64_t frames = rows[u + 1] - rows[u], begin = 0, end = 0;
        double sum = 0.0, total = 0.0;
        for (int64_t t = 0; t < frames; t++) {
            int64_t next_begin = t - left > 0 ? t - left : 0,
                    next_end = t + right + 1 < frames ? t + right + 1 : frames;
            if (t == 0) {
                for (end = next_begin; end < next_end; end++)
                    total += w[end], sum += x[end];
            } else {
                if (next_begin != begin) total -= w[begin], sum -= x[begin];
                if (next_end != end) total += w[end], sum += x[end];
            }
            begin = next_begin, end = next_end;
            out[rows[u] + t] = (float)(sum / total);
        }
    }
    return 0;
}

/* x minus its moving mean over `window` values. As in Kaldi, the mean is constant near both ends, and the first step skips a value. */
static void subtract_moving_mean(const float *x, int64_t n, int64_t window, float *level)
{
    int64_t reach = (window - 1) / 2 + 1, first = window < n ? window : n;
    float mean = x[0];
    for (int64_t i = 1; i < first; i++)
        mean += x[i];
    mean /= (float)first;
    for (int64_t i = 0; i < n; i++) {
        if (i >= reach && i + reach < n) mean -= (x[i - reach] - x[i + reach]) / (float)window;
        level[i] = x[i] - mean;
    }
}

/* The average of `window` values around each value. Values nearer to an end than half of the window stay as they are. */
static void moving_average(const float *x, int64_t n, int64_t window, float *out, int64_t stride)
{
    int64_t width = (window - 1) / 2;
    for (int64_t i = 0; i < n; i++) {
        float total = x[i];
        int inside = i >= width && i + width < n && width > 0;
        for (int64_t j = 1; inside && j <= width; j++)
            total += x[i - j] + x[i + j];
        out[i * stride] = inside ? total / (float)(2 * width + 1) : total;
    }
}

/* Replace normal positive numbers by their logarithms. */
static void take_logs(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += LANES) {
        float group[LANES];
        int64_t count = n - i < LANES ? n - i : LANES;
        for (int l = 0; l < LANES; l++)
            group[l] = l < count ? x[i + l] : 1.0f;
        vf logs = log_of(load_floats(group));
        memcpy(x + i, &logs, (size_t)count * sizeof(float));
    }
}

/* Replace the first two columns as Kaldi's process-pitch-feats does: with the log odds of voicing, and with the log pitch minus its mean
   over `mean_window` values, averaged over `average_window` values. `work` has room for two times the frames of the longest utterance. */
EXPORT int SIMD_NAME(ragged_smooth_pitch)(const float *x, const int64_t *rows, int64_t utterances, int64_t dim,
                                          int64_t mean_window, int64_t average_window, float *work, float *out)
{
    memcpy(out, x, rows[utterances] * dim * sizeof(float));
    for (int64_t u = 0; u < utterances; u++) {
        int64_t frames = rows[u + 1] - rows[u];
        const float *from = x + rows[u] * dim;
        float *to = out + rows[u] * dim;
        if (frames == 0) continue;
        for (int64_t t = 0; t < frames; t++) {
            double voicing = from[t * dim];
            to[t * dim] = (float)log((voicing + 0.0001) / (1.0001 - voicing));
            work[t] = from[t * dim + 1];
        }
        take_logs(work, frames);
        subtract_moving_mean(work, frames, mean_window, work + frames);
        moving_average(work + frames, frames, average_window, to + 1, dim);
    }
    return 0;
}
