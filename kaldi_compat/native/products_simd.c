/* Sums of products of the columns of features, as OpenBLAS's `sdot` adds them up. */
#include "simd.h"
#include "sums.h"

#define PAIRS 3 /* products of a column: of x with itself, of y with itself, and of x with y */

INLINE vf load_columns(const float *row, int64_t width)
{
    vf x = {0};
    memcpy(&x, row, width < LANES ? width * sizeof(float) : sizeof x);
    return x;
}

/* Write the sums over n rows of the three products of the first `width` columns, but at most LANES, to out (3, dim). */
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

/* Sum of x[i] * y[i], i < n, in the order of OpenBLAS's `sdot` with SkylakeX kernels: 64 sums, then 32 of a last half of a block. */
static float dot(const float *x, const float *y, int64_t n)
{
    int64_t halves = n & ~(int64_t)31, whole = n & ~(int64_t)63;
    double rest = 0.0;
    for (int64_t i = halves; i < n; i++)
        rest += (double)(x[i] * y[i]);
    if (!halves) return (float)rest;
    vf sums[64 / LANES];
    memset(sums, 0, sizeof sums);
    for (int64_t i = 0; i < whole; i += 64)
        for (int k = 0; k < 64 / LANES; k++)
            sums[k] = fused(load_floats(x + i + k * LANES), load_floats(y + i + k * LANES), sums[k]);
    float quarters[4][16], joined[8], total;
    memcpy(quarters, sums, sizeof quarters);
    for (int k = 0; k < 4; k++)
        for (int j = 0; j < 8; j++)
            quarters[k][j] += quarters[k][j + 8];
    if (whole < halves) {
        float folded[32];
        for (int i = 0; i < 32; i++)
            folded[i] = quarters[i / 8][i % 8];
        for (int i = 0; i < 32; i += LANES) {
            vf sum = fused(load_floats(x + whole + i), load_floats(y + whole + i), load_floats(folded + i));
            memcpy(folded + i, &sum, sizeof sum);
        }
        for (int i = 0; i < 32; i++)
            quarters[i / 8][i % 8] = folded[i];
    }
    for (int j = 0; j < 8; j++)
        joined[j] = quarters[0][j] + quarters[1][j] + quarters[2][j] + quarters[3][j];
    for (int j = 0; j < 4; j++)
        joined[j] += joined[j + 4];
    total = (joined[0] + joined[1]) + (joined[2] + joined[3]);
    return (float)(rest + (double)total);
}

/* Sum of x[i], i < n, as Kaldi's Vector::Sum computes it: pairs in float, their sum in double. */
static float sum(const float *x, int64_t n)
{
    double total = 0.0;
    for (int64_t i = 0; i + 1 < n; i += 2)
        total += (double)(x[i] + x[i + 1]);
    if (n % 2) total += x[n - 1];
    return (float)total;
}

/* Sum the products of the columns of each utterance: of x with itself, of y with itself, and of x with y, to out (count, 3, dim).
   Utterance u has the rows from rows[u] to before rows[u + 1] of x and y (rows, dim). If y is NULL, x has one column, and y is 1 in every
   row, as in Kaldi's Vector::Sum. */
EXPORT int SIMD_NAME(ragged_products)(const float *x, const int64_t *rows, int64_t count, int64_t dim, const float *y,
                                      float *out)
{
    for (int64_t u = 0; u < count; u++, out += PAIRS * dim) {
        const int64_t start = rows[u] * dim, n = rows[u + 1] - rows[u];
        if (dim == 1) {
            out[0] = dot(x + start, x + start, n);
            out[1] = y ? dot(y + start, y + start, n) : (float)n;
            out[2] = y ? dot(x + start, y + start, n) : sum(x + start, n);
            continue;
        }
        for (int64_t first = 0; first < dim; first += LANES)
            products_of_columns(x + start + first, y + start + first, n, dim, dim - first, out + first);
    }
    return 0;
}
