/* Print the features of a wave file: wav_to_fbank PRESET FILE.wav [OPTION=VALUE]... (16-bit PCM, one channel).

       cc -O3 -I.. wav_to_fbank.c -o wav_to_fbank && ./wav_to_fbank zipformer speech.wav num_mel_bins=40 */
#define KALDI_FEATURES_IMPLEMENTATION
#include "kaldi_features.h"
#include <stdio.h>
#include <stdlib.h>

static void check(kf_status status) {
    if (status == KF_OK) return;
    fprintf(stderr, "wav_to_fbank: %s\n", kf_strerror(status));
    exit(1);
}

int main(int argc, char **argv) {
    FILE *file = argc > 2 ? fopen(argv[2], "rb") : NULL;
    if (!file || fseek(file, 44, SEEK_SET)) { /* after the header of most wave files */
        fprintf(stderr, "usage: wav_to_fbank PRESET FILE.wav [OPTION=VALUE]...\n");
        return 2;
    }
    static int16_t samples[1 << 24];
    const int64_t count = (int64_t)fread(samples, sizeof *samples, sizeof samples / sizeof *samples, file);
    fclose(file);

    kf_options options;
    options.struct_size = sizeof options;
    check(kf_from_preset(argv[1], &options));
    options.statistics = NULL; /* without the model's own normalization, if it has one */
    for (char **each = argv + 3; *each; each++) {
        char *value = strchr(*each, '=');
        if (value) *value++ = 0;
        check(kf_set(&options, *each, value));
    }
    size_t size;
    check(kf_size(&options, &size));
    void *memory = malloc(size);
    kf *frontend;
    check(kf_init(memory, size, &options, &frontend));
    const int64_t room = kf_rows(frontend, count), dim = kf_dim(frontend);
    float *features = (float *)malloc((size_t)(room * dim) * sizeof *features + 1);
    int64_t rows;
    check(kf_compute_int16(frontend, samples, count, features, room, &rows));

    for (int64_t i = 0; i < rows * dim; i++) printf("%.9g%c", (double)features[i], (i + 1) % dim ? ' ' : '\n');
    free(features);
    free(memory);
    return 0;
}
