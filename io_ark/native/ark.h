/* Declarations shared by the C files of io_ark.
 *
 * Every function gets its buffers with their sizes, keeps no state, allocates nothing that outlives the call and never
 * reads or writes outside of the buffers. A function that meets anything unusual stops there and says how far it came:
 * the Python code can do everything that these functions do, continues from there and knows what to say about errors.
 *
 * Numbers in files are little endian, and so is every machine that this is built for.
 */
#ifndef IO_ARK_NATIVE_H
#define IO_ARK_NATIVE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "simd.h"

/* Read a number such as -12.5e3 at *at, which white space, ';', ']' or `end` has to follow. Returns 1 and moves *at
 * behind the number; or 0 if something else is there, or if it takes more than a few operations to round it correctly.
 * The float is rounded once, from the text. */
int ark_read_float(const uint8_t **at, const uint8_t *end, float *value);
int ark_read_double(const uint8_t **at, const uint8_t *end, double *value);

/* Read an integer of at most 9 digits, maybe after a minus sign; returns as above. */
int ark_read_int(const uint8_t **at, const uint8_t *end, int32_t *value);

/* Write a number of type 'i' (int32), 'f' (float32) or 'd' (float64) with a space after it, at most 15 characters; or in
 * binary, after a byte with its size. Returns the place after it. */
uint8_t *ark_put_element(uint8_t *to, const uint8_t *number, int type, int text);

/* C's isspace in the "C" locale. */
static inline int ark_is_space(uint8_t byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

/* The same without the end of a line. */
static inline int ark_is_blank(uint8_t byte) { return ark_is_space(byte) && byte != '\n'; }

/* Copy the key of an entry with a newline after it to *keys, which moves behind it; returns behind the one blank that
 * follows the key at `at`, or NULL. */
static inline const uint8_t *ark_take_key(const uint8_t *at, const uint8_t *end, uint8_t **keys)
{
    const uint8_t *const key = at;
    while (at < end && !ark_is_space(*at))
        at++;
    if (at == key || at == end || (*at != ' ' && *at != '\t')) return NULL;
    memcpy(*keys, key, (size_t)(at - key));
    *keys += at - key;
    *(*keys)++ = '\n';
    return at + 1;
}

static inline uint8_t *ark_put_text(uint8_t *to, const char *text)
{
    while (*text)
        *to++ = (uint8_t)*text++;
    return to;
}

/* A number of 32 bits after a byte with its size. */
static inline uint8_t *ark_put_sized(uint8_t *to, int32_t number)
{
    *to = 4;
    memcpy(to + 1, &number, sizeof number);
    return to + 5;
}

/* An integer at any address. */
static inline int32_t ark_load_int32(const uint8_t *from)
{
    int32_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

#endif
