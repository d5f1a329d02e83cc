/* Declarations shared by the C files of io_ark.
 *
 * Every function gets buffers and their sizes, keeps no state, allocates no memory that outlives the call, and never reads or
 * writes outside of the buffers. At unusual input, a function stops and returns its progress. The Python code
 * can do the same work: it continues where the C function stopped, and raises the errors.
 *
 * Files and all supported machines are little-endian.
 */
#ifndef IO_ARK_NATIVE_H
#define IO_ARK_NATIVE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "simd.h"

/* Read a number such as -12.5e3 at *at. White space, ';', ']' or `end` must follow. Returns 1 and moves *at after the
 * number, or returns 0 for any other text and for numbers that are hard to round. The float is rounded once, from the text. */
int ark_read_float(const uint8_t **at, const uint8_t *end, float *value);
int ark_read_double(const uint8_t **at, const uint8_t *end, double *value);

/* Read an integer of at most 9 digits after an optional minus sign. Returns 1 or 0 like ark_read_float. */
int ark_read_int(const uint8_t **at, const uint8_t *end, int32_t *value);

/* Write a number of type 'i' (int32), 'f' (float32) or 'd' (float64) with a space after it, at most 15 characters; or in
 * binary after a size byte. Returns the position after it. */
uint8_t *ark_put_element(uint8_t *to, const uint8_t *number, int type, int text);

/* C's isspace in the "C" locale. */
static inline int ark_is_space(uint8_t byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

/* ark_is_space without the newline. */
static inline int ark_is_blank(uint8_t byte) { return ark_is_space(byte) && byte != '\n'; }

/* Copy the key at `at` and a newline to *keys, and move *keys after them. Returns the position after the blank that follows
 * the key, or NULL. */
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

/* Write a number of 32 bits after its size byte. */
static inline uint8_t *ark_put_sized(uint8_t *to, int32_t number)
{
    *to = 4;
    memcpy(to + 1, &number, sizeof number);
    return to + 5;
}

/* Load an integer at any address. */
static inline int32_t ark_load_int32(const uint8_t *from)
{
    int32_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

#endif
