/* Print the features of a wave file: wav_to_fbank PRESET FILE.wav [OPTION=VALUE]... (16-bit PCM, one channel, the preset's rate).

       cc -O3 -I.. wav_to_fbank.c -o wav_to_fbank && ./wav_to_fbank zipformer speech.wav num_mel_bins=40 */
#define KALDI_FEATURES_IMPLEMENTATION
#include "kaldi_features.h"
#include <stdio.h>
#include <stdlib.h>

static void fail(const char *path, const char *reason) {
    fprintf(stderr, "wav_to_fbank: %s%s%s\n", path, *path ? ": " : "", reason);
    exit(1);
}
static void check(kf_status status) {
    if (status != KF_OK) fail("", kf_strerror(status));
}
static void *allocate(void *memory, size_t size) {
    memory = realloc(memory, size ? size : 1);
    if (!memory) fail("", "out of memory: compute long audio in chunks, as online.c does");
    return memory;
}
static uint32_t number(const unsigned char *p, int bytes) {
    uint32_t value = 0;
    while (bytes--) value = value << 8 | p[bytes];
    return value;
}

/* Return the bytes of a file, or end the program if it cannot be read. */
static unsigned char *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    unsigned char *bytes = NULL;
    size_t room = 0, count = 1;
    if (!file) fail(path, "cannot open the file");
    for (*size = 0; count; *size += count) {
        if (*size == room) bytes = (unsigned char *)allocate(bytes, room = 2 * room + 65536);
        count = fread(bytes + *size, 1, room - *size, file);
    }
    if (ferror(file)) fail(path, "cannot read the file");
    fclose(file);
    return bytes;
}

/* Return the samples of a wave file, or end the program if it is not 16-bit PCM with one channel and this sampling rate. */
static int16_t *read_wave(const char *path, float sample_frequency, int64_t *count) {
    size_t size, at = 12;
    unsigned char *bytes = read_file(path, &size), *format = NULL;
    char reason[160];
    if (size < 12 || memcmp(bytes, "RIFF", 4) != 0 || memcmp(bytes + 8, "WAVE", 4) != 0) fail(path, "not a wave file");
    while (at + 8 <= size && memcmp(bytes + at, "data", 4) != 0) {
        const size_t chunk = number(bytes + at + 4, 4);
        if (chunk > size - at - 8) fail(path, "the file ends within a chunk");
        if (!memcmp(bytes + at, "fmt ", 4) && chunk >= 16) format = bytes + at + 8;
        at += 8 + chunk + chunk % 2; /* Chunks start at even offsets. */
    }
    if (!format || at + 8 > size) fail(path, "the file has no format or no samples");
    uint32_t tag = number(format, 2), length = number(bytes + at + 4, 4);
    if (tag == 0xfffe && number(format - 4, 4) >= 26) tag = number(format + 24, 2); /* This tag means that the format follows. */
    if (tag != 1 || number(format + 14, 2) != 16) fail(path, "not 16-bit PCM: convert it, as by `sox in.wav -b 16 -e signed out.wav`");
    if (number(format + 2, 2) != 1) fail(path, "more than one channel: take one, as by `sox in.wav out.wav remix 1`");
    if ((float)number(format + 4, 4) != sample_frequency) {
        snprintf(reason, sizeof reason, "%u Hz, but the features are those of %g Hz: resample it, as by `sox in.wav -r %g out.wav`",
                 (unsigned)number(format + 4, 4), (double)sample_frequency, (double)sample_frequency);
        fail(path, reason);
    }
    const size_t left = size - at - 8;
    if (length == 0 || length >= 0x7fffff00u) length = left < UINT32_MAX ? (uint32_t)left : UINT32_MAX; /* A pipe leaves the length unknown. */
    if (length > left) fail(path, "the file ends before its samples");
    *count = length / 2;
    int16_t *samples = (int16_t *)allocate(NULL, (size_t)*count * sizeof *samples);
    for (int64_t i = 0; i < *count; i++) samples[i] = (int16_t)number(bytes + at + 8 + 2 * i, 2);
    free(bytes);
    return samples;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: wav_to_fbank PRESET FILE.wav [OPTION=VALUE]...\n");
        return 2;
    }
    kf_options options;
    options.struct_size = sizeof options;
    const kf_status status = kf_from_preset(argv[1], &options);
    if (status != KF_OK) fail(argv[1], kf_strerror(status));
    options.statistics = NULL; /* Omit the normalization with the model's statistics. */
    for (char **option = argv + 3; *option; option++) {
        char *value = strchr(*option, '=');
        if (!value) fail(*option, "write OPTION=VALUE");
        *value++ = 0;
        const kf_status result = kf_set(&options, *option, value);
        if (result != KF_OK) fail(*option, kf_strerror(result));
    }
    int64_t count, rows;
    int16_t *samples = read_wave(argv[2], options.sample_frequency, &count);
    size_t size;
    check(kf_size(&options, &size));
    void *memory = allocate(NULL, size);
    kf *frontend;
    check(kf_init(memory, size, &options, &frontend));
    const int64_t room = kf_rows(frontend, count), dim = kf_dim(frontend);
    float *features = (float *)allocate(NULL, (size_t)(room * dim) * sizeof *features);
    check(kf_compute_int16(frontend, samples, count, features, room, &rows));

    for (int64_t i = 0; i < rows * dim; i++) printf("%.9g%c", (double)features[i], (i + 1) % dim ? ' ' : '\n');
    free(samples);
    free(features);
    free(memory);
    return 0;
}
