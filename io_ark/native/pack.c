/* Objects to bytes: numbers that each follow a byte with their size. */
#include "ark.h"

static uint8_t *put_sized(uint8_t *to, const uint8_t *number)
{
    *to = 4;
    memcpy(to + 1, number, 4);
    return to + 5;
}

/* Pack lists of numbers, or of pairs of numbers: for each list its length, then its numbers of 32 bits.
 *
 * `first` and `second` have the numbers of all lists; `second` is NULL if there are no pairs. `bytes` has room for 5
 * bytes a number and 5 a list. Returns how many bytes. */
EXPORT int64_t ark_pack_lists(const uint8_t *first, const uint8_t *second, const int64_t *lengths, int64_t lists,
                              uint8_t *bytes)
{
    uint8_t *to = bytes;
    for (int64_t list = 0; list < lists; list++) {
        const int32_t length = (int32_t)lengths[list];
        to = put_sized(to, (const uint8_t *)&length);
        for (const uint8_t *const behind = first + 4 * (int64_t)length; first < behind; first += 4) {
            to = put_sized(to, first);
            if (second) {
                to = put_sized(to, second);
                second += 4;
            }
        }
    }
    return to - bytes;
}

/* Pack entries of a table: each key, a space, "\0B", the size of its number and the number. `keys` are `count` keys with
 * a newline after each. `bytes` has room for the keys and 3 + `size` bytes a number. Returns how many bytes. */
EXPORT int64_t ark_pack_entries(const uint8_t *keys, const uint8_t *numbers, int64_t size, int64_t count, uint8_t *bytes)
{
    uint8_t *to = bytes;
    for (int64_t i = 0; i < count; i++, numbers += size) {
        while (*keys != '\n') *to++ = *keys++;
        keys++;
        *to++ = ' ';
        *to++ = 0;
        *to++ = 'B';
        *to++ = (uint8_t)size;
        memcpy(to, numbers, (size_t)size);
        to += size;
    }
    return to - bytes;
}
