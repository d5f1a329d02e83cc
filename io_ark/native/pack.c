/* Find the ends of nested lists in a binary archive, and write nested lists in the format of Python's marshal. */
#include "ark.h"

/* Find the ends of adjacent lists in `numbers`. A list is a count n and n elements of `width` numbers.
 *
 * `ends` has room for `max_lists` lists. Returns the number of complete lists. */
EXPORT int64_t ark_list_ends(const int32_t *numbers, int64_t count, int64_t max_lists, int width, int64_t *ends)
{
    int64_t lists = 0;
    for (int64_t at = 0; lists < max_lists && at < count && numbers[at] >= 0; lists++) {
        at += 1 + (int64_t)width * numbers[at];
        if (at > count) break;
        ends[lists] = at;
    }
    return lists;
}

static uint8_t *put_marshalled(uint8_t *to, char type, const void *content, size_t size)
{
    *to = (uint8_t)type;
    memcpy(to + 1, content, size);
    return to + 1 + size;
}

/* Write a list of lists of pairs (integer, float) in version 2 of the marshal format.
 *
 * `integers` and `weights` hold the pairs of all lists. `bytes` has room for 19 bytes per pair, 5 per list and 5 more.
 * Returns the number of bytes. */
EXPORT int64_t ark_marshal_pairs(const int32_t *integers, const float *weights, const int64_t *lengths, int64_t lists,
                                 uint8_t *bytes)
{
    const int32_t count = (int32_t)lists, two = 2;
    uint8_t *to = put_marshalled(bytes, '[', &count, sizeof count);
    for (int64_t list = 0; list < lists; list++) {
        const int32_t length = (int32_t)lengths[list];
        to = put_marshalled(to, '[', &length, sizeof length);
        for (const int32_t *const list_end = integers + length; integers < list_end; integers++) {
            const double weight = *weights++;
            to = put_marshalled(to, '(', &two, sizeof two);
            to = put_marshalled(to, 'i', integers, sizeof *integers);
            to = put_marshalled(to, 'g', &weight, sizeof weight);
        }
    }
    return to - bytes;
}
