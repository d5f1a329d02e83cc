/* Grades kaldi_features.h on the conformance kit (reference_data/conformance).

       conform KIT                       all levels; the exit status is 1 if a vector differs from Kaldi's output in a bit
       conform AUDIO OPTIONS.json OUT.npy   one vector, for `kaldi-compat conform -- conform {audio} {options.json} {out.npy}`;
                                         the exit status is 77 for a vector that the header does not support

   Pitch, post-processing, archives and resampling are not supported. */
#define KALDI_FEATURES_IMPLEMENTATION
#include "kaldi_features.h"

#include <stdio.h>
#include <stdlib.h>

enum { FAILED = 1, UNSUPPORTED = 77 };

static void *must(void *memory) {
    if (!memory) {
        fprintf(stderr, "conform: no memory\n");
        exit(FAILED);
    }
    return memory;
}

/* Return the bytes of a file in a folder ("" for none), with a zero after them, or end the program if it cannot be read. */
static char *read_file(const char *folder, const char *name, size_t *size) {
    char path[4096];
    snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", name);
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) {
        fprintf(stderr, "conform: cannot read %s\n", path);
        exit(FAILED);
    }
    const long length = ftell(file);
    char *bytes = (char *)must(malloc((size_t)(length < 0 ? 0 : length) + 1));
    rewind(file);
    *size = fread(bytes, 1, (size_t)(length < 0 ? 0 : length), file);
    bytes[*size] = 0;
    fclose(file);
    return bytes;
}

/* The functions below read JSON. A value is a pointer to its first character. */
static const char *after_space(const char *p) { return p + strspn(p, " \t\r\n,:"); }

static const char *after_value(const char *p) {
    if (*p == '"') {
        for (p++; *p && *p != '"'; p++) p += *p == '\\' && p[1];
        return *p ? p + 1 : p;
    }
    if (*p != '{' && *p != '[') return p + strcspn(p, ",]} \t\r\n");
    for (p = after_space(p + 1); *p && *p != '}' && *p != ']';) p = after_space(after_value(p));
    return *p ? p + 1 : p;
}

/* Copy the text of a string (without its quotes) or of a number to text (room), and cut it if it is too long. */
static void copy_text(const char *value, char *text, size_t room) {
    const size_t quote = *value == '"', length = (size_t)(after_value(value) - value) - 2 * quote;
    snprintf(text, room, "%.*s", (int)(length < room ? length : room - 1), value + quote);
}

/* Find the next name and value of an object, from *at on, and move *at behind them. Returns 1, or 0 at the end of the object. */
static int next_member(const char **at, char *name, size_t room, const char **value) {
    const char *p = after_space(**at == '{' ? *at + 1 : *at);
    if (*p != '"') return 0;
    copy_text(p, name, room);
    *value = after_space(after_value(p));
    *at = after_value(*value);
    return 1;
}

static const char *member(const char *object, const char *wanted) {
    char name[64];
    const char *value;
    while (next_member(&object, name, sizeof name, &value))
        if (!strcmp(name, wanted)) return value;
    return NULL;
}

/* Read up to `room` whole numbers of a list. Returns their number. */
static size_t numbers(const char *list, int64_t *found, size_t room) {
    size_t count = 0;
    for (const char *p = after_space(list + 1); *p && *p != ']' && count < room; p = after_space(after_value(p)))
        found[count++] = strtol(p, NULL, 10);
    return count;
}

typedef struct {
    void *values; /* float32, or int32 with is_ready */
    int64_t rows, columns;
    int is_ready;
} array;

static void check(kf_status status, const char *what) {
    if (status == KF_OK) return;
    fprintf(stderr, "conform: %s: %s\n", what, kf_strerror(status));
    exit(FAILED);
}

/* Compute the result of a vector with the options `json`. The caller must free its values. Returns 0, or UNSUPPORTED without a result. */
static int compute(const char *json, const int16_t *samples, int64_t count, array *result) {
    static const char *const programs[] = {"compute-fbank-feats", "compute-mfcc-feats", "compute-plp-feats",
                                           "compute-spectrogram-feats"};
    static int64_t chunks[1 << 16];
    char name[64], text[64];
    const char *value = member(json, "program"), *at = json;
    int32_t feature = 0;
    size_t num_chunks = 0, size;
    kf_options options;
    options.struct_size = sizeof options;
    if (!value) return UNSUPPORTED;
    copy_text(value, text, sizeof text);
    while (feature < 4 && strcmp(programs[feature], text) != 0) feature++;
    if (feature == 4 || member(json, "audio_frequency")) return UNSUPPORTED;
    check(kf_defaults(&options, feature), text);
    result->is_ready = 0;
    while (next_member(&at, name, sizeof name, &value)) {
        copy_text(value, text, sizeof text);
        if (!strcmp(name, "chunks"))
            num_chunks = numbers(value, chunks, sizeof chunks / sizeof *chunks);
        else if (!strcmp(name, "output"))
            result->is_ready = !strcmp(text, "frames-ready");
        else if (strcmp(name, "program") != 0 && !strstr(name, "downsample") && !strstr(name, "upsample"))
            check(kf_set(&options, name, text), name);
    }
    check(kf_size(&options, &size), "kf_size");
    void *memory = must(malloc(size));
    kf *frontend;
    check(kf_init(memory, size, &options, &frontend), "kf_init");
    const int64_t room = kf_rows(frontend, count);
    result->columns = kf_dim(frontend), result->rows = 0;
    float *out = (float *)must(malloc((size_t)(room * result->columns) * sizeof *out + 1));
    int32_t *ready = (int32_t *)must(malloc((num_chunks + 1) * sizeof *ready));
    if (!num_chunks) check(kf_compute_int16(frontend, samples, count, out, room, &result->rows), "kf_compute_int16");
    for (size_t i = 0; i < num_chunks; samples += chunks[i++]) {
        int64_t rows, last = 0;
        float *place = out + result->rows * result->columns;
        check(kf_accept_int16(frontend, samples, chunks[i], place, room - result->rows, &rows), "kf_accept_int16");
        place += rows * result->columns;
        if (i + 1 == num_chunks) check(kf_finish(frontend, place, room - result->rows - rows, &last), "kf_finish");
        result->rows += rows + last;
        ready[i] = (int32_t)result->rows;
    }
    free(memory);
    result->values = result->is_ready ? (void *)ready : (void *)out;
    free(result->is_ready ? (void *)out : (void *)ready);
    if (result->is_ready) result->rows = (int64_t)num_chunks, result->columns = 1;
    return 0;
}

/* The samples of a wave file with 16-bit PCM and one channel, within its bytes, or NULL if it has none. */
static const int16_t *samples_of(const char *wave, size_t size, int64_t *count) {
    for (size_t at = 12; at + 8 <= size;) {
        uint32_t length;
        memcpy(&length, wave + at + 4, sizeof length);
        if (!memcmp(wave + at, "data", 4)) {
            *count = (int64_t)((length < size - at - 8 ? length : size - at - 8) / 2);
            return (const int16_t *)(const void *)(wave + at + 8);
        }
        at += 8 + (size_t)length + length % 2;
    }
    return NULL;
}

static int write_npy(const char *path, const array *result) {
    char shape[64], header[129];
    snprintf(shape, sizeof shape, result->is_ready ? "(%lld,)" : "(%lld, %lld)", (long long)result->rows, (long long)result->columns);
    const int length = snprintf(header, 128, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
                                result->is_ready ? "<i4" : "<f4", shape);
    memset(header + length, ' ', (size_t)(118 - length));
    header[117] = '\n';
    FILE *file = fopen(path, "wb");
    if (!file) return FAILED;
    fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, file);
    fwrite(header, 1, 118, file);
    fwrite(result->values, 4, (size_t)(result->rows * result->columns), file);
    return fclose(file) ? FAILED : 0;
}

/* Compute all vectors of a level, print a line of counts, and return the number of vectors that differ. */
static int grade_level(const char *kit, int level) {
    char name[64];
    size_t size;
    int count = 0, equal = 0, unsupported = 0;
    snprintf(name, sizeof name, "level-%d.json", level);
    char *json = read_file(kit, name, &size);
    for (const char *v = after_space(member(json, "vectors") + 1); *v == '{'; v = after_space(after_value(v)), count++) {
        const char *input = member(v, "input"), *expected = member(v, "expected");
        array result;
        int64_t samples, shape[2] = {1, 1};
        copy_text(member(input, "file"), name, sizeof name);
        if (!strstr(name, ".wav")) {
            unsupported++;
            continue;
        }
        char *wave = read_file(kit, name, &size);
        const int16_t *audio = samples_of(wave, size, &samples);
        if (!audio || compute(member(v, "options"), audio, samples, &result)) {
            unsupported++;
        } else {
            copy_text(member(expected, "file"), name, sizeof name);
            char *bytes = read_file(kit, name, &size);
            const size_t start = 10u + (unsigned char)bytes[8] + 256u * (unsigned char)bytes[9];
            numbers(member(expected, "shape"), shape, 2);
            const char *values = bytes + start + 4 * strtol(member(expected, "offset"), NULL, 10);
            const size_t wanted = (size_t)(shape[0] * shape[1]), got = (size_t)(result.rows * result.columns);
            const int is_equal = wanted == got && !memcmp(values, result.values, 4 * got);
            equal += is_equal;
            if (!is_equal) {
                copy_text(member(v, "id"), name, sizeof name);
                printf("differs: %s\n", name);
            }
            free(bytes);
            free(result.values);
        }
        free(wave);
    }
    free(json);
    printf("level %d: %4d vectors, %4d equal in all bits, %d different, %4d not supported\n", level, count, equal,
           count - equal - unsupported, unsupported);
    return count - equal - unsupported;
}

int main(int argc, char **argv) {
    int different = 0;
    if (argc == 2) {
        for (int level = 1; level <= 8; level++) different += grade_level(argv[1], level);
        return different ? FAILED : 0;
    }
    if (argc != 4) {
        fprintf(stderr, "usage: conform KIT, or conform AUDIO OPTIONS.json OUT.npy\n");
        return 2;
    }
    size_t size, wave_size;
    int64_t count;
    array result;
    char *json = read_file("", argv[2], &size), *wave = read_file("", argv[1], &wave_size);
    const int16_t *audio = wave_size > 12 && !memcmp(wave, "RIFF", 4) ? samples_of(wave, wave_size, &count) : NULL;
    int status = audio ? compute(json, audio, count, &result) : UNSUPPORTED;
    if (!status) {
        status = write_npy(argv[3], &result);
        free(result.values);
    }
    free(wave);
    free(json);
    return status;
}
