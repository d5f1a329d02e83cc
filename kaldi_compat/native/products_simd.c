/* Sums of products of the columns of features, as compare-feats adds them up (OpenBLAS's `sdot`). */
#include "simd.h"
#include "sums.h"

#define PAIRS 3 /* of columns: of the first features with themselves, of the second ones, and of both */

INLINE vf load_columns(const float *row, int64_t width)
{
    vf x = {0};
    memcpy(&x, row, width < LANES ? width * sizeof(float) : sizeof x);
    return x;
}

/* The pairs of `width` columns, at most as many as there are lanes, of n rows. `out` has a row of `dim` for each pair. */
static void products_of_columns(const float *x, const float *y, int64_t n, int64_t dim, int64_t width, float *out)
{
    vf sums[PAIRS][64], quarters[PAIRS][4][8];
    vd2 rest[PAIRS];
    int64_t halves = n & ~31, whole = n & ~63;
    memset(sums, 0, sizeof sums);
    memset(rest, 0, sizeof rest);
    for (int64_t row = 0; row < whole; row++) {
        vf a = load_columns(x + row * dim, width), b = load_columns(y + row * dim, width);
        sums[0][row % 64] = fused(a, a, sums[0][row % 64]);
        sums[1][row % 64] = fused(b, b, sums[1][row % 64]);
        sums[2][row % 64] = fused(a, b, sums[2][row % 64]);
    }
    for (int p = 0; p < PAIRS; p++)
        for (int i = 0; i < 32; i++)
            quarters[p][i / 8][i % 8] = sums[p][16 * (i / 8) + i % 8] + sums[p][16 * (i / 8) + 8 + i % 8];
    for (int64_t row = whole; row < n; row++) {
        vf a = load_columns(x + row * dim, width), b = load_columns(y + row * dim, width);
        vf first[PAIRS] = {a, b, a}, second[PAIRS] = {a, b, b};
        for (int p = 0; p < PAIRS; p++) {
            vf *sum = &quarters[p][(row - whole) / 8 % 4][row % 8];
            vd2 product = widen(first[p] * second[p]);
            if (row < halves)
                *sum = fused(first[p], second[p], *sum);
            else
                rest[p].low += product.low, rest[p].high += product.high;
        }
    }
    for (int p = 0; p < PAIRS; p++) {
        vd2 total = widen(joined_sums(quarters[p]));
        vf product = narrow((vd2){rest[p].low + total.low, rest[p].high + total.high});
        memcpy(out + p * dim, &product, width < LANES ? width * sizeof(float) : sizeof product);
    }
}

/* The pairs of each utterance: rows[u] to rows[u + 1] of x and y (rows, dim) are those of utterance u. `out` is (count, 3, dim). */
EXPORT int SIMD_NAME(ragged_products)(const float *x, const int64_t *rows, int64_t count, int64_t dim, const float *y, float *out)
{
    for (int64_t u = 0; u < count; u++, out += PAIRS * dim)
        for (int64_t first = 0; first < dim; first += LANES) {
            int64_t start = rows[u] * dim + first;
            products_of_columns(x + start, y + start, rows[u + 1] - rows[u], dim, dim - first, out + first);
        }
    return 0;
}
