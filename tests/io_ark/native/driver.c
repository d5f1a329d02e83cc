/* Calls every C function of io_ark with valid, damaged and random input, each in a buffer of exactly its size.
 *
 * To be compiled with -fsanitize=address,undefined, which stop the program where memory that is not there is touched.
 * Arguments: how many damaged copies to make of each file, then files as "KIND:PATH", with a kind's number in scan.c.
 */
#include <stdio.h>
#include <stdlib.h>

#include "blocks.c"
#include "compressed_simd.c"
#include "numbers.c"
#include "pack.c"
#include "scan.c"

static uint32_t seed = 1;

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(seed >> 8) * below >> 24);
}

static void *exactly(size_t bytes)
{
    void *const memory = malloc(bytes ? bytes : 1);
    if (!memory) exit(2);
    return memory;
}

static uint8_t *copy_of(const uint8_t *data, size_t size)
{
    uint8_t *const copy = exactly(size);
    memcpy(copy, data, size);
    return copy;
}

/* Scan all of the data, with room for this number of bytes of values, lists and entries. */
static int64_t scan_all(const uint8_t *data, int64_t size, int kind, int64_t values, int64_t lists, int64_t most,
                        const int64_t *places)
{
    table all = {0};
    all.data = data;
    all.size = size;
    all.places = places;
    all.max_entries = most;
    all.largest = 1 << 14;
    all.values_room = values;
    all.lists_room = lists;
    all.keys = exactly((size_t)size);
    all.ends = exactly((size_t)most * sizeof(int64_t));
    all.shapes = exactly((size_t)most * 2 * sizeof(int64_t));
    all.values = exactly((size_t)values);
    all.lists = exactly((size_t)lists * sizeof(int64_t));
    int64_t entries = 0;
    for (int64_t count; (count = ark_scan(&all, kind)) > 0; all.start = all.ends[count - 1]) {
        entries += count;
        for (int64_t i = 0; i < count; i++)
            if (all.ends[i] < 0 || all.ends[i] > size || all.shapes[2 * i] < 0 || all.shapes[2 * i + 1] < 0) abort();
        if (places) break;
    }
    free(all.keys);
    free(all.ends);
    free(all.shapes);
    free(all.values);
    free(all.lists);
    return entries;
}

/* A copy with some bytes changed, or cut off. */
static uint8_t *damaged(const uint8_t *data, int64_t *size)
{
    static const uint8_t telling[] = {0, 4, 8, 127, 128, 255, ' ', '\n', ';', ']', '[', '-', '.', 'e', '9'};
    if (draw(2)) *size = draw((uint32_t)*size + 1);
    uint8_t *const copy = copy_of(data, (size_t)*size);
    for (uint32_t i = *size ? draw(6) : 0; i > 0; i--)
        copy[draw((uint32_t)*size)] = draw(2) ? telling[draw(sizeof telling)] : (uint8_t)draw(256);
    return copy;
}

static void test_scan(int kind, const char *path, int copies)
{
    FILE *const file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) exit(2);
    const int64_t size = ftell(file);
    rewind(file);
    uint8_t *const data = exactly((size_t)size);
    if (fread(data, 1, (size_t)size, file) != (size_t)size) exit(2);
    fclose(file);
    if (scan_all(data, size, kind, 4 * size, size, 100, NULL) < 2) {
        fprintf(stderr, "%s: its entries were not read\n", path);
        exit(3);
    }
    for (int i = 0; i < copies; i++) {
        int64_t length = size, places[3];
        uint8_t *const copy = damaged(data, &length);
        for (int k = 0; k < 3; k++)
            places[k] = (int64_t)draw((uint32_t)length + 3) - 1;
        scan_all(copy, length, kind, 4 * length, length, 100, NULL);
        scan_all(copy, length, kind, (int64_t)draw((uint32_t)length + 1) & ~7, draw(4), 1 + draw(3), NULL);
        scan_all(copy, length, kind, 4 * length, length, 3, places);
        free(copy);
    }
    free(data);
}

static void test_text(int rounds)
{
    static const char parts[] = "0123456789012345678901234567890123456789..--+eE;]\n\n      \t";
    for (int i = 0; i < rounds; i++) {
        const int64_t size = draw(400);
        uint8_t *const text = exactly((size_t)size);
        for (int64_t k = 0; k < size; k++)
            text[k] = (uint8_t)parts[draw(draw(8) ? 58 : 40)];
        for (int wide = 0; wide < 2; wide++) {
            const int64_t most = draw(2) ? size / 2 + 1 : draw(5), rows_room = draw(2) ? size + 1 : draw(3);
            void *const values = exactly((size_t)most * (wide ? 8 : 4));
            int64_t *const lengths = exactly((size_t)rows_room * 8), rows;
            ark_read_rows(text, size, wide, values, most, lengths, rows_room, &rows);
            free(values);
            free(lengths);
        }
        free(text);
    }
}

/* Any bytes as numbers, and as nested lists. */
static void test_lists(int rounds)
{
    for (int i = 0; i < rounds; i++) {
        const int64_t count = draw(40), lengths[] = {count / 2, 0, count - count / 2};
        const int first_type = "ifd"[draw(3)], second_type = "ifd"[draw(3)], text = (int)draw(2);
        uint8_t *const first = exactly((size_t)(count_bytes(first_type) * count)), *const second = exactly(
                                                                                    (size_t)(count_bytes(second_type) *
                                                                                             count));
        for (int64_t k = 0; k < count_bytes(first_type) * count; k++)
            first[k] = (uint8_t)draw(256);
        for (int64_t k = 0; k < count_bytes(second_type) * count; k++)
            second[k] = (uint8_t)draw(256);
        const int64_t longest = text ? 30 : 2 + count_bytes(first_type) + count_bytes(second_type);
        uint8_t *const room = exactly((size_t)(longest * count + 15)), *const pairs =
                                                                           exactly((size_t)(19 * count + 20));
        int64_t ends[3];
        ark_encode_lists(first, first_type, draw(2) ? second : NULL, second_type, count, lengths, 3,
                         text ? "\n  " : NULL, "] ", room, ends);
        uint8_t *const numbers = exactly((size_t)count * 4);
        int64_t *const places = exactly((size_t)count * 8);
        for (int64_t k = 0; k < 4 * count; k++)
            numbers[k] = k % 4 > 1 ? 0 : (uint8_t)draw(k % 4 ? 2 : 256);
        ark_list_ends((const int32_t *)(void *)numbers, count, draw((uint32_t)count + 1), 1 + (int)draw(2), places);
        ark_marshal_pairs((const int32_t *)(void *)numbers, (const float *)(void *)numbers, lengths, 3, pairs);
        uint8_t *const all[] = {first, second, room, pairs, numbers, (uint8_t *)places};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            free(all[k]);
    }
}

/* Any bytes as a compressed matrix. */
static void test_compressed(int rounds)
{
    static const char *const names[] = {"CM ", "CM2 ", "CM3 "};
    for (int i = 0; i < rounds; i++) {
        const int32_t shape[2] = {(int32_t)draw(draw(4) ? 8 : 300), 1 + (int32_t)draw(40)};
        const uint32_t format = draw(3);
        const size_t name = strlen(names[format]), numbers = (size_t)(shape[0] * shape[1]);
        const size_t size = format == 0 ? numbers + 8 * (size_t)shape[1] : format == 1 ? 2 * numbers : numbers;
        uint8_t *const header = exactly(name + 16), *const data = exactly(size);
        float *const values = exactly(numbers * 4);
        memcpy(header, names[format], name);
        memcpy(header + name + 8, shape, sizeof shape);
        for (size_t k = 0; k < 8; k++)
            header[name + k] = (uint8_t)draw(256);
        for (size_t k = 0; k < size; k++)
            data[k] = (uint8_t)draw(256);
        SIMD_NAME(ark_decompress)(header, data, 0, values);
        free(header);
        free(data);
        free(values);
    }
}

/* Entries of audio and of matrices: whole ones are found, damaged ones do no harm, and what is packed is found again. */
static void test_blocks(int rounds)
{
    static const uint8_t wave[] =
        "k RIFF\x32\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x80\x3e\0\0\0\x7d\0\0\2\0\x10\0LIST\2\0\0\0abdata\4\0\0\0\1\0\2\0";
    enum { WAVE = sizeof wave - 1, MOST = 8 };
    for (int i = 0; i < rounds; i++) {
        const int64_t count = 1 + draw(4);
        int64_t shapes[2 * MOST], numbers = 0, columns = 0;
        for (int64_t k = 0; k < count; k++) {
            shapes[2 * k] = 1 + draw(draw(4) ? 12 : 150);
            shapes[2 * k + 1] = 1 + draw(draw(4) ? 5 : 40);
            numbers += shapes[2 * k] * shapes[2 * k + 1];
            columns += shapes[2 * k + 1];
        }
        uint8_t *const keys = copy_of((const uint8_t *)"a\nb\nc\nd\n", (size_t)(2 * count));
        float *const values = exactly((size_t)numbers * 4);
        for (int64_t k = 0; k < numbers; k++)
            values[k] = (float)draw(1000) / 8 - 50;
        uint8_t *const room = exactly((size_t)(2 * count + 24 * count + 8 * columns + 4 * numbers));
        int64_t objects[MOST], ends[MOST], used, starts[MOST], lengths[MOST];
        uint32_t rates[MOST];
        const int method = (int)draw(2) * (1 + (int)draw(7));
        int64_t size = method ? SIMD_NAME(ark_compress_arrays)(keys, shapes, values, count, method, room, objects, ends)
                              : ark_pack_arrays(keys, shapes, 2, 'F', 4, (uint8_t *)values, count, room, objects, ends);
        uint8_t *const whole = copy_of(room, (size_t)size), *const names = exactly((size_t)size);
        if (ark_scan_shapes(whole, size, MOST, names, &used, ends, shapes) != count || used != 2 * count) abort();
        int64_t length = size;
        uint8_t *const bad = damaged(whole, &length);
        ark_scan_shapes(bad, length, MOST, names, &used, ends, shapes);
        uint8_t *const audio = exactly(2 * WAVE);
        memcpy(audio, wave, WAVE);
        memcpy(audio + WAVE, wave, WAVE);
        uint8_t *const audio_keys = exactly(2 * WAVE);
        if (ark_scan_waves(audio, 2 * WAVE, NULL, MOST, 0, audio_keys, &used, ends, starts, lengths, rates) != 2)
            abort();
        if (lengths[1] != 2 || audio[starts[1]] != 1 || rates[0] != 16000) abort();
        length = 2 * WAVE;
        uint8_t *const bad_audio = damaged(audio, &length);
        int64_t places[4] = {2, WAVE + 2, WAVE + 2, length};
        ark_scan_waves(bad_audio, length, NULL, MOST, 0, audio_keys, &used, ends, starts, lengths, rates);
        for (int only_headers = 0; only_headers < 2; only_headers++)
            ark_scan_waves(bad_audio, length, places, 2, only_headers, audio_keys, &used, ends, starts, lengths, rates);
        uint8_t *const all[] = {keys, (uint8_t *)values, room, whole, names, bad, audio, audio_keys, bad_audio};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            free(all[k]);
    }
}

int main(int count, char **arguments)
{
    if (count < 2) return 2;
    const int copies = atoi(arguments[1]);
    for (int i = 2; i < count; i++) {
        char *path;
        const int kind = (int)strtol(arguments[i], &path, 10);
        if (*path++ != ':') return 2;
        test_scan(kind, path, copies);
    }
    test_text(copies * 10);
    test_lists(copies * 10);
    test_compressed(copies);
    test_blocks(copies * 10);
    return 0;
}
