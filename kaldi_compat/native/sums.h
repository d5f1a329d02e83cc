/* Sums of products in the order of OpenBLAS's SkylakeX kernels, which decides their last bits.

   Sources of the order: OpenBLAS 0.3.21, kernel/x86_64: sdot.c, sdot_microk_skylakex-2.c, sgemv_t_4.c,
   sgemv_t_microk_haswell-4.c, sgemv_t_microk_skylakex.c. */
#ifndef SUMS_H
#define SUMS_H

#include "vector.h"

/* The sum of the 32 sums of `sdot`, in its order. */
INLINE vf joined_sums(vf quarters[4][8])
{
    vf joined[8];
    for (int j = 0; j < 8; j++)
        joined[j] = quarters[0][j] + quarters[1][j] + quarters[2][j] + quarters[3][j];
    for (int j = 0; j < 4; j++)
        joined[j] += joined[j + 4];
    return (joined[0] + joined[1]) + (joined[2] + joined[3]);
}

/* Sum of x[i] * y[i], i < n: `sdot` of two vectors with unit stride. `y` holds a number for all lanes if `uniform`. */
INLINE vf dot_product(const vf *x, const float *y, int uniform, int n)
{
#define FACTOR(i) (uniform ? splat(y[i]) : ((const vf *)y)[i])
    vd2 rest = {{0}, {0}};
    int halves = n & ~31, whole = n & ~63;
    for (int i = halves; i < n; i++) {
        vd2 product = widen(x[i] * FACTOR(i));
        rest.low += product.low, rest.high += product.high;
    }
    vf total = {0};
    if (halves) {
        /* 64 sums, then, for a last half of a block, 32, each of them of products added by fused operations */
        vf quarters[4][8];
        for (int k = 0; k < 4; k++)
            for (int j = 0; j < 8; j++) {
                vf first = {0}, second = {0};
                for (int i = 16 * k + j; i < whole; i += 64) {
                    first = fused(x[i], FACTOR(i), first);
                    second = fused(x[i + 8], FACTOR(i + 8), second);
                }
                vf sum = first + second;
                int i = whole + 8 * k + j;
                quarters[k][j] = whole < halves ? fused(x[i], FACTOR(i), sum) : sum;
            }
        total = joined_sums(quarters);
    }
    vd2 sum = widen(total);
    return narrow((vd2){rest.low + sum.low, rest.high + sum.high});
#undef FACTOR
}

/* Sum of x[i], i < n: `sdot` with a single 1 that is not advanced over, as Kaldi's Vector::Sum calls it. */
INLINE vf plain_sum(const vf *x, int n)
{
    vd2 sum = {{0}, {0}};
    for (int i = 0; i + 1 < n; i += 2) {
        vd2 pair = widen(x[i] + x[i + 1]);
        sum.low += pair.low, sum.high += pair.high;
    }
    if (n % 2) {
        vd2 last = widen(x[n - 1]);
        sum.low += last.low, sum.high += last.high;
    }
    return narrow(sum);
}

/* Return y plus the products of the last none to three of a row's n columns, from column `first` on. */
INLINE vf add_last_columns(const float *row, const vf *x, int first, int n, vf y)
{
    int left = n - first;
    if (left == 0) return y;
    if (left == 1) return fused(splat(row[first]), x[first], y);
    vf sum = fused(splat(row[first]), x[first], row[first + 1] * x[first + 1]);
    return y + (left == 3 ? fused(splat(row[first + 2]), x[first + 2], sum) : sum);
}

/* Sum of four or eight products of a row: OpenBLAS has special kernels for so few columns. Rows in groups of four add neighboring
   products first. The order differs for the last pair of rows, and for a single last row. */
INLINE vf few_columns(const float *row, int columns, const vf *x, int is_pair, int is_single)
{
    vf p[8] = {{0}};
    for (int i = 0; i < columns; i++)
        p[i] = row[i] * x[i];
    if (is_single) {
        for (int i = 4; i < columns; i++)
            p[i - 4] += p[i];
        return p[0] + p[1] + p[2] + p[3];
    }
    if (columns == 4) return (p[0] + p[1]) + (p[2] + p[3]);
    if (is_pair) return ((p[0] + p[1]) + (p[4] + p[5])) + ((p[2] + p[3]) + (p[6] + p[7]));
    return ((p[0] + p[1]) + (p[2] + p[3])) + ((p[4] + p[5]) + (p[6] + p[7]));
}

#define SGEMV_BLOCK 4096     /* number of columns after which `sgemv` adds their sum to the result */
#define SGEMV_MOST_ROWS 16384 /* largest number of rows for which `sgemv` has special kernels of four or eight columns */

/* `sgemv` works on groups of four rows, then on a pair of rows if two or three are left, and then on a single row. The group of a row
   decides the order in which its products are added. */
enum { IN_FOUR, IN_PAIR, SINGLE };

/* onto + the sum of row[i] * x[i], i < columns, as `sgemv` computes a row of a group. Rows in groups of four are added in 8 accumulators
   with fused operations, a pair in 4 and a single row in 8 without them. */
INLINE vf row_product_onto(vf onto, const float *row, int columns, const vf *x, int group)
{
#define ADD(i, j) sums[j] = group == IN_FOUR ? fused(splat(row[i]), x[i], sums[j]) : sums[j] + row[i] * x[i]
    int whole = columns & ~3, accumulators = group == IN_PAIR ? 4 : 8;
    for (int begin = 0; begin < whole; begin += SGEMV_BLOCK) {
        int end = whole - begin > SGEMV_BLOCK ? begin + SGEMV_BLOCK : whole, first = begin + (end - begin) % accumulators;
        vf sums[8];
        memset(sums, 0, sizeof sums);
        for (int j = 0; begin + j < first; j++) /* the columns that do not fill all accumulators come first */
            ADD(begin + j, j);
        for (int i = first; i < end; i += accumulators)
            for (int j = 0; j < accumulators; j++)
                ADD(i + j, j);
        for (int j = 0; j < 4; j++)
            sums[j] += sums[j + 4];
        onto = onto + ((sums[0] + sums[1]) + (sums[2] + sums[3]));
    }
#undef ADD
    return add_last_columns(row, x, whole, columns, onto);
}

INLINE vf row_product(const float *row, int columns, const vf *x, int group)
{
    return row_product_onto(splat(0.0f), row, columns, x, group);
}

INLINE int group_of_row(int r, int rows) { return r < (rows & ~3) ? IN_FOUR : r < (rows & ~1) ? IN_PAIR : SINGLE; }

/* y[r] = sum of matrix[r][i] * x[i]: `sgemv` of a row-major matrix (rows, columns), alpha 1, beta 0, as Kaldi's AddMatVec calls
   it. */
INLINE void matrix_vector(const float *matrix, int rows, int columns, const vf *x, vf *y)
{
    for (int r = 0; r < rows; r++, matrix += columns) {
        int group = group_of_row(r, rows);
        if (columns == 4 || columns == 8)
            y[r] = splat(0.0f) + few_columns(matrix, columns, x, group == IN_PAIR, group == SINGLE);
        else
            y[r] = row_product(matrix, columns, x, group);
    }
}

#endif
