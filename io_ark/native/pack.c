/* Objects to bytes: numbers that each follow a byte with their size. */
#include "ark.h"

/* Pack lists of numbers, or of pairs of numbers: for each list its length, then its numbers of 32 bits.
 *
 * `first` and `second` have the numbers of all lists; `second` is NULL if there are no pairs. `bytes` has room for 5
 * bytes a number and 5 a list. Returns how many bytes. */
EXPORT int64_t ark_pack_lists(const uint8_t *first, const uint8_t *second, const int64_t *lengths, int64_t lists,
                              uint8_t *bytes)
{
    uint8_t *to = bytes;
    for (int64_t list = 0; list < lists; list++) {
        to = ark_put_sized(to, (int32_t)lengths[list]);
        for (const uint8_t *const behind = first + 4 * lengths[list]; first < behind; first += 4) {
            to = ark_put_sized(to, ark_load_int32(first));
            if (second) {
                to = ark_put_sized(to, ark_load_int32(second));
                second += 4;
            }
        }
    }
    return to - bytes;
}

/* Find where lists end that lie one after the other in `numbers`, each a count and so many elements of `width` numbers.
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

/* Numbers in nested lists as Python's marshal writes them (version 2): a list or tuple is '[' or '(' and its length in 4
 * bytes, an integer of 32 bits is 'i' and 4 bytes, a float is 'g' and 8 bytes. This is the only way to walk through
 * Python's lists without Python's API, and takes a fraction of the time of any other.
 *
 * The functions below convert them to Kaldi's layout. `depth` is how deep the lists are (1 or 2); `pairs` if their elements
 * are pairs; `floats` has bit 0 set if the first (or only) number of an element is a float, and bit 1 for the second.
 * They return how many bytes there are in `to`, or -1 for anything else in `data`. */
typedef struct {
    const uint8_t *at, *end;
    uint8_t *to;
    int text;
} walk;

static int take_length(walk *it, int64_t *length)
{
    if (it->end - it->at < 5 || (it->at[0] != '[' && it->at[0] != '(')) return 0;
    *length = ark_load_int32(it->at + 1);
    it->at += 5;
    return *length >= 0;
}

static int put_taken(walk *it, const uint8_t *number, int is_float)
{
    if (!it->text) {
        it->to = ark_put_sized(it->to, ark_load_int32(number));
        return 1;
    }
    uint8_t *const behind = ark_put_element(it->to, number, is_float);
    if (!behind) return 0;
    *behind = ' ';
    it->to = behind + 1;
    return 1;
}

static int take_number(walk *it, int is_float)
{
    if (!is_float) {
        if (it->end - it->at < 5 || it->at[0] != 'i') return 0;
        it->at += 5;
        return put_taken(it, it->at - 4, 0);
    }
    double wide;
    if (it->end - it->at < 9 || it->at[0] != 'g') return 0;
    memcpy(&wide, it->at + 1, sizeof wide);
    if (!(wide >= -3.4028234663852886e38 && wide <= 3.4028234663852886e38)) return 0;
    const float single = (float)wide;
    it->at += 9;
    return put_taken(it, (const uint8_t *)&single, 1);
}

static int take_element(walk *it, int pairs, int floats)
{
    int64_t two;
    if (pairs && (!take_length(it, &two) || two != 2)) return 0;
    return take_number(it, floats & 1) && (!pairs || take_number(it, floats & 2));
}

/* In binary: every length and number after a byte 4. `bytes` has room for `size` bytes. */
EXPORT int64_t ark_pack_marshalled(const uint8_t *data, int64_t size, int depth, int pairs, int floats, uint8_t *bytes)
{
    walk it = {data, data + size, bytes, 0};
    int64_t lists = 1, length;
    if (depth == 2) {
        if (!take_length(&it, &lists)) return -1;
        it.to = ark_put_sized(it.to, (int32_t)lists);
    }
    for (int64_t list = 0; list < lists; list++) {
        if (!take_length(&it, &length)) return -1;
        it.to = ark_put_sized(it.to, (int32_t)length);
        for (int64_t i = 0; i < length; i++)
            if (!take_element(&it, pairs, floats)) return -1;
    }
    return it.at == it.end ? it.to - bytes : -1;
}

/* In text: each number with a space after it, and around each inner list (around each element, if `depth` is 1) `begin`
 * and `end`, of at most 2 characters each. `text` has room for 3 * `size` characters. */
EXPORT int64_t ark_print_marshalled(const uint8_t *data, int64_t size, int depth, int pairs, int floats, const char *begin,
                                    const char *end, uint8_t *text)
{
    walk it = {data, data + size, text, 1};
    int64_t lists, length = 1;
    if (!take_length(&it, &lists)) return -1;
    for (int64_t list = 0; list < lists; list++) {
        if (depth == 2 && !take_length(&it, &length)) return -1;
        it.to = ark_put_text(it.to, begin);
        for (int64_t i = 0; i < length; i++)
            if (!take_element(&it, pairs, floats)) return -1;
        it.to = ark_put_text(it.to, end);
    }
    return it.at == it.end ? it.to - text : -1;
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
