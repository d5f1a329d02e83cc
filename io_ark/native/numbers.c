/* Convert decimal text to correctly rounded numbers, and numbers to the text of Kaldi's C++ streams ("%.7g").
 *
 * Most numbers take a few operations in float64 (W. D. Clinger, How to read floating point numbers accurately, PLDI
 * 1990). Numbers too close to the middle between two results are read by the caller, and printed by the C library. No result
 * depends on the locale.
 */
#include <float.h>
#include <stdio.h>
#include <stdlib.h>

#include "ark.h"

/* Powers of ten that a float64 represents exactly. */
static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
enum { EXACT_POWER = 22 };
/* Integers up to this one are exact in a float64. */
static const uint64_t EXACT_INTEGER = (uint64_t)1 << 53;
/* Number of digits that always fit into a uint64. */
enum { MAX_DIGITS = 19 };
/* The bits of a float64 significand that a float32 lacks. Half of their range is a tie between two float32. */
static const uint64_t BEYOND_FLOAT = 0x1FFFFFFF, TIE = 0x10000000;
/* Bound on the error of the operations below, in units in the last place of a float64. */
static const uint64_t MARGIN = 64;

/* The digits of a decimal number as an integer, times ten to the power of `exponent`. */
typedef struct {
    uint64_t digits;
    int exponent;
    int negative;
    int cut; /* 1 if further digits were dropped */
} decimal;

static int is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }

static int ends_number(const uint8_t *at, const uint8_t *end)
{
    return at == end || ark_is_space(*at) || *at == ']' || *at == ';';
}

/* Read digits from `at` on. `whole` is 1 for the digits before the dot, and 0 for the digits after it. */
static const uint8_t *read_digits(const uint8_t *at, const uint8_t *end, decimal *number, int *digit_count, int whole)
{
    for (; at < end && is_digit(*at); at++) {
        if (*digit_count < MAX_DIGITS) {
            number->digits = 10 * number->digits + (uint64_t)(*at - '0');
            *digit_count += number->digits != 0;
            number->exponent -= !whole;
        } else {
            number->cut |= *at != '0';
            number->exponent += whole;
        }
    }
    return at;
}

/* Read a decimal number without rounding. Returns 1 and moves *from after the number, or returns 0 as ark_read_float does. */
static int read_decimal(const uint8_t **from, const uint8_t *end, decimal *number)
{
    const uint8_t *at = *from;
    int digit_count = 0;
    memset(number, 0, sizeof *number);
    if (at < end && *at == '-') {
        number->negative = 1;
        at++;
    }
    /* The caller reads numbers of more than 300 characters, so that no exponent below overflows. */
    if (end - at > 300) end = at + 300;
    if (at == end || !is_digit(*at)) return 0;
    at = read_digits(at, end, number, &digit_count, 1);
    if (at < end && *at == '.') at = read_digits(at + 1, end, number, &digit_count, 0);
    if (at < end && (*at == 'e' || *at == 'E')) {
        const int down = ++at < end && *at == '-';
        int power = 0, length = 0;
        at += at < end && (*at == '-' || *at == '+');
        for (; at < end && is_digit(*at); at++, length++) {
            if (length > 3) return 0;
            power = 10 * power + (*at - '0');
        }
        if (length == 0) return 0;
        number->exponent += down ? -power : power;
    }
    if (at == *from + number->negative + 300 || !ends_number(at, end)) return 0;
    *from = at;
    return 1;
}

/* Multiply a number by a power of ten. The relative error is half a unit in the last place per 22 of the exponent. */
static double multiply_by_power(double number, int power)
{
    for (; power > EXACT_POWER; power -= EXACT_POWER)
        number *= POWERS[EXACT_POWER];
    for (; power < -EXACT_POWER; power += EXACT_POWER)
        number /= POWERS[EXACT_POWER];
    return power < 0 ? number / POWERS[-power] : number * POWERS[power];
}

int ark_read_double(const uint8_t **from, const uint8_t *end, double *value)
{
    const uint8_t *at = *from;
    decimal number;
    if (!read_decimal(&at, end, &number)) return 0;
    if (number.digits) {
        if (number.cut || number.digits > EXACT_INTEGER) return 0;
        if (number.exponent > EXACT_POWER || number.exponent < -EXACT_POWER) return 0;
    } else {
        number.exponent = 0;
    }
    const double size = multiply_by_power((double)number.digits, number.exponent);
    *value = number.negative ? -size : size;
    *from = at;
    return 1;
}

int ark_read_float(const uint8_t **from, const uint8_t *end, float *value)
{
    const uint8_t *at = *from;
    decimal number;
    double size = 0;
    if (!read_decimal(&at, end, &number)) return 0;
    if (number.digits) {
        uint64_t bits;
        if (number.exponent > 40 || number.exponent < -80) return 0; /* Beyond float32, whatever the 19 digits are. */
        size = multiply_by_power((double)number.digits, number.exponent);
        /* Subnormal float32 numbers have fewer bits, and float32 has a smaller greatest power of two. */
        if (size < 2 * (double)FLT_MIN || size > (double)FLT_MAX) return 0;
        memcpy(&bits, &size, sizeof bits);
        if ((bits & BEYOND_FLOAT) - TIE + MARGIN <= 2 * MARGIN) return 0;
    }
    *value = (float)(number.negative ? -size : size);
    *from = at;
    return 1;
}

int ark_read_int(const uint8_t **from, const uint8_t *end, int32_t *value)
{
    const uint8_t *at = *from;
    const int negative = at < end && *at == '-';
    const uint8_t *const first = at + negative;
    int32_t size = 0;
    for (at = first; at < end && is_digit(*at) && at - first < 9; at++)
        size = 10 * size + (*at - '0');
    if (at == first || !ends_number(at, end)) return 0;
    *value = negative ? -size : size;
    *from = at;
    return 1;
}

/* Read rows of numbers that end at a newline, at ';' or at the end of the text. Empty rows are ignored.
 *
 * `values` (float64 if `wide`, otherwise float32) has room for `max_count` numbers, `lengths` for `max_rows` rows.
 * Returns the number of numbers, and sets *rows to the number of rows; or returns -1 if the caller has to parse the text. */
EXPORT int64_t ark_read_rows(const uint8_t *text, int64_t size, int wide, void *values, int64_t max_count,
                             int64_t *lengths, int64_t max_rows, int64_t *rows)
{
    const uint8_t *at = text, *const end = text + size;
    int64_t count = 0, row_start = 0;
    *rows = 0;
    for (;;) {
        while (at < end && ark_is_blank(*at))
            at++;
        if (at == end || *at == '\n' || *at == ';') {
            if (count > row_start) {
                if (*rows == max_rows) return -1;
                lengths[(*rows)++] = count - row_start;
                row_start = count;
            }
            if (at == end) return count;
            at++;
            continue;
        }
        if (count == max_count) return -1;
        if (!(wide ? ark_read_double(&at, end, (double *)values + count)
                   : ark_read_float(&at, end, (float *)values + count)))
            return -1;
        if (at < end && *at == ']') return -1;
        count++;
    }
}

/* Write the text of an integer. Returns the position after it. */
static uint8_t *put_digits(uint8_t *to, uint32_t size)
{
    uint8_t digits[10];
    int length = 0;
    do
        digits[length++] = (uint8_t)('0' + size % 10);
    while (size /= 10);
    while (length)
        *to++ = digits[--length];
    return to;
}

/* Write an integer of at most 11 characters. Returns the position after it. */
static uint8_t *put_int(uint8_t *to, int32_t value)
{
    if (value < 0) *to++ = '-';
    return put_digits(to, value < 0 ? 0u - (uint32_t)value : (uint32_t)value);
}

/* Write a number of seven decimal digits, the first of which is not 0, and a decimal exponent. Trailing zeros are dropped,
 * and the text has an exponent in the cases in which "%g" writes one. */
static uint8_t *put_decimal(uint8_t *to, uint32_t whole, int exponent)
{
    uint8_t digits[7];
    int length = 7, scientific = exponent < -4 || exponent > 6;
    for (int i = 6; i >= 0; i--, whole /= 10)
        digits[i] = (uint8_t)('0' + whole % 10);
    while (length > 1 && digits[length - 1] == '0')
        length--;
    const int before_dot = scientific ? 1 : exponent + 1;
    if (before_dot <= 0) {
        to = ark_put_text(to, "0.");
        for (int i = before_dot; i < 0; i++)
            *to++ = '0';
    }
    for (int i = 0; i < length || i < before_dot; i++) {
        if (i == before_dot && i > 0) *to++ = '.';
        *to++ = i < length ? digits[i] : '0';
    }
    if (scientific) {
        const int size = exponent < 0 ? -exponent : exponent;
        *to++ = 'e';
        *to++ = exponent < 0 ? '-' : '+';
        if (size < 10) *to++ = '0';
        to = put_digits(to, (uint32_t)size);
    }
    return to;
}

/* Return the decimal exponent of a power of two, for any float64 (log10(2) is about 78913 / 2^18). */
static int floor_log10(int binary)
{
    return binary >= 0 ? binary * 78913 >> 18 : -((-binary * 78913 + (1 << 18) - 1) >> 18);
}

/* Return seven digits of a number and its decimal exponent from the C library, which examines all digits. */
static uint32_t format_exactly(double size, int *exponent)
{
    char text[32];
    const char *at = text;
    uint32_t whole = 0;
    snprintf(text, sizeof text, "%.6e", size);
    /* The decimal separator depends on the locale, so everything but digits is skipped. */
    for (; *at != 'e'; at++)
        if (is_digit((uint8_t)*at)) whole = 10 * whole + (uint32_t)(*at - '0');
    *exponent = atoi(at + 1);
    return whole;
}

/* Write the text of a number, at most 14 characters. */
static uint8_t *put_number(uint8_t *to, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    const int field = (int)(bits >> 52 & 0x7FF);
    if (bits >> 63) *to++ = '-';
    if (field == 0x7FF) return ark_put_text(to, bits << 12 ? "nan" : "inf");
    if (!(bits << 1)) return ark_put_text(to, "0");
    /* The decimal exponent of the power of two below the number is the exponent of the number, or one less. */
    const int binary = field - 1023;
    int exponent = floor_log10(binary);
    const double size = value < 0 ? -value : value;
    double digits = multiply_by_power(size, 6 - exponent);
    if (digits < 1e6) digits = multiply_by_power(size, 6 - --exponent);
    if (digits >= 1e7) digits = multiply_by_power(size, 6 - ++exponent);
    uint32_t whole = (uint32_t)digits;
    const double fraction = digits - whole;
    if (!field || (fraction > 0.5 - 1e-6 && fraction < 0.5 + 1e-6)) {
        whole = format_exactly(size, &exponent);
    } else if ((whole += fraction > 0.5) == 10000000) {
        whole = 1000000;
        exponent++;
    }
    return put_decimal(to, whole, exponent);
}

/* Return the size in bytes of a number of type 'i' (int32), 'f' (float32) or 'd' (float64). */
static int64_t count_bytes(int type) { return type == 'd' ? 8 : 4; }

/* Write a number in binary after its size byte. Copies of constant sizes need no function call. */
static inline uint8_t *put_sized(uint8_t *to, const uint8_t *number, int64_t size)
{
    *to = (uint8_t)size;
    if (size == 4)
        memcpy(to + 1, number, 4);
    else
        memcpy(to + 1, number, 8);
    return to + 1 + size;
}

uint8_t *ark_put_element(uint8_t *to, const uint8_t *number, int type, int text)
{
    double value;
    float single;
    if (!text) return put_sized(to, number, count_bytes(type));
    if (type == 'i') {
        to = put_int(to, ark_load_int32(number));
    } else if (type == 'f') {
        memcpy(&single, number, sizeof single);
        to = put_number(to, single);
    } else {
        memcpy(&value, number, sizeof value);
        to = put_number(to, value);
    }
    *to++ = ' ';
    return to;
}

/* Write lists of numbers or pairs: `begin`, the numbers and `end` in text, or the length and the numbers in binary if
 * `begin` is NULL.
 *
 * `first` and `second` hold the `count` numbers of all lists, with the types above. `second` is NULL for single numbers.
 * `lengths` holds the number of elements of each list. `bytes` has room for 15 characters per number in text, or for the
 * number and its size byte in binary, and 5 bytes per list. Output: the end of each list. Returns the number of bytes, or -1
 * if the lengths do not add up to `count`. */
EXPORT int64_t ark_encode_lists(const uint8_t *first, int first_type, const uint8_t *second, int second_type,
                                int64_t count, const int64_t *lengths, int64_t lists, const char *begin,
                                const char *end, uint8_t *bytes, int64_t *ends)
{
    const int64_t size = count_bytes(first_type), second_size = count_bytes(second_type);
    uint8_t *to = bytes;
    for (int64_t list = 0; list < lists; count -= lengths[list++])
        if (lengths[list] < 0 || lengths[list] > count) return -1;
    if (count) return -1;
    for (int64_t list = 0; list < lists; list++) {
        to = begin ? ark_put_text(to, begin) : ark_put_sized(to, (int32_t)lengths[list]);
        for (int64_t i = 0; i < lengths[list]; i++, first += size, second += second ? second_size : 0) {
            to = begin ? ark_put_element(to, first, first_type, 1) : put_sized(to, first, size);
            if (second) to = begin ? ark_put_element(to, second, second_type, 1) : put_sized(to, second, second_size);
        }
        if (begin) to = ark_put_text(to, end);
        ends[list] = to - bytes;
    }
    return to - bytes;
}
