/* Products of matrices with the bits of OpenBLAS's sgemm; see kaldi_compat/exact/products.py. */
#include "simd.h"
#include "vector.h"

#define SMALL_DEPTH 32 /* OpenBLAS's kernel for small transposed matrices takes products at least as deep */
#define WIDTH 16       /* partial sums of a result there */

static vf load(const float *x)
{
    return *(const vf_unaligned *)x;
}

/* Terms of the next panel, if so many are left, and a panel has at most so many. */
static int64_t panel_of(int64_t left, int64_t most)
{
    if (left >= 2 * most)
        return most;
    return left > most ? (left / 2 + 15) / 16 * 16 : left;
}

/* LANES results of a row: their terms one after the other, panel by panel. */
static vf in_panels(const float *row, const float *columns, int64_t depth, int64_t stride, int64_t panel)
{
    vf total = splat(0.0f);
    for (int64_t k = 0; k < depth;) {
        vf sum = splat(0.0f);
        int64_t end = k + panel_of(depth - k, panel), first = k;
        for (; k < end; k++)
            sum = fused(splat(row[k]), load(columns + k * stride), sum);
        total = first ? total + sum : sum;
    }
    return total;
}

/* LANES results of a row: every 16th term in one of 16 sums. They are added as neighbours, which `folded` says for each lane is
   not so: there the halves are added first. */
static vf in_sixteen(const float *row, const float *columns, int64_t depth, int64_t stride, vi folded)
{
    vf s[WIDTH], f[WIDTH];
    for (int i = 0; i < WIDTH; i++)
        s[i] = splat(0.0f);
    for (int64_t k = 0; k < depth; k++)
        s[k % WIDTH] = fused(splat(row[k]), load(columns + k * stride), s[k % WIDTH]);
    memcpy(f, s, sizeof s);
    for (int half = WIDTH / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            f[i] = f[i] + f[i + half];
    for (int count = WIDTH / 2; count; count /= 2)
        for (int i = 0; i < count; i++)
            s[i] = s[2 * i] + s[2 * i + 1];
    return choose(folded, f[0], s[0]);
}

/* out (rows, width) = a (rows, depth) times columns (depth, stride), of which `stride` is a multiple of LANES and `width` the
   columns wanted. The rows are those of `count` matrices; matrix i has those from bounds[i] to bounds[i + 1]. The kernel for small
   transposed matrices computes up to `small_results` results; the other one adds up to `panel` terms before it adds their sum. */
EXPORT void SIMD_NAME(matrix_products)(const float *a, const float *columns, const int64_t *bounds, int64_t count, int64_t depth,
                                       int64_t width, int64_t stride, int64_t small_results, int64_t panel, float *out)
{
    for (int64_t matrix = 0; matrix < count; matrix++) {
        int64_t rows = bounds[matrix + 1] - bounds[matrix];
        int small = depth >= SMALL_DEPTH && rows * width <= small_results;
        for (int64_t r = 0; r < rows; r++) {
            const float *row = a + (bounds[matrix] + r) * depth;
            float *results = out + (bounds[matrix] + r) * width;
            int last_rows = r >= (rows & ~(int64_t)3);
            for (int64_t column = 0; column < width; column += LANES) {
                vf sums;
                if (small) {
                    vi folded;
                    for (int l = 0; l < LANES; l++)
                        folded[l] = last_rows && column + l >= (width & ~(int64_t)3) ? -1 : 0;
                    sums = in_sixteen(row, columns + column, depth, stride, folded);
                } else {
                    sums = in_panels(row, columns + column, depth, stride, panel);
                }
                int64_t lanes = width - column < LANES ? width - column : LANES;
                memcpy(results + column, &sums, (size_t)lanes * sizeof(float));
            }
        }
    }
}

/* out (count, rows, width) = a (count, rows, depth) times columns (count, depth, stride), in panels. `a_step` and `columns_step` are
   the numbers from one matrix to the next, 0 if one serves for all. */
EXPORT void SIMD_NAME(matrix_batch)(const float *a, const float *columns, int64_t count, int64_t rows, int64_t depth, int64_t width,
                                    int64_t stride, int64_t a_step, int64_t columns_step, int64_t panel, float *out)
{
    for (int64_t matrix = 0; matrix < count; matrix++, a += a_step, columns += columns_step)
        for (int64_t r = 0; r < rows; r++, out += width)
            for (int64_t column = 0; column < width; column += LANES) {
                vf sums = in_panels(a + r * depth, columns + column, depth, stride, panel);
                int64_t lanes = width - column < LANES ? width - column : LANES;
                memcpy(out + column, &sums, (size_t)lanes * sizeof(float));
            }
}
