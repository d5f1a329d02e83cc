/* Compare the vectors of uniform.h and libm.h with the C library for all that can occur: every draw of rand_r(), and every uniform
   number. */
#include <stdio.h>
#include <stdlib.h>

#include "libm.h"
#include "uniform.h"

static uint32_t bits(float x)
{
    uint32_t word;
    memcpy(&word, &x, sizeof word);
    return word;
}

static int differ(const char *what, float x, float ours, float theirs)
{
    if (bits(ours) == bits(theirs)) return 0;
    printf("%s of %a is %a, not %a\n", what, x, ours, theirs);
    return 1;
}

/* A draw takes no bit of its words above bit 26, so neither does it depend on those of the state; they are varied a little. */
static long check_draws(unsigned char *seen)
{
    long wrong = 0;
    for (uint32_t first = 0; first < 1u << 27; first += LANES) {
        vu states, start;
        for (int l = 0; l < LANES; l++)
            start[l] = (first + l) | (first >> 4) << 27;
        states = start;
        vf uniform = uniform_of(next_draw(&states));
        for (int l = 0; l < LANES; l++) {
            unsigned state = start[l];
            float expected = (float)((rand_r(&state) + 1.0) / (RAND_MAX + 2.0));
            wrong += bits(uniform[l]) != bits(expected) || states[l] != state;
            seen[bits(expected) >> 3] |= 1 << (bits(expected) & 7);
        }
    }
    return wrong;
}

static long check_functions(const unsigned char *seen, long *count)
{
    long wrong = 0;
    for (uint32_t word = 0; word <= 0x3f800000; word++) {
        if (!(seen[word >> 3] >> (word & 7) & 1)) continue;
        float x;
        memcpy(&x, &word, sizeof x);
        float angle = (float)(2 * 0x1.921fb54442d18p1 * x);
        vf angles = angle_of(splat(x));
        wrong += differ("angle", x, angles[0], angle) + differ("cosine", angle, cos_of(angles)[0], cosf(angle)) +
                 differ("sine", angle, sin_of(angles)[0], sinf(angle)) +
                 differ("logarithm", x, log_of_finite(splat(x))[0], logf(x)) +
                 differ("root", x, half_powf(x), powf(x, 0.5f));
        ++*count;
    }
    return wrong;
}

int main(void)
{
    unsigned char *seen = calloc(1, (0x3f800000 >> 3) + 1);
    long count = 0, wrong = check_draws(seen);
    printf("%ld draws are wrong\n", wrong);
    wrong += check_functions(seen, &count);
    printf("%ld uniform numbers\n", count);
    free(seen);
    return wrong || count < 1 << 20;
}
