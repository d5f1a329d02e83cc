/* Online mean and variance normalization: src/feat/online-feature.cc of Kaldi, with its operations in their order. */
#include "simd.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Statistics are (2, dim + 1): the sums and the number of frames, then the sums of squares and a zero. */

/* Add the first `rows` rows of the statistics `from`, weighted so that they count as the frames that a window of `size` frames lacks, but
   as `most` frames at most. */
static void fill(double *stats, int64_t dim, int rows, const double *from, double most, double size)
{
    const double lacking = size - stats[dim], count = lacking < most ? lacking : most, weight = count / from[dim];
    if (count > 0)
        for (int64_t i = 0; i < rows * (dim + 1); i++)
            stats[i] = __builtin_fma(weight, from[i], stats[i]);
}

/* Normalize the mean of a frame, and with `norm_vars` its variance. Returns 0, or 1 if a variance is below the floor or not finite. */
static int normalize(const float *x, const double *stats, int64_t dim, int norm_vars, float *out)
{
    const double *squares = stats + dim + 1, count = stats[dim];
    int is_odd = 0;
    if (!norm_vars) {
        const float share = (float)(-1.0 / count);
        for (int64_t d = 0; d < dim; d++)
            out[d] = x[d] + (float)((double)share * stats[d] + 0.0);
        return 0;
    }
    for (int64_t d = 0; d < dim; d++) {
        const double mean = stats[d] / count, variance = squares[d] / count - mean * mean, scale = 1.0 / sqrt(variance);
        const float factor = (float)scale, offset = (float)-(mean * scale);
        is_odd |= !(variance >= 1e-20 && variance < INFINITY);
        out[d] = x[d] * factor + offset;
    }
    return is_odd;
}

/* Normalize each frame by the window of up to `window` frames that ends with it. Earlier utterances of the speaker, and then a corpus, fill
   up a shorter window. In the first utterance, the first `known` frames are not normalized; `sums` (2, dim) holds the sums over the window
   that ends with them, and afterward the sums over the last window. `seen` holds the statistics of the speaker over all frames so far, and
   `speaker` the statistics before the utterance. Both may be NULL. The means of `skipped` columns become 0, and their variances 1. `work`
   has room for 2 * (dim + 1) numbers. Returns 0, or 1 if a variance is below the floor or not finite. */
EXPORT int SIMD_NAME(online_cmvn)(const float *x, const int64_t *rows, int64_t count, int64_t dim, int64_t known,
                                  int64_t window, const double *corpus, double global_frames, double *speaker,
                                  double speaker_frames, double *seen, const int32_t *skipped, int64_t num_skipped,
                                  int32_t norm_vars, double *sums, double *work, float *out)
{
    double *squares = sums + dim, *stats = work, *stats_squares = work + dim + 1;
    for (int64_t u = 0; u < count; u++, known = 0) {
        if (u > 0) {
            memset(sums, 0, 2 * dim * sizeof(double));
            if (speaker) memcpy(speaker, seen, 2 * (dim + 1) * sizeof(double));
        }
        for (int64_t row = rows[u] + known; row < rows[u + 1]; row++, out += dim) {
            const float *enters = x + row * dim, *leaves = row - rows[u] >= window ? enters - window * dim : NULL;
            const int64_t frames = row - rows[u] + 1;
            for (int64_t d = 0; d < dim; d++) {
                const double value = enters[d];
                sums[d] += value;
                squares[d] += norm_vars ? value * value : 0.0;
            }
            if (leaves)
                for (int64_t d = 0; d < dim; d++) {
                    const double value = leaves[d];
                    sums[d] -= value;
                    squares[d] -= norm_vars ? value * value : 0.0;
                }
            memcpy(stats, sums, dim * sizeof(double));
            memcpy(stats_squares, squares, dim * sizeof(double));
            stats[dim] = (double)(frames < window ? frames : window), stats_squares[dim] = 0;
            if (speaker && speaker[dim] > 0)
                fill(stats, dim, 1 + norm_vars, speaker, speaker_frames < speaker[dim] ? speaker_frames : speaker[dim],
                     (double)window);
            fill(stats, dim, 1 + norm_vars, corpus, global_frames, (double)window);
            for (int64_t i = 0; i < num_skipped; i++)
                stats[skipped[i]] = 0.0, stats_squares[skipped[i]] = stats[dim];
            if (normalize(enters, stats, dim, norm_vars, out)) return 1;
            if (seen) {
                for (int64_t d = 0; d < dim; d++) {
                    const double value = enters[d];
                    seen[d] += value;
                    seen[dim + 1 + d] += value * value;
                }
                seen[dim] += 1;
            }
        }
    }
    return 0;
}
