/* From samples to windowed frames: Kaldi's src/feat/feature-window.cc. */
#ifndef FRAMES_H
#define FRAMES_H

#include "sums.h"

enum { SHORTS, FLOATS };

/* Reflect an index at both ends of the audio as often as needed: -1 becomes 0, and `length` becomes `length - 1`. */
static inline int64_t reflected(int64_t index, int64_t length)
{
    index %= 2 * length;
    if (index < 0) index += 2 * length;
    return index < length ? index : 2 * length - 1 - index;
}

/* Copy a frame that reaches past the ends of the audio to `frame`. */
static inline void copy_reflected(const void *audio, int type, int64_t length, int64_t first, int size, float *frame)
{
    for (int i = 0; i < size; i++) {
        int64_t index = reflected(first + i, length);
        frame[i] = type == SHORTS ? ((const int16_t *)audio)[index] : ((const float *)audio)[index];
    }
}

/* Gather the frames of all lanes: x[i] receives sample i of all frames. */
static void gather(const void *const starts[LANES], const int types[LANES], int size, vf *x)
{
    int i = 0;
    for (; i + LANES <= size; i += LANES) {
        vf rows[LANES];
        for (int l = 0; l < LANES; l++)
            rows[l] = types[l] == SHORTS ? load_shorts((const int16_t *)starts[l] + i)
                                         : load_floats((const float *)starts[l] + i);
        transpose(rows);
        for (int l = 0; l < LANES; l++)
            x[i + l] = rows[l];
    }
    for (; i < size; i++)
        for (int l = 0; l < LANES; l++)
            ((float *)(x + i))[l] =
                types[l] == SHORTS ? ((const int16_t *)starts[l])[i] : ((const float *)starts[l])[i];
}

static inline void scale_samples(vf *x, int size, float scale)
{
    for (int i = 0; i < size; i++)
        x[i] *= scale;
}

static inline void remove_dc(vf *x, int size)
{
    vf mean = plain_sum(x, size) / (float)size;
    for (int i = 0; i < size; i++)
        x[i] -= mean;
}

/* Apply preemphasis and the window in one pass. */
static inline void weigh(vf *x, int size, float preemphasis, const float *window)
{
    vf before = x[0];
    for (int i = 0; i < size; i++) {
        vf sample = x[i];
        x[i] = (preemphasis != 0.0f ? sample - preemphasis * before : sample) * window[i];
        before = sample;
    }
}

#endif
