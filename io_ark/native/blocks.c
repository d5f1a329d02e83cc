/* Read audio and shapes of many entries of an archive, and write arrays as entries.
 *
 * Keys are stored in one string with a newline after each key, as in scan.c. */
#include "ark.h"

#define MAX_NUMBERS ((int64_t)1 << 48)

static uint32_t load_uint32(const uint8_t *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

static uint32_t load_uint16(const uint8_t *from) { return from[0] | (uint32_t)from[1] << 8; }

/* Return the samples of a little-endian wave file with one channel of 16 bits, and set their size in bytes and the sampling
 * rate. Return NULL if the header does not follow the standard, if it has chunks for which the Python code logs a warning,
 * or, unless `only_header` is set, if samples are missing. Other chunks before the samples are skipped. */
static const uint8_t *find_samples(const uint8_t *at, const uint8_t *end, int only_header, int64_t *bytes,
                                   uint32_t *rate)
{
    const uint8_t *const start = at;
    int has_format = 0;
    if (end - at < 12 || memcmp(at, "RIFF", 4) || memcmp(at + 8, "WAVE", 4)) return NULL;
    const int64_t riff_size = load_uint32(at + 4);
    for (at += 12; end - at >= 8;) {
        const int64_t size = load_uint32(at + 4);
        const uint8_t *const body = at + 8;
        if (!memcmp(at, "data", 4)) {
            const int64_t announced = body - start - 8 + size;
            if (!has_format || size == 0 || size % 2 || size == 0x7FFFF000) return NULL;
            if (size > end - body && !only_header) return NULL;
            if (announced - riff_size > 1 || riff_size - announced > 1) return NULL;
            *bytes = size;
            return body;
        }
        if (size % 2 || size > end - body || !memcmp(at, "fact", 4) || has_format == !memcmp(at, "fmt ", 4))
            return NULL;
        if (!has_format) {
            if (size != 16 || load_uint16(body) != 1 || load_uint16(body + 2) != 1 || load_uint16(body + 14) != 16)
                return NULL;
            *rate = load_uint32(body + 4);
            if (*rate == 0 || load_uint32(body + 8) != (uint32_t)(*rate * 2) || load_uint16(body + 12) != 2)
                return NULL;
            has_format = 1;
        }
        at = body + size;
    }
    return NULL;
}

/* Find audio of one channel in `data`: after keys, or, if `places` is not NULL, from places[2 * i] up to
 * places[2 * i + 1] (exclusive).
 *
 * With `only_headers`, samples may be missing. Outputs for up to `max_entries` entries: the keys (only without `places`;
 * `keys` has room for `size` bytes, and *keys_used is set), the end of each entry, the start and the number of its samples,
 * and the sampling rate. Returns the number of entries before the first incomplete or unusual wave file. */
EXPORT int64_t ark_scan_waves(const uint8_t *data, int64_t size, const int64_t *places, int64_t max_entries,
                              int only_headers, uint8_t *keys, int64_t *keys_used, int64_t *ends, int64_t *starts,
                              int64_t *lengths, uint32_t *rates)
{
    const uint8_t *at = data, *end = data + size;
    uint8_t *const first_key = keys;
    int64_t n = 0;
    for (*keys_used = 0; n < max_entries; n++) {
        int64_t bytes;
        if (places) {
            const int64_t *const bounds = places + 2 * n;
            if (bounds[0] < 0 || bounds[0] > bounds[1] || bounds[1] > size) break;
            at = data + bounds[0];
            end = data + bounds[1];
        } else if (!(at = ark_take_key(at, end, &keys)))
            break;
        const uint8_t *const samples = find_samples(at, end, only_headers, &bytes, &rates[n]);
        if (!samples) break;
        starts[n] = samples - data;
        lengths[n] = bytes / 2;
        at = samples + bytes;
        ends[n] = at - data;
        *keys_used = keys - first_key;
    }
    return n;
}

/* Return the size in bytes of a binary matrix from its header at `at` on, or -1 for an unusual header. Set its shape. */
static int64_t measure_matrix(const uint8_t *at, const uint8_t *end, int64_t *shape)
{
    if (end - at < 13) return -1;
    if (at[0] != 'C') {
        if ((at[0] != 'F' && at[0] != 'D') || at[1] != 'M' || at[2] != ' ' || at[3] != 4 || at[8] != 4) return -1;
        shape[0] = ark_load_int32(at + 4);
        shape[1] = ark_load_int32(at + 9);
        if (shape[0] < 0 || shape[1] < 0 || (shape[1] && shape[0] > MAX_NUMBERS / shape[1])) return -1;
        return 13 + shape[0] * shape[1] * (at[0] == 'F' ? 4 : 8);
    }
    const int name = at[1] == 'M' && at[2] == ' '                                     ? 3
                     : at[1] == 'M' && (at[2] == '2' || at[2] == '3') && at[3] == ' ' ? 4
                                                                                      : 0;
    if (!name || end - at < name + 16) return -1;
    shape[0] = ark_load_int32(at + name + 8);
    shape[1] = ark_load_int32(at + name + 12);
    if (shape[0] <= 0 || shape[1] <= 0 || shape[0] > MAX_NUMBERS / shape[1]) return -1;
    const int64_t numbers = shape[0] * shape[1];
    return name + 16 + (name == 3 ? numbers + 8 * shape[1] : at[2] == '2' ? 2 * numbers : numbers);
}

/* Find the shapes of complete binary matrices in `data`, dense or compressed. Outputs: the keys as in ark_scan_waves,
 * the end of each entry, and its rows and columns. Returns the number of entries. */
EXPORT int64_t ark_scan_shapes(const uint8_t *data, int64_t size, int64_t max_entries, uint8_t *keys,
                               int64_t *keys_used, int64_t *ends, int64_t *shapes)
{
    const uint8_t *at = data, *const end = data + size;
    uint8_t *const first_key = keys;
    int64_t n = 0;
    for (*keys_used = 0; n < max_entries; n++) {
        at = ark_take_key(at, end, &keys);
        const int64_t bytes =
            at && end - at > 2 && !at[0] && at[1] == 'B' ? measure_matrix(at + 2, end, shapes + 2 * n) : -1;
        if (bytes < 0 || bytes > end - at - 2) break;
        at += 2 + bytes;
        ends[n] = at - data;
        *keys_used = keys - first_key;
    }
    return n;
}

static uint8_t *put_bytes(uint8_t *to, const void *from, int64_t size)
{
    memcpy(to, from, (size_t)size);
    return to + size;
}

/* Copy a key and a space. Returns the position after the space, and moves *keys to the next key. */
static uint8_t *put_key(uint8_t *to, const uint8_t **keys)
{
    while (**keys != '\n')
        *to++ = *(*keys)++;
    (*keys)++;
    *to++ = ' ';
    return to;
}

/* Write `count` entries of binary arrays: keys, headers and, if `values` is not NULL, the numbers.
 *
 * `shapes` has two numbers for each array. Only the first one is used for vectors (`dimensions` 1). An empty matrix is
 * written with 0 rows and 0 columns. `type` is "F" or "D", and `size` the bytes of a number. `bytes` has room for the keys,
 * the numbers and 16 bytes for each entry. Outputs: the start of each object in `bytes`, after its key, and the end of each
 * entry. Returns the number of bytes. */
EXPORT int64_t ark_pack_arrays(const uint8_t *keys, const int64_t *shapes, int dimensions, int type, int size,
                               const uint8_t *values, int64_t count, uint8_t *bytes, int64_t *objects, int64_t *ends)
{
    uint8_t *to = bytes;
    for (int64_t i = 0; i < count; i++) {
        const int64_t numbers = shapes[2 * i] * (dimensions > 1 ? shapes[2 * i + 1] : 1);
        to = put_key(to, &keys);
        objects[i] = to - bytes;
        to = put_bytes(to, "\0B", 2);
        *to++ = (uint8_t)type;
        to = put_bytes(to, dimensions > 1 ? "M " : "V ", 2);
        to = ark_put_sized(to, numbers || dimensions == 1 ? (int32_t)shapes[2 * i] : 0);
        if (dimensions > 1) to = ark_put_sized(to, numbers ? (int32_t)shapes[2 * i + 1] : 0);
        if (values) {
            to = put_bytes(to, values, numbers * size);
            values += numbers * size;
        }
        ends[i] = to - bytes;
    }
    return to - bytes;
}
