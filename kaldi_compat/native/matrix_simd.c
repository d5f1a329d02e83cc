/* Products of matrices with the bits of OpenBLAS's sgemm and sgemv; see kaldi_compat/exact/products.py. */
#include <stdint.h>
#include <stdlib.h>

#include "simd.h"
#include "sums.h"

#define SMALL_DEPTH 32 /* terms from which OpenBLAS's kernels for small matrices have several sums for a result */
#define WIDTH 16       /* number of partial sums of a result in these kernels */

/* Number of terms of the next panel if `left` terms remain and a panel has at most `most` terms. */
static int64_t panel_of(int64_t left, int64_t most)
{
    if (left >= 2 * most) return most;
    return left > most ? (left / 2 + 15) / 16 * 16 : left;
}

/* The four functions below return LANES results of one row: of its products with LANES neighboring columns, in x (depth). */

/* Add the products in order to panels of up to `panel` products, and then add the panels. */
static vf in_panels(const float *row, const vf *x, int64_t depth, int64_t panel)
{
    vf total = splat(0.0f);
    for (int64_t k = 0; k < depth;) {
        vf sum = splat(0.0f);
        int64_t end = k + panel_of(depth - k, panel), first = k;
        for (; k < end; k++)
            sum = fused(splat(row[k]), x[k], sum);
        total = first ? total + sum : sum;
    }
    return total;
}

/* Add every 16th product to the same one of 16 sums. Then add neighboring sums, or, in the lanes that `folded` marks, the second half of
   the sums to the first half, until one is left. */
static vf in_sixteen(const float *row, const vf *x, int64_t depth, vi folded)
{
    vf s[WIDTH], f[WIDTH];
    for (int i = 0; i < WIDTH; i++)
        s[i] = splat(0.0f);
    for (int64_t k = 0; k < depth; k++)
        s[k % WIDTH] = fused(splat(row[k]), x[k], s[k % WIDTH]);
    memcpy(f, s, sizeof f);
    for (int half = WIDTH / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            f[i] = f[i] + f[i + half];
    for (int count = WIDTH / 2; count; count /= 2)
        for (int i = 0; i < count; i++)
            s[i] = s[2 * i] + s[2 * i + 1];
    return choose(folded, f[0], s[0]);
}

/* Add the products as sgemv does for a row of `group`, to `onto` if it is not NULL. With `has_kernel`, the row has four or eight terms,
   for which sgemv has special kernels. */
INLINE vf in_group(const float *row, const vf *x, int depth, const float *onto, int has_kernel, int group)
{
    if (has_kernel)
        return splat(0.0f) + few_columns(row, depth, x, group == IN_PAIR, group == SINGLE);
    return row_product_onto(onto ? load_floats(onto) : splat(0.0f), row, depth, x, group);
}

/* Compute the results from column `first` on of `width` columns as sgemv does, which takes the columns for rows of a matrix. */
static vf as_vector(const float *row, const vf *x, int depth, const float *onto, int64_t first, int64_t width)
{
    int has_kernel = !onto && (depth == 4 || depth == 8) && width <= SGEMV_MOST_ROWS;
    vf sums = in_group(row, x, depth, onto, has_kernel, IN_FOUR);
    if (first + LANES <= (width & ~(int64_t)3)) return sums;
    vi pairs, single;
    for (int l = 0; l < LANES; l++) {
        pairs[l] = first + l >= (width & ~(int64_t)3) ? -1 : 0;
        single[l] = first + l >= (width & ~(int64_t)1) ? -1 : 0;
    }
    sums = choose(pairs, in_group(row, x, depth, onto, has_kernel, IN_PAIR), sums);
    return choose(single, in_group(row, x, depth, onto, has_kernel, SINGLE), sums);
}

/* out (rows, width) = a (rows, depth) times the first `width` of columns (depth, stride), where `stride` is a multiple of LANES. Matrix i
   of the `count` matrices has the rows from bounds[i] to before bounds[i + 1], and its columns start at columns[i * step].
   In matrices with up to `small_results` results, results from column `small_from` (a multiple of 16) on are added in 16 sums, as in
   OpenBLAS's kernels for small matrices. All other results are sums of panels of up to `panel` products. If `panel` is 0, each row is a
   vector for sgemv, whose result is added to `onto` (stride), if that is not NULL. Returns 0, or 1 if there is no memory. */
EXPORT int SIMD_NAME(matrix_products)(const float *a, const float *columns, const int64_t *bounds, int64_t count,
                                      int64_t depth, int64_t width, int64_t stride, int64_t step, int64_t small_results,
                                      int64_t small_from, int64_t panel, const float *onto, float *out)
{
    void *allocated = malloc((depth + 1) * sizeof(vf));
    if (!allocated) return 1;
    vf *x = (vf *)((char *)allocated + (sizeof(vf) - (uintptr_t)allocated % sizeof(vf)));
    for (int64_t first = 0; first < width; first += LANES)
        for (int64_t matrix = 0; matrix < count; matrix++) {
            int64_t rows = bounds[matrix + 1] - bounds[matrix], lanes = width - first < LANES ? width - first : LANES;
            int small = depth >= SMALL_DEPTH && rows * width <= small_results && first >= small_from;
            for (int64_t k = 0; k < depth && (step || matrix == 0); k++)
                x[k] = load_floats(columns + matrix * step + k * stride + first);
            for (int64_t r = 0; r < rows; r++) {
                const float *row = a + (bounds[matrix] + r) * depth;
                vf sums;
                if (panel == 0) {
                    sums = as_vector(row, x, (int)depth, onto ? onto + first : NULL, first, width);
                } else if (small) {
                    vi folded;
                    for (int l = 0; l < LANES; l++)
                        folded[l] = r >= (rows & ~(int64_t)3) && first + l >= (width & ~(int64_t)3) ? -1 : 0;
                    sums = in_sixteen(row, x, depth, folded);
                } else {
                    sums = in_panels(row, x, depth, panel);
                }
                memcpy(out + (bounds[matrix] + r) * width + first, &sums, (size_t)lanes * sizeof(float));
            }
        }
    free(allocated);
    return 0;
}
