/* Print features while samples arrive: raw 16-bit samples on standard input, in chunks of 0.1 s at 16 kHz.

       cc -O3 -I.. online.c -o online && arecord -t raw -f S16_LE -r 16000 | ./online zipformer [OPTION=VALUE]... */
#define KALDI_FEATURES_IMPLEMENTATION
#include "kaldi_features.h"
#include <stdio.h>

enum { CHUNK = 1600, ROOM = 1 << 18 };

static char memory[1 << 22]; /* The front end allocates nothing else. */
static float features[ROOM];

static int failed(const char *word, kf_status status) {
    if (status != KF_OK) fprintf(stderr, "online: %s%s%s\n", word, *word ? ": " : "", kf_strerror(status));
    return status != KF_OK;
}

static void print(int64_t rows, int32_t dim) {
    for (int64_t i = 0; i < rows * dim; i++) printf("%.9g%c", (double)features[i], (i + 1) % dim ? ' ' : '\n');
    fflush(stdout);
}

int main(int argc, char **argv) {
    int16_t chunk[CHUNK];
    kf_options options;
    kf *fbank;
    int64_t rows;
    size_t count;
    options.struct_size = sizeof options;
    const char *preset = argc > 1 ? argv[1] : "zipformer";
    if (failed(preset, kf_from_preset(preset, &options))) return 1;
    options.statistics = NULL; /* Omit the normalization with the model's statistics. */
    for (int i = 2; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (!value) {
            fprintf(stderr, "online: %s: write OPTION=VALUE\n", argv[i]);
            return 1;
        }
        *value++ = 0;
        if (failed(argv[i], kf_set(&options, argv[i], value))) return 1;
    }
    if (failed("", kf_init(memory, sizeof memory, &options, &fbank))) return 1;
    const int32_t dim = kf_dim(fbank);
    for (int is_first = 1; (count = fread(chunk, sizeof *chunk, CHUNK, stdin)) > 0; is_first = 0) {
        if (is_first && count >= 2 && !memcmp(chunk, "RIFF", 4)) {
            fprintf(stderr, "online: expected raw samples, not a wave file: convert it, as by `sox in.wav -t raw - | online`\n");
            return 1;
        }
        if (failed("", kf_accept_int16(fbank, chunk, (int64_t)count, features, ROOM / dim, &rows))) return 1;
        print(rows, dim);
    }
    if (failed("", kf_finish(fbank, features, ROOM / dim, &rows))) return 1;
    print(rows, dim);
    return 0;
}
