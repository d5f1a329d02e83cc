/* Fuzz target of kaldi_features.h: any options, audio and chunks give a status or features, and a stream gives the same rows as
   kf_compute() for the whole utterance.

       clang -g -O1 -fsanitize=fuzzer,address,undefined -DKF_LIBFUZZER fuzz.c -o fuzz && ./fuzz
       cc -g -O1 -fsanitize=address,undefined,float-cast-overflow fuzz.c -o fuzz && ./fuzz COUNT SEED */
#define KALDI_FEATURES_IMPLEMENTATION
#include "kaldi_features.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_SAMPLES = 3000, MAX_BYTES = 1 << 22, MAX_VALUES = 1 << 20 };

typedef struct {
    const uint8_t *data;
    size_t left;
} bytes;

static uint32_t take(bytes *in, uint32_t below) {
    uint32_t value = 0;
    for (int i = 0; i < 4 && in->left; i++, in->left--) value = value << 8 | *in->data++;
    return below ? value % below : value;
}

static void must(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "fuzz: %s\n", what);
        abort();
    }
}

/* Change options to common, extreme and arbitrary values. */
static void change(kf_options *options, bytes *in) {
    static const char *const values[] = {"0",  "1",   "2",  "3",    "0.5",  "-1",   "7",  "8",     "10",  "20",   "25", "40",
                                         "80", "100", "23", "1000", "8000", "-400", "1e-3", "0.97", "1e9", "-1e30", "13", "5", "4", "6"};
    static const float floats[] = {0.0f, -0.0f, 1e-30f, 1e30f, -1.0f, 3e38f, 1e-45f, 0.1f, 10.5f, 26.0f, 44100.0f, 1e9f};
    const uint32_t count = take(in, 12);
    for (uint32_t i = 0; i < count; i++) {
        const kf__field *field = kf__fields + take(in, (uint32_t)KF__NUM_FIELDS);
        const uint32_t way = take(in, 8);
        if (way < 5) {
            (void)kf_set(options, field->name, values[take(in, sizeof values / sizeof *values)]);
        } else if (field->type == 'f') {
            float x = way == 5 ? floats[take(in, sizeof floats / sizeof *floats)] : kf__float(take(in, 0));
            memcpy((char *)options + field->offset, &x, sizeof x);
        } else if (field->type != 'd') {
            const int32_t x = way == 5 ? (int32_t)take(in, 40) - 2 : (int32_t)take(in, 0);
            memcpy((char *)options + field->offset, &x, sizeof x);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const windows[] = {"povey", "hamming", "hanning", "rectangular", "sine", "blackman"};
    static float numbers[999 * 256], samples[MAX_SAMPLES];
    static int16_t shorts[MAX_SAMPLES];
    bytes in = {data, size};
    kf_options options;
    size_t needed;
    kf *frontend = NULL;
    options.struct_size = sizeof options;
    if (take(&in, 3)) {
        must(kf_defaults(&options, (int32_t)take(&in, 4)) == KF_OK, "kf_defaults");
        options.dither = take(&in, 2) ? 0.0f : options.dither;
        (void)kf_set(&options, "window-type", windows[take(&in, 6)]);
    } else {
        must(kf_from_preset(kf_preset_name((int)take(&in, 38)), &options) == KF_OK, "kf_from_preset");
    }
    change(&options, &in);
    if (options.num_statistics > 0 && options.num_statistics <= (int)(sizeof numbers / sizeof *numbers))
        options.shift = options.scale = numbers;
    else
        options.num_statistics = 0;
    if (take(&in, 4)) options.statistics = NULL;
    const kf_status checked = kf_size(&options, &needed);
    must(*kf_strerror(checked) && checked < KF_NUM_STATUSES, "status");
    if (checked != KF_OK || needed > MAX_BYTES) return 0;
    const size_t shift = take(&in, 64), less = take(&in, 16) ? 0 : 1 + take(&in, (uint32_t)needed);
    char *memory = (char *)malloc(needed + shift - less + 1);
    must(memory != NULL, "memory");
    const kf_status made = kf_init(memory + shift, needed - less, &options, &frontend);
    must(less ? made == KF_ERROR_MEMORY : (made == KF_OK) == (frontend != NULL), "kf_init");
    if (made == KF_OK) {
        const int64_t count = take(&in, MAX_SAMPLES);
        const uint32_t kind = take(&in, 8);
        uint32_t state = take(&in, 0);
        for (int64_t i = 0; i < count; i++) {
            state = state * 1664525u + 1013904223u;
            shorts[i] = kind ? (int16_t)(state >> 16) : 0;
            samples[i] = kind == 1 ? kf__float(state) : kind == 2 ? 1e30f * (float)shorts[i] : (float)shorts[i];
        }
        const int64_t room = kf_rows(frontend, count), dim = kf_dim(frontend);
        int64_t rows = 0, streamed = 0, part;
        must(room >= 0 && dim > 0, "kf_rows");
        if (room * dim <= MAX_VALUES) {
            float *out = (float *)malloc((size_t)(room * dim) * sizeof *out + 1);
            float *chunks = (float *)malloc((size_t)(room * dim) * sizeof *out + 1);
            must(out && chunks, "memory");
            if (room) must(kf_compute(frontend, samples, count, out, room - 1, &rows) != KF_OK, "a buffer too small");
            kf_seed(frontend, 1);
            const kf_status status = kind & 1 ? kf_compute(frontend, samples, count, out, room, &rows)
                                              : kf_compute_int16(frontend, shorts, count, out, room, &rows);
            must(rows <= room, "rows");
            kf_seed(frontend, 1);
            if (status == KF_OK && (kind & 1 || take(&in, 2)) && !frontend->whole && !options.shorten_frame) {
                for (int64_t done = 0; done < count;) {
                    int64_t chunk = take(&in, 4) ? take(&in, 300) : take(&in, MAX_SAMPLES);
                    chunk = chunk < count - done && in.left ? chunk : count - done;
                    must((kind & 1 ? kf_accept(frontend, samples + done, chunk, chunks + streamed * dim, room - streamed, &part)
                                   : kf_accept_int16(frontend, shorts + done, chunk, chunks + streamed * dim, room - streamed,
                                                     &part)) == KF_OK, "kf_accept");
                    done += chunk, streamed += part;
                }
                must(kf_finish(frontend, chunks + streamed * dim, room - streamed, &part) == KF_OK, "kf_finish");
                must(streamed + part == rows && !memcmp(out, chunks, (size_t)(rows * dim) * sizeof *out), "stream");
            }
            free(out);
            free(chunks);
        }
    }
    free(memory);
    return 0;
}

#ifndef KF_LIBFUZZER
/* Call functions with NaN, infinity and other numbers that hardly any options lead to. */
static void call_functions(void) {
    static const uint32_t odd[] = {0x7fc00000u, 0xffc00000u, 0x7f800000u, 0xff800000u, 0u,          0x80000000u,
                                   1u,          0x80000001u, 0x7f7fffffu, 0xff7fffffu, 0x3f800000u, 0xc2d00000u};
    enum { COUNT = sizeof odd / sizeof *odd };
    for (int i = 0; i < COUNT * COUNT; i++) {
        const float x = kf__float(odd[i / COUNT]);
        must((kf__exp(x) != kf__exp(x)) == (x != x), "kf__exp");
        (void)kf__power((double)x, (double)kf__float(odd[i % COUNT]));
    }
}

int main(int argc, char **argv) {
    static uint8_t data[256];
    const long count = argc > 1 ? strtol(argv[1], NULL, 10) : 1000;
    uint64_t state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    call_functions();
    for (long run = 0; run < count; run++) {
        for (size_t i = 0; i < sizeof data; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            data[i] = (uint8_t)(state >> 56);
        }
        LLVMFuzzerTestOneInput(data, sizeof data);
    }
    printf("%ld runs\n", count);
    return 0;
}
#endif
