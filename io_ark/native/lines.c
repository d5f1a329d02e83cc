/* Lines of text: their fields, an index of keys, and lines grouped by their second field. */
#include "ark.h"

enum { LINES, UNSORTED, LACKING, INDENTED }; /* places of `found`: a count, and lines, from 1; 0 for none */

/* White space of Perl and Python, or of awk, without the ends of lines. */
static inline int is_gap(uint8_t byte, int awk) { return awk ? byte == ' ' || byte == '\t' : ark_is_blank(byte); }

/* Find the end of a field of the line at `at`, and where it starts; it is empty if the line has fewer fields. */
static const uint8_t *field_of(const uint8_t *at, const uint8_t *end, int field, int awk, const uint8_t **start)
{
    for (;;) {
        while (at < end && is_gap(*at, awk)) at++;
        *start = at;
        while (at < end && !is_gap(*at, awk)) at++;
        if (--field == 0 || at == end) break;
    }
    if (field) *start = at;
    return at;
}

static inline const uint8_t *end_of_line(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *const found = memchr(at, '\n', (size_t)(end - at));
    return found ? found : end;
}

static inline int compare(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size)
{
    const int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
    return order ? order : (a_size > b_size) - (a_size < b_size);
}

/* Write a field of each line, with a newline, into `out`, which has room for size + 1 bytes. Returns the bytes written.
 *
 * `found`: the number of lines, and the first line of which the field does not follow, as bytes, that of the line
 * before; that lacks the field; that starts with white space. */
EXPORT int64_t ark_line_fields(const uint8_t *text, int64_t size, int field, int awk, uint8_t *out, int64_t *found)
{
    const uint8_t *const end = text + size, *start, *last = NULL;
    uint8_t *to = out;
    size_t last_size = 0;
    memset(found, 0, 4 * sizeof *found);
    for (const uint8_t *at = text, *stop; at < end; at = stop + 1) {
        stop = end_of_line(at, end);
        const int64_t line = ++found[LINES];
        const size_t length = (size_t)(field_of(at, stop, field, awk, &start) - start);
        if (!found[INDENTED] && at < stop && is_gap(*at, awk)) found[INDENTED] = line;
        if (!found[LACKING] && !length) found[LACKING] = line;
        if (!found[UNSORTED] && last && compare(last, last_size, start, length) >= 0) found[UNSORTED] = line;
        last = start;
        last_size = length;
        memcpy(to, start, length);
        to += length;
        *to++ = '\n';
    }
    return to - out;
}

static uint64_t hash(const uint8_t *at, size_t size)
{
    uint64_t value = size * 0x9e3779b97f4a7c15u, word;
    for (; size; at += word, size -= (size_t)word) {
        uint64_t part = 0;
        word = size < 8 ? size : 8;
        memcpy(&part, at, (size_t)word);
        value = (value ^ part) * 0xff51afd7ed558ccdu;
        value ^= value >> 32;
    }
    return value;
}

static inline const uint32_t *slot_of(const uint8_t *key, size_t size, const uint8_t *keys, int64_t keys_size,
                                      const uint32_t *slots, int64_t mask)
{
    for (uint64_t at = hash(key, size);; at++) {
        const uint32_t *const slot = slots + 2 * (at & (uint64_t)mask);
        if (!slot[0]) return slot;
        const uint8_t *const other = keys + slot[0] - 1;
        if ((int64_t)size < keys_size - slot[0] + 1 && other[size] == '\n' && !memcmp(other, key, size)) return slot;
    }
}

/* Number keys, each with a newline, in `slots`: mask + 1 pairs of a place, from 1, and a number, from 0, which are zero
 * before. Keys have less than 4 GB together. Of a key twice, the last counts. Returns how many different ones there are. */
EXPORT int64_t ark_line_numbers(const uint8_t *keys, int64_t size, uint32_t *slots, int64_t mask)
{
    const uint8_t *const end = keys + size;
    int64_t different = 0;
    uint32_t number = 0;
    for (const uint8_t *at = keys, *stop; at < end; at = stop + 1, number++) {
        stop = end_of_line(at, end);
        uint32_t *const slot = (uint32_t *)slot_of(at, (size_t)(stop - at), keys, size, slots, mask);
        slot[1] = number;
        if (slot[0]) continue;
        slot[0] = (uint32_t)(at - keys) + 1;
        different++;
    }
    return different;
}

/* Where a search in sorted keys is: at the key with a number, at a place, after the one at another place. */
struct cursor {
    int64_t at, number, before;
};

/* Find a key in sorted keys from the cursor on. Returns its number, -1 if it is not there, -2 if it lies before. */
static int64_t find_ahead(const uint8_t *key, size_t size, const uint8_t *keys, int64_t keys_size, struct cursor *cursor)
{
    while (cursor->at < keys_size) {
        const uint8_t *const other = keys + cursor->at;
        const uint8_t *const stop = memchr(other, '\n', (size_t)(keys_size - cursor->at));
        const int order = compare(other, (size_t)(stop - other), key, size);
        if (order == 0) return cursor->number;
        if (order > 0) break;
        cursor->before = cursor->at;
        cursor->at = stop + 1 - keys;
        cursor->number++;
    }
    if (!cursor->number) return -1;
    const uint8_t *const last = keys + cursor->before;
    return compare(last, (size_t)(cursor->at - cursor->before - 1), key, size) < 0 ? -1 : -2;
}

/* Part lines by the key in a field: write runs (start, end, part, lines) of lines of the same part.
 *
 * Part p has the keys with the numbers bounds[p] <= number < bounds[p + 1]; that of another key is -1. If `parts` is 0, each
 * key is a part. `runs` has room for a run for each line. Without `slots`, keys are sorted, and `position` is where the
 * search is, three zeros at first. Returns the number of runs, or -1 if that search would have to go back; and in `found`
 * the same as `ark_line_fields`, but for the order. */
EXPORT int64_t ark_line_runs(const uint8_t *text, int64_t size, int field, const uint8_t *keys, int64_t keys_size,
                             const uint32_t *slots, int64_t mask, const int64_t *bounds, int64_t parts,
                             int64_t *position, int64_t *runs, int64_t *found)
{
    struct cursor cursor = {position[0], position[1], position[2]};
    const uint8_t *const end = text + size, *start;
    int64_t count = 0, part = 0;
    memset(found, 0, 4 * sizeof *found);
    for (const uint8_t *at = text, *stop; at < end; at = stop + 1) {
        stop = end_of_line(at, end);
        const int64_t line = ++found[LINES];
        const size_t length = (size_t)(field_of(at, stop, field, 0, &start) - start);
        if (!found[LACKING] && !length) found[LACKING] = line;
        int64_t here = -1, number = -1;
        if (slots) {
            const uint32_t *const slot = slot_of(start, length, keys, keys_size, slots, mask);
            if (slot[0]) number = slot[1];
        } else if ((number = find_ahead(start, length, keys, keys_size, &cursor)) == -2)
            return -1;
        if (number >= 0) {
            if (!parts) part = number;
            else if (number < bounds[part] || number >= bounds[part + 1]) {
                int64_t low = 0, high = parts;
                while (high - low > 1) {
                    const int64_t middle = (low + high) / 2;
                    if (bounds[middle] <= number) low = middle;
                    else high = middle;
                }
                part = low;
            }
            here = part;
        }
        if (!count || runs[4 * count - 2] != here) {
            runs[4 * count] = at - text;
            runs[4 * count + 2] = here;
            runs[4 * count + 3] = 0;
            count++;
        }
        runs[4 * count - 3] = (stop < end ? stop + 1 : end) - text;
        runs[4 * count - 1]++;
    }
    position[0] = cursor.at;
    position[1] = cursor.number;
    position[2] = cursor.before;
    return count;
}

/* Turn lines "utterance speaker" into "speaker utterance utterance ...", without the last newline.
 *
 * `open` is the speaker of the lines before, which these may go on with; none if empty. Returns the bytes in `out`, which
 * has room for 2 * size; or minus the number of the first line that has not two fields, or whose speaker, if it is
 * another one than that of the line before, does not follow it. */
EXPORT int64_t ark_line_groups(const uint8_t *text, int64_t size, const uint8_t *open, int64_t open_size, uint8_t *out)
{
    const uint8_t *const end = text + size, *key, *speaker, *more;
    uint8_t *to = out;
    int64_t line = 0;
    for (const uint8_t *at = text, *stop; at < end; at = stop + 1) {
        stop = end_of_line(at, end);
        line++;
        const uint8_t *const key_end = field_of(at, stop, 1, 0, &key);
        const uint8_t *const speaker_end = field_of(key_end, stop, 1, 0, &speaker);
        if (speaker == speaker_end || field_of(speaker_end, stop, 1, 0, &more) != more) return -line;
        const size_t length = (size_t)(speaker_end - speaker);
        const int order = compare(open, (size_t)open_size, speaker, length);
        if (order > 0) return -line;
        if (order < 0) {
            if (open_size) *to++ = '\n';
            memcpy(to, speaker, length);
            to += length;
            open = speaker;
            open_size = (int64_t)length;
        }
        *to++ = ' ';
        memcpy(to, key, (size_t)(key_end - key));
        to += key_end - key;
    }
    return to - out;
}
