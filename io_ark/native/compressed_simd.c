/* Decompress and compress matrices.
 *
 * The arithmetic follows Kaldi's src/matrix/compressed-matrix.cc step by step in float32, with the same conversions to
 * float64. Formats: "CM" has one byte per element, column by column, between four percentiles of each column. "CM2" has two
 * bytes and "CM3" one byte per element, row by row, on one linear scale.
 */
#include <stdlib.h>
#include <string.h>
#if defined(__AVX2__) && !defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "simd.h"

/* Number of columns that are transposed together. One row of them is a cache line of floats. */
enum { TILE = 16 };
/* Number of rows from which on a table of 256 values per column takes less time than computing every element. */
enum { ROWS_FOR_TABLE = 100 };
/* Percentiles of up to this number of rows are selected by sorting, and of more rows by counting. */
enum { ROWS_TO_COUNT = 32 };
/* Kaldi's constant for 1/65535. */
static const float PER_STEP = 1.52590218966964e-05f;
/* Added before truncation, in float64. Less than 0.5, so that float32 cannot round up to the next integer. */
static const double ROUNDING = 0.499;

/* Convert integers of one byte to values. */
static void decode_bytes(const uint8_t *codes, int64_t count, float step, float minimum, float *restrict values)
{
    int64_t i = 0;
#if defined(__AVX2__) && !defined(__AVX512F__)
    /* One instruction converts bytes to integers, which takes three quarters of the time of the two that GCC emits. */
    const __m256 steps = _mm256_set1_ps(step), minima = _mm256_set1_ps(minimum);
    for (; i + 8 <= count; i += 8) {
        const __m256i integers = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(codes + i)));
        _mm256_storeu_ps(values + i, _mm256_add_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(integers), steps), minima));
    }
#endif
    for (; i < count; i++)
        values[i] = (float)codes[i] * step + minimum;
}

/* Convert integers of two bytes, which may have any address, to values. */
static void decode_words(const uint8_t *codes, int64_t count, float step, float minimum, float *restrict values)
{
    for (int64_t i = 0; i < count; i++) {
        uint16_t code;
        memcpy(&code, codes + 2 * i, sizeof code);
        values[i] = (float)code * step + minimum;
    }
}

/* Convert the percentiles of a column to values. */
static void scale_percentiles(const uint8_t *percentiles, float minimum, float span, float limits[4])
{
    for (int i = 0; i < 4; i++) {
        uint16_t steps = (uint16_t)(percentiles[2 * i] | percentiles[2 * i + 1] << 8);
        limits[i] = (float)steps * (span * PER_STEP) + minimum;
    }
}

/* Compute the values of the 256 integers of a column: 64, 128 and 63 steps between its percentiles. */
static void fill_table(const float limits[4], float table[256])
{
    const float first = limits[1] - limits[0], second = limits[2] - limits[1], third = limits[3] - limits[2];
    for (int code = 0; code < 65; code++)
        table[code] = (float)(limits[0] + first * (float)code * (1 / 64.0));
    for (int code = 65; code < 193; code++)
        table[code] = (float)(limits[1] + second * (float)(code - 64) * (1 / 128.0));
    for (int code = 193; code < 256; code++)
        table[code] = (float)(limits[2] + third * (float)(code - 192) * (1 / 63.0));
}

/* Compute the value of one integer of a column. */
static float decode_element(const float limits[4], uint8_t code)
{
    if (code <= 64) return (float)(limits[0] + (limits[1] - limits[0]) * (float)code * (1 / 64.0));
    if (code <= 192) return (float)(limits[1] + (limits[2] - limits[1]) * (float)(code - 64) * (1 / 128.0));
    return (float)(limits[2] + (limits[3] - limits[2]) * (float)(code - 192) * (1 / 63.0));
}

/* Decompress a matrix in the format "CM". */
static void decode_percentiles(const uint8_t *percentiles, const uint8_t *codes, int64_t rows, int64_t columns,
                             float minimum, float span, float *values)
{
    float tables[TILE][256];
    for (int64_t first = 0; first < columns; first += TILE) {
        const int64_t width = columns - first < TILE ? columns - first : TILE;
        const uint8_t *const block = codes + first * rows;
        float *const corner = values + first;
        float limits[TILE][4];
        for (int64_t c = 0; c < width; c++)
            scale_percentiles(percentiles + 8 * (first + c), minimum, span, limits[c]);
        if (rows < ROWS_FOR_TABLE) {
            for (int64_t c = 0; c < width; c++)
                for (int64_t r = 0; r < rows; r++)
                    corner[r * columns + c] = decode_element(limits[c], block[c * rows + r]);
            continue;
        }
        for (int64_t c = 0; c < width; c++)
            fill_table(limits[c], tables[c]);
        if (width == TILE) { /* The compiler unrolls the inner loop for a constant width. */
            for (int64_t r = 0; r < rows; r++)
                for (int64_t c = 0; c < TILE; c++)
                    corner[r * columns + c] = tables[c][block[c * rows + r]];
        } else {
            for (int64_t r = 0; r < rows; r++)
                for (int64_t c = 0; c < width; c++)
                    corner[r * columns + c] = tables[c][block[c * rows + r]];
        }
    }
}

/* Decompress an object. `header` starts with its name, range and shape. Its integers start at `begin` of `data`. "CM" has 4
 * percentiles of 2 bytes for each column, and then the columns. `values` has rows * columns elements, row by row. */
EXPORT void SIMD_NAME(ark_decompress)(const uint8_t *header, const uint8_t *data, int64_t begin, float *values)
{
    float range[2];
    int32_t shape[2];
    header += header[2] == ' ' ? 3 : 4;
    memcpy(range, header, sizeof range);
    memcpy(shape, header + sizeof range, sizeof shape);
    const int64_t rows = shape[0], columns = shape[1];
    data += begin;
    if (header[-2] == 'M')
        decode_percentiles(data, data + 8 * columns, rows, columns, range[0], range[1], values);
    else if (header[-2] == '2')
        decode_words(data, rows * columns, (float)((double)range[1] * (1.0 / 65535)), range[0], values);
    else
        decode_bytes(data, rows * columns, (float)((double)range[1] * (1.0 / 255)), range[0], values);
}

/* Return a value as a fraction of the range, limited to 0 to 1. NaN, which the caller refuses, would become 0. */
static inline float compute_fraction(float value, float minimum, float span)
{
    float part = (value - minimum) / span;
    part = part > 0 ? part : 0; /* The compiler vectorizes two selections, but not nested selections. */
    return part < 1 ? part : 1;
}

static void encode_bytes(const float *values, int64_t count, float minimum, float span, uint8_t *codes)
{
    for (int64_t i = 0; i < count; i++)
        codes[i] = (uint8_t)(int32_t)(compute_fraction(values[i], minimum, span) * 255.0f + ROUNDING);
}

/* Convert values to integers of two bytes. `codes` may have any address. */
static void encode_words(const float *values, int64_t count, float minimum, float span, void *codes)
{
    for (int64_t i = 0; i < count; i++) {
        const uint16_t code = (uint16_t)(int32_t)(compute_fraction(values[i], minimum, span) * 65535.0f + ROUNDING);
        memcpy((uint8_t *)codes + 2 * i, &code, sizeof code);
    }
}

/* Count the elements up to `limits[0]`, and up to `limits[1]`. Counters of 16 bits need half as many vectors. */
static void count_up_to(const uint16_t *steps, int64_t count, const uint16_t limits[2], int64_t counts[2])
{
    const uint16_t low = limits[0], high = limits[1];
    counts[0] = counts[1] = 0;
    for (int64_t begin = 0; begin < count; begin += 1 << 15) {
        const int64_t size = count - begin < 1 << 15 ? count - begin : 1 << 15;
        uint16_t up_to_low = 0, up_to_high = 0;
        for (int64_t i = 0; i < size; i++) {
            up_to_low = (uint16_t)(up_to_low + (steps[begin + i] <= low));
            up_to_high = (uint16_t)(up_to_high + (steps[begin + i] <= high));
        }
        counts[0] += up_to_low;
        counts[1] += up_to_high;
    }
}

/* Find the elements at indices `low` and `high` of the sorted elements, by bisection between the smallest and the greatest
 * element, which counts elements at most 16 times. */
static void select_by_counting(const uint16_t *steps, int64_t count, int64_t low, int64_t high, int32_t least,
                         int32_t greatest, int32_t selected[2])
{
    const int64_t places[2] = {low, high};
    int32_t from[2] = {least, least}, to[2] = {greatest, greatest};
    while (from[0] < to[0] || from[1] < to[1]) {
        const uint16_t middles[2] = {(uint16_t)((from[0] + to[0]) / 2), (uint16_t)((from[1] + to[1]) / 2)};
        int64_t counts[2];
        count_up_to(steps, count, middles, counts);
        for (int k = 0; k < 2; k++) {
            if (from[k] == to[k]) continue;
            if (counts[k] > places[k])
                to[k] = middles[k];
            else
                from[k] = middles[k] + 1;
        }
    }
    selected[0] = from[0];
    selected[1] = from[1];
}

/* Find the same elements as select_by_counting by sorting, which is faster for few elements. */
static void select_by_sorting(uint16_t *steps, int64_t count, int64_t low, int64_t high, int32_t selected[2])
{
    for (int64_t i = 1; i < count; i++) {
        const uint16_t step = steps[i];
        int64_t at = i;
        for (; at > 0 && steps[at - 1] > step; at--)
            steps[at] = steps[at - 1];
        steps[at] = step;
    }
    selected[0] = steps[low];
    selected[1] = steps[high];
}

/* Compute distinct percentiles 0, 25, 75 and 100 of a column in steps of the range. Rounding to steps keeps the order, so
 * steps are compared instead of values. `steps` holds the steps of the elements, and is reordered. */
static void choose_percentiles(uint16_t *steps, int64_t rows, uint16_t percentiles[4])
{
    int32_t chosen[4] = {0, 0, 0, 0};
    if (rows >= 5) {
        uint16_t least = UINT16_MAX, greatest = 0;
        for (int64_t r = 0; r < rows; r++) {
            least = steps[r] < least ? steps[r] : least;
            greatest = steps[r] > greatest ? steps[r] : greatest;
        }
        chosen[0] = least;
        chosen[3] = greatest;
        if (rows < ROWS_TO_COUNT)
            select_by_sorting(steps, rows, rows / 4, 3 * (rows / 4), chosen + 1);
        else
            select_by_counting(steps, rows, rows / 4, 3 * (rows / 4), least, greatest, chosen + 1);
    } else {
        for (int64_t r = 0; r < rows; r++) { /* Insertion sort of up to four elements. */
            int64_t at = r;
            for (; at > 0 && chosen[at - 1] > steps[r]; at--)
                chosen[at] = chosen[at - 1];
            chosen[at] = steps[r];
        }
    }
    int32_t previous = -1;
    for (int i = 0; i < 4; i++) {
        const int32_t max_step = 65532 + i; /* Leaves greater steps for the percentiles that follow. */
        int32_t step = chosen[i] > previous ? chosen[i] : previous + 1;
        percentiles[i] = (uint16_t)(previous = step < max_step ? step : max_step);
    }
}

/* Compute the codes of a column (Kaldi's FloatToChar). If two percentiles are equal in float32, a value at or above them
 * gets the code of the lower percentile. */
static void encode_column(const float *values, int64_t rows, const float limits[4], uint8_t *codes)
{
    const float p25 = limits[1], p75 = limits[2];
    const float p0 = limits[0], first = p25 - p0, second = p75 - p25, third = limits[3] - p75;
    for (int64_t r = 0; r < rows; r++) {
        const float value = values[r];
        const int below = value < p25, within = value < p75;
        const float low = below ? p0 : within ? p25 : p75;
        const float span = below ? first : within ? second : third;
        const float steps = below ? 64.0f : within ? 128.0f : 63.0f;
        const int32_t before = below ? 0 : within ? 64 : 192;
        float part = (value - low) / (span > 0 ? span : 1.0f);
        part = span > 0 && part > 0 ? (part < 2 ? part : 2) : 0;
        const int32_t above = (int32_t)((double)(part * steps) + 0.5);
        codes[r] = (uint8_t)(before + (above < (int32_t)steps ? above : (int32_t)steps));
    }
}

/* Compress a matrix to the format "CM". Returns 0, or -1 if there is no memory for temporary columns. */
static int encode_percentiles(const float *values, int64_t rows, int64_t columns, float minimum, float span,
                          uint8_t *percentiles, uint8_t *codes)
{
    const int64_t max_width = columns < TILE ? columns : TILE;
    float *const block = malloc((size_t)(rows * max_width) * sizeof *block);
    uint16_t *const steps = malloc((size_t)rows * sizeof *steps);
    if (!block || !steps) {
        free(block);
        free(steps);
        return -1;
    }
    for (int64_t first = 0; first < columns; first += TILE) {
        const int64_t width = columns - first < TILE ? columns - first : TILE;
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < width; c++)
                block[c * rows + r] = values[r * columns + first + c];
        for (int64_t c = 0; c < width; c++) {
            uint16_t chosen[4];
            float limits[4];
            encode_words(block + c * rows, rows, minimum, span, steps);
            choose_percentiles(steps, rows, chosen);
            uint8_t *const header = percentiles + 8 * (first + c);
            for (int i = 0; i < 4; i++) {
                header[2 * i] = (uint8_t)(chosen[i] & 255);
                header[2 * i + 1] = (uint8_t)(chosen[i] >> 8);
            }
            scale_percentiles(header, minimum, span, limits);
            encode_column(block + c * rows, rows, limits, codes);
            codes += rows;
        }
    }
    free(block);
    free(steps);
    return 0;
}

/* Compute the range of a matrix for the methods without a fixed range. Returns 0 for a matrix with NaN or infinity. */
static int find_range(const float *values, int64_t count, float *minimum, float *span)
{
    float least = values[0], greatest = values[0];
    int unordered = 0;
    for (int64_t i = 0; i < count; i++) {
        least = values[i] < least ? values[i] : least;
        greatest = values[i] > greatest ? values[i] : greatest;
        unordered |= values[i] != values[i];
    }
    if (unordered) return 0;
    if (least == 0) { /* If the matrix has zeros of both signs, Kaldi's minimum is the first zero. */
        int64_t i = 0;
        while (values[i] != 0)
            i++;
        least = values[i];
    }
    if (least == greatest) greatest = (float)((double)least + (1.0 + (least < 0 ? -(double)least : (double)least)));
    *minimum = least;
    *span = greatest - least;
    return *span - *span == 0;
}

/* Compress matrices of a block and write them as entries of an archive.
 *
 * `keys` has a newline after each key. `shapes` has the rows and columns of `count` matrices, and `values` their numbers.
 * `method` is Kaldi's number of the method, 1 to 7. `bytes` has room for the keys, 24 bytes for each entry, 8 for each
 * column and 2 for each number. Outputs: the start of each object in `bytes`, and the end of each entry. Returns the number
 * of bytes, or -1 if a matrix is empty, has NaN or no finite range, or if there is no memory. */
EXPORT int64_t SIMD_NAME(ark_compress_arrays)(const uint8_t *keys, const int64_t *shapes, const float *values,
                                              int64_t count, int method, uint8_t *bytes, int64_t *objects,
                                              int64_t *ends)
{
    uint8_t *to = bytes;
    for (int64_t i = 0; i < count; i++) {
        const int64_t rows = shapes[2 * i], columns = shapes[2 * i + 1], numbers = rows * columns;
        const int entry_method = method > 1 ? method : rows > 8 ? 2 : 3;
        const char *const name = entry_method == 2 ? "CM " : entry_method == 3 || entry_method == 4 ? "CM2 " : "CM3 ";
        float range[2];
        if (numbers == 0 || !find_range(values, numbers, range, range + 1)) return -1;
        if (entry_method == 4) range[0] = -32768.0f, range[1] = 65535.0f;
        if (entry_method == 6) range[0] = 0.0f, range[1] = 255.0f;
        if (entry_method == 7) range[0] = 0.0f, range[1] = 1.0f;
        while (*keys != '\n')
            *to++ = *keys++;
        keys++;
        *to++ = ' ';
        objects[i] = to - bytes;
        *to++ = 0;
        *to++ = 'B';
        memcpy(to, name, strlen(name));
        to += strlen(name);
        memcpy(to, range, sizeof range);
        const int32_t shape[2] = {(int32_t)rows, (int32_t)columns};
        memcpy(to + sizeof range, shape, sizeof shape);
        to += sizeof range + sizeof shape;
        if (entry_method == 2) {
            if (encode_percentiles(values, rows, columns, range[0], range[1], to, to + 8 * columns)) return -1;
            to += 8 * columns + numbers;
        } else if (entry_method <= 4) {
            encode_words(values, numbers, range[0], range[1], to);
            to += 2 * numbers;
        } else {
            encode_bytes(values, numbers, range[0], range[1], to);
            to += numbers;
        }
        values += numbers;
        ends[i] = to - bytes;
    }
    return to - bytes;
}
