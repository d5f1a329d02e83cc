/* Read many small objects of one kind from a part of an archive.
 *
 * In Python, the function calls that read an object take the same time for a small object as for a large one. Therefore, one
 * call here reads the keys, shapes and numbers of all complete entries in memory. It stops before the first entry that is
 * incomplete, too large to be copied, or in a layout that Kaldi does not write.
 */
#include "ark.h"

enum kind {
    VECTOR,        /* values: float32 */
    DOUBLE_VECTOR, /* float64 */
    MATRIX,        /* float32 */
    DOUBLE_MATRIX, /* float64 */
    INT_VECTOR,    /* int32 */
    INT8_VECTOR,   /* int8 */
    INT_PAIRS,     /* int32, two for each pair */
    FLOAT_PAIRS,   /* float32, two for each pair */
    INT,           /* int32, one */
    FLOAT,         /* float32, one */
    DOUBLE,        /* float64, one */
    BOOL,          /* uint8, one: 0 or 1 */
    TOKEN,         /* characters: the words of an entry, separated by single spaces, and a newline */
    TOKEN_VECTOR,  /* as for TOKEN */
    POSTERIOR,     /* alternately int32 and the bits of a float32; lists: number of values of each frame */
    INT_LISTS,     /* int32; lists: number of integers of each list */
    KINDS
};

/* Arguments and results of a call (see io_ark/codecs/scan.py). */
typedef struct {
    const uint8_t *data; /* bytes of the archive */
    int64_t size;        /* number of bytes */
    const int64_t
        *places;         /* offsets of the objects in `data`; NULL: objects follow their keys, from `start` on */
    int64_t start;       /* offset of the first key */
    int64_t max_entries; /* maximum number of entries: the room in ends and shapes */
    int64_t largest;     /* maximum bytes of an object */
    int64_t values_room; /* bytes */
    int64_t lists_room;  /* numbers */
    uint8_t *keys;       /* out: the keys, with a newline after each key; has room for `size` bytes */
    int64_t *ends;       /* out: end of each entry in `data` */
    int64_t *shapes;     /* out: rows and columns of each entry, or number of elements and 0 */
    uint8_t *values;     /* out: the numbers of all entries */
    int64_t *lists;      /* out: lengths of the inner lists of all entries */
    int64_t keys_used;   /* out: bytes used in keys */
    int64_t values_used; /* out: bytes used in values */
    int64_t lists_used;  /* out: numbers used in lists */
} table;

/* State while one object is read. */
typedef struct {
    table *all;
    const uint8_t *at, *end; /* remaining bytes */
    int64_t *shape;
    int binary;
} object;

static const uint8_t *skip_blanks(const uint8_t *at, const uint8_t *end)
{
    while (at < end && ark_is_blank(*at))
        at++;
    return at;
}

/* Reserve room for bytes of values. Returns NULL if there is not enough room. */
static void *reserve_room(table *all, int64_t bytes)
{
    if (bytes > all->values_room - all->values_used) return NULL;
    uint8_t *const room = all->values + all->values_used;
    all->values_used += bytes;
    return room;
}

/* Read an integer of 4 bytes after its size byte. */
static int read_sized_int(object *it, int32_t *value)
{
    if (it->end - it->at < 5 || it->at[0] != 4) return 0;
    *value = ark_load_int32(it->at + 1);
    it->at += 5;
    return 1;
}

/* Read a count, which is not negative. */
static int read_count(object *it, int32_t *count) { return read_sized_int(it, count) && *count >= 0; }

/* Read numbers of one size with a size byte before each number. */
static int read_sized(object *it, int64_t count, int size)
{
    if (count > (it->end - it->at) / (size + 1)) return 0;
    uint8_t *to = reserve_room(it->all, count * size);
    if (!to) return 0;
    const uint8_t *at = it->at;
    uint8_t wrong = 0;
    if (size == 4) {
        for (int64_t i = 0; i < count; i++, at += 5, to += 4) {
            wrong |= at[0] ^ 4;
            memcpy(to, at + 1, 4);
        }
    } else {
        for (int64_t i = 0; i < count; i++, at += 2, to++) {
            wrong |= at[0] ^ 1;
            *to = at[1];
        }
    }
    it->at = at;
    return !wrong;
}

/* Copy numbers without size bytes. */
static int copy_numbers(object *it, int64_t count, int size)
{
    if (count > (it->end - it->at) / size) return 0;
    void *const to = reserve_room(it->all, count * size);
    if (!to) return 0;
    memcpy(to, it->at, (size_t)(count * size));
    it->at += count * size;
    return 1;
}

/* Read a number in text after blanks: 'i' an int32, 'f' a float32, 'd' a float64. */
static int read_number(object *it, char type)
{
    void *const to = reserve_room(it->all, type == 'd' ? 8 : 4);
    it->at = skip_blanks(it->at, it->end);
    if (!to) return 0;
    if (type == 'i') return ark_read_int(&it->at, it->end, to);
    return type == 'f' ? ark_read_float(&it->at, it->end, to) : ark_read_double(&it->at, it->end, to);
}

/* Read the numbers of a line of text up to the character `end`, which is consumed. '\n' stands for the end of the line. */
static int read_numbers(object *it, char type, uint8_t end, int64_t *count)
{
    for (*count = 0;; (*count)++) {
        it->at = skip_blanks(it->at, it->end);
        if (it->at == it->end) return 0;
        if (*it->at == end) {
            it->at++;
            return 1;
        }
        if (!read_number(it, type)) return 0;
    }
}

/* Read the end of a line after blanks. */
static int end_line(object *it)
{
    it->at = skip_blanks(it->at, it->end);
    return it->at < it->end && *it->at++ == '\n';
}

static int read_vector(object *it, int wide)
{
    if (it->binary) {
        if (it->end - it->at < 8 || memcmp(it->at, wide ? "DV \4" : "FV \4", 4)) return 0;
        it->shape[0] = ark_load_int32(it->at + 4);
        it->at += 8;
        return it->shape[0] >= 0 && copy_numbers(it, it->shape[0], wide ? 8 : 4);
    }
    it->at = skip_blanks(it->at, it->end);
    if (it->end - it->at < 2 || it->at[0] != '[' || it->at[1] != ' ') return 0;
    it->at++;
    if (!read_numbers(it, wide ? 'd' : 'f', ']', it->shape)) return 0;
    return it->at < it->end && *it->at++ == '\n';
}

static int read_matrix(object *it, int wide)
{
    if (it->binary) {
        if (it->end - it->at < 13 || memcmp(it->at, wide ? "DM \4" : "FM \4", 4) || it->at[8] != 4) return 0;
        const int64_t rows = ark_load_int32(it->at + 4), columns = ark_load_int32(it->at + 9);
        it->at += 13;
        it->shape[0] = rows;
        it->shape[1] = columns;
        return rows >= 0 && columns >= 0 && copy_numbers(it, rows * columns, wide ? 8 : 4);
    }
    it->at = skip_blanks(it->at, it->end);
    if (it->end - it->at < 2 || it->at[0] != '[' || !ark_is_space(it->at[1])) return 0;
    const uint8_t *const close = memchr(it->at, ']', (size_t)(it->end - it->at));
    const uint8_t *const end = it->end;
    if (!close) return 0;
    it->at++;
    for (int last = 0; !last;) {
        const uint8_t *const newline = memchr(it->at, '\n', (size_t)(close - it->at));
        int64_t count;
        last = !newline;
        it->end = last ? close + 1 : newline + 1;
        if (!read_numbers(it, wide ? 'd' : 'f', last ? ']' : '\n', &count)) return 0;
        if (count == 0) continue;
        if (it->shape[0] && count != it->shape[1]) return 0;
        it->shape[0]++;
        it->shape[1] = count;
    }
    it->end = end;
    return it->at < it->end && *it->at++ == '\n';
}

static int read_int_vector(object *it)
{
    int32_t count;
    if (!it->binary) return read_numbers(it, 'i', '\n', it->shape);
    if (!read_count(it, &count)) return 0;
    it->shape[0] = count;
    return read_sized(it, count, 4);
}

static int read_int8_vector(object *it)
{
    int32_t count;
    if (!it->binary || !read_count(it, &count)) return 0;
    it->shape[0] = count;
    return read_sized(it, count, 1);
}

static int read_pairs(object *it, int floats)
{
    int32_t count;
    if (it->binary) {
        if (!read_count(it, &count)) return 0;
        it->shape[0] = count;
        return read_sized(it, 2 * (int64_t)count, 4);
    }
    it->at = skip_blanks(it->at, it->end);
    if (it->at < it->end && *it->at == '\n') {
        it->at++;
        return 1;
    }
    for (const char type = floats ? 'f' : 'i';;) {
        if (!read_number(it, type) || !read_number(it, type)) return 0;
        it->shape[0]++;
        it->at = skip_blanks(it->at, it->end);
        if (it->at == it->end) return 0;
        if (*it->at++ == ';') continue;
        return it->at[-1] == '\n';
    }
}

static int read_int(object *it) { return it->binary ? read_sized(it, 1, 4) : read_number(it, 'i') && end_line(it); }

static int read_float(object *it, int wide)
{
    if (!it->binary) return read_number(it, wide ? 'd' : 'f') && end_line(it);
    const int size = wide ? 8 : 4;
    return it->at < it->end && *it->at++ == size && copy_numbers(it, 1, size);
}

static int read_bool(object *it)
{
    if (!it->binary) it->at = skip_blanks(it->at, it->end);
    if (it->at == it->end || (*it->at != 'T' && *it->at != 'F')) return 0;
    uint8_t *const to = reserve_room(it->all, 1);
    if (!to) return 0;
    *to = *it->at++ == 'T';
    return it->binary || end_line(it);
}

/* Read the words of a line. A word consists of any bytes other than white space. */
static int read_tokens(object *it, int one)
{
    int64_t words = 0;
    const uint8_t *const newline = memchr(it->at, '\n', (size_t)(it->end - it->at));
    if (!newline) return 0;
    for (;;) {
        it->at = skip_blanks(it->at, newline);
        if (it->at == newline) break;
        const uint8_t *const word = it->at;
        while (!ark_is_space(*it->at))
            it->at++;
        uint8_t *const to = reserve_room(it->all, it->at - word + 1);
        if (!to) return 0;
        memcpy(to, word, (size_t)(it->at - word));
        to[it->at - word] = ' ';
        words++;
    }
    it->at++;
    if (words == 0) {
        if (one || !reserve_room(it->all, 1)) return 0;
    }
    it->all->values[it->all->values_used - 1] = '\n';
    it->shape[0] = words;
    return !one || words == 1;
}

static int add_list(object *it, int64_t length)
{
    if (it->all->lists_used == it->all->lists_room) return 0;
    it->all->lists[it->all->lists_used++] = length;
    it->shape[0]++;
    return 1;
}

/* Read binary lists of elements of `width` numbers. */
static int read_lists(object *it, int width)
{
    int32_t lists, length;
    if (!read_count(it, &lists)) return 0;
    for (int32_t i = 0; i < lists; i++) {
        if (!read_count(it, &length)) return 0;
        const int64_t numbers = (int64_t)length * width;
        if (!read_sized(it, numbers, 4) || !add_list(it, numbers)) return 0;
    }
    return 1;
}

static int read_posterior(object *it)
{
    if (it->binary) return read_lists(it, 2);
    for (;;) {
        it->at = skip_blanks(it->at, it->end);
        if (it->end - it->at < 2) return it->at < it->end && *it->at++ == '\n';
        if (*it->at == '\n') {
            it->at++;
            return 1;
        }
        if (it->at[0] != '[' || it->at[1] != ' ') return 0;
        int64_t count = 0;
        for (it->at++;; count += 2) {
            it->at = skip_blanks(it->at, it->end);
            if (it->at == it->end) return 0;
            if (*it->at == ']') break;
            if (!read_number(it, 'i') || !read_number(it, 'f')) return 0;
        }
        it->at++;
        if (it->at == it->end || !ark_is_space(*it->at) || !add_list(it, count)) return 0;
    }
}

static int read_int_lists(object *it)
{
    if (it->binary) return read_lists(it, 1);
    for (;;) {
        int64_t count;
        it->at = skip_blanks(it->at, it->end);
        if (it->at == it->end) return 0;
        if (*it->at == '\n') {
            it->at++;
            return 1;
        }
        if (!read_numbers(it, 'i', ';', &count) || !add_list(it, count)) return 0;
    }
}

static int read_object(object *it, int kind)
{
    switch (kind) {
    case VECTOR: return read_vector(it, 0);
    case DOUBLE_VECTOR: return read_vector(it, 1);
    case MATRIX: return read_matrix(it, 0);
    case DOUBLE_MATRIX: return read_matrix(it, 1);
    case INT_VECTOR: return read_int_vector(it);
    case INT8_VECTOR: return read_int8_vector(it);
    case INT_PAIRS: return read_pairs(it, 0);
    case FLOAT_PAIRS: return read_pairs(it, 1);
    case INT: return read_int(it);
    case FLOAT: return read_float(it, 0);
    case DOUBLE: return read_float(it, 1);
    case BOOL: return read_bool(it);
    case TOKEN: return read_tokens(it, 1);
    case TOKEN_VECTOR: return read_tokens(it, 0);
    case POSTERIOR: return read_posterior(it);
    case INT_LISTS: return read_int_lists(it);
    default: return 0;
    }
}

/* Read entries of a kind. Returns the number of entries. */
EXPORT int64_t ark_scan(table *all, int kind)
{
    const uint8_t *const end = all->data + all->size;
    const uint8_t *at = all->data + all->start;
    int64_t n = 0;
    all->keys_used = all->values_used = all->lists_used = 0;
    for (; n < all->max_entries; n++) {
        const int64_t keys_before = all->keys_used, values_before = all->values_used, lists_before = all->lists_used;
        object it = {all, at, end, all->shapes + 2 * n, 0};
        if (all->places) {
            it.at = all->places[n] >= 0 && all->places[n] <= all->size ? all->data + all->places[n] : NULL;
        } else {
            uint8_t *keys = all->keys + all->keys_used;
            it.at = ark_take_key(at, end, &keys);
            all->keys_used = keys - all->keys;
        }
        if (it.at) {
            if (all->largest < end - it.at) it.end = it.at + all->largest;
            if (kind != TOKEN && kind != TOKEN_VECTOR && it.end - it.at >= 2 && it.at[0] == 0 && it.at[1] == 'B') {
                it.binary = 1;
                it.at += 2;
            }
            it.shape[0] = it.shape[1] = 0;
        }
        if (!it.at || !read_object(&it, kind)) {
            all->keys_used = keys_before;
            all->values_used = values_before;
            all->lists_used = lists_before;
            break;
        }
        at = it.at;
        all->ends[n] = at - all->data;
    }
    return n;
}
