/* Print features while samples arrive: raw 16-bit samples at 16 kHz on standard input, in chunks of 0.1 s.

       cc -O3 -I.. online.c -o online && arecord -t raw -f S16_LE -r 16000 | ./online */
#define KALDI_FEATURES_IMPLEMENTATION
#include "kaldi_features.h"
#include <stdio.h>

enum { CHUNK = 1600, ROOM = 16 };

static char memory[1 << 18]; /* nothing else is allocated */

static int failed(kf_status status) {
    if (status != KF_OK) fprintf(stderr, "online: %s\n", kf_strerror(status));
    return status != KF_OK;
}

static void print(const float *features, int64_t rows, int32_t dim) {
    for (int64_t i = 0; i < rows * dim; i++) printf("%.9g%c", (double)features[i], (i + 1) % dim ? ' ' : '\n');
    fflush(stdout);
}

int main(void) {
    static float features[ROOM * 80];
    int16_t chunk[CHUNK];
    kf_options options;
    kf *fbank;
    int64_t rows;
    size_t count;
    options.struct_size = sizeof options;
    if (failed(kf_defaults(&options, KF_FBANK)) || failed(kf_set(&options, "num-mel-bins", "80"))) return 1;
    options.dither = 0;
    if (failed(kf_init(memory, sizeof memory, &options, &fbank))) return 1;
    while ((count = fread(chunk, sizeof *chunk, CHUNK, stdin)) > 0) {
        if (failed(kf_accept_int16(fbank, chunk, (int64_t)count, features, ROOM, &rows))) return 1;
        print(features, rows, kf_dim(fbank));
    }
    if (failed(kf_finish(fbank, features, ROOM, &rows))) return 1;
    print(features, rows, kf_dim(fbank));
    return 0;
}
