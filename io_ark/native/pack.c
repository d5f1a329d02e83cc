/* Nested lists: as they are in an archive in binary, and as Python's marshal writes them. */
#include "ark.h"

/* Find where lists end that lie one after the other in `numbers`, each a count n and n elements of `width` numbers.
 *
 * `ends` has room for `most`, which are as many as there are numbers at most. Returns how many lists are whole. */
EXPORT int64_t ark_list_ends(const int32_t *numbers, int64_t count, int64_t most, int width, int64_t *ends)
{
    int64_t lists = 0;
    for (int64_t at = 0; lists < most && at < count && numbers[at] >= 0; lists++) {
        at += 1 + (int64_t)width * numbers[at];
        if (at > count) break;
        ends[lists] = at;
    }
    return lists;
}

/* Numbers in nested lists as Python's marshal writes them (version 2): a list or tuple is '[' or '(' and its length in 4
 * bytes, an integer of 32 bits is 'i' and 4 bytes, a float is 'g' and 8 bytes. This is the only way to walk through
 * Python's lists without Python's API, and takes a fraction of the time of any other. */
typedef struct {
    const uint8_t *at, *end;
} walk;

static int take_length(walk *it, int64_t *length)
{
    if (it->end - it->at < 5 || (it->at[0] != '[' && it->at[0] != '(')) return 0;
    *length = ark_load_int32(it->at + 1);
    it->at += 5;
    return *length >= 0;
}

/* An int32 of type 'i', or a float32 of type 'f'. */
static int take_number(walk *it, char type, uint8_t *number)
{
    if (type == 'i') {
        if (it->end - it->at < 5 || it->at[0] != 'i') return 0;
        memcpy(number, it->at + 1, 4);
        it->at += 5;
        return 1;
    }
    double wide;
    if (it->end - it->at < 9 || it->at[0] != 'g') return 0;
    memcpy(&wide, it->at + 1, sizeof wide);
    if (!(wide >= -3.4028234663852886e38 && wide <= 3.4028234663852886e38)) return 0;
    const float single = (float)wide;
    memcpy(number, &single, sizeof single);
    it->at += 9;
    return 1;
}

/* Write a list of elements (`depth` 1) or a list of lists (2) as ark_encode_lists does, in binary each after its length. In
 * text `begin` and `end` are around each inner list, or around each element if `depth` is 1.
 *
 * `types` has the type of each number of an element: one, or two for pairs. `bytes` has room for `size` bytes, or in text
 * four times as many. Returns how many bytes, or -1 for anything else in `data`. */
EXPORT int64_t ark_encode_marshalled(const uint8_t *data, int64_t size, int depth, const char *types, const char *begin,
                                     const char *end, uint8_t *bytes)
{
    walk it = {data, data + size};
    uint8_t *to = bytes, number[4];
    int64_t lists = 1, length = 1, two;
    if (depth == 2 || begin) {
        if (!take_length(&it, &lists)) return -1;
        if (!begin) to = ark_put_sized(to, (int32_t)lists);
    }
    for (int64_t list = 0; list < lists; list++) {
        if ((depth == 2 || !begin) && !take_length(&it, &length)) return -1;
        to = begin ? ark_put_text(to, begin) : ark_put_sized(to, (int32_t)length);
        for (int64_t i = 0; i < length; i++) {
            if (types[1] && (!take_length(&it, &two) || two != 2)) return -1;
            for (const char *type = types; *type; type++) {
                if (!take_number(&it, *type, number)) return -1;
                to = ark_put_element(to, number, *type, begin != NULL);
            }
        }
        if (begin) to = ark_put_text(to, end);
    }
    return it.at == it.end ? to - bytes : -1;
}

static uint8_t *put_marshalled(uint8_t *to, char type, const void *content, size_t size)
{
    *to = (uint8_t)type;
    memcpy(to + 1, content, size);
    return to + 1 + size;
}

/* The other way round: lists of pairs of an integer and a float, in a list, as marshal reads them.
 *
 * `integers` and `weights` are of all lists. `bytes` has room for 19 bytes a pair, 5 a list and 5 more. Returns how many
 * bytes. */
EXPORT int64_t ark_marshal_pairs(const int32_t *integers, const float *weights, const int64_t *lengths, int64_t lists,
                                 uint8_t *bytes)
{
    const int32_t count = (int32_t)lists, two = 2;
    uint8_t *to = put_marshalled(bytes, '[', &count, sizeof count);
    for (int64_t list = 0; list < lists; list++) {
        const int32_t length = (int32_t)lengths[list];
        to = put_marshalled(to, '[', &length, sizeof length);
        for (const int32_t *const behind = integers + length; integers < behind; integers++) {
            const double weight = *weights++;
            to = put_marshalled(to, '(', &two, sizeof two);
            to = put_marshalled(to, 'i', integers, sizeof *integers);
            to = put_marshalled(to, 'g', &weight, sizeof weight);
        }
    }
    return to - bytes;
}
