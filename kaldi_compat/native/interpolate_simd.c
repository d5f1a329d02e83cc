/* The most probable paths through grids of pitches, with the bits of Kaldi's src/featbin/interpolate-pitch.cc: a SIMD lane for each
   pitch of a frame. All log probabilities are halved, which rounds the same way. */
#include <stdlib.h>

#include "libm.h"
#include "simd.h"
#include "uniform.h"

/* Utterances on grids of pitches. kaldi_compat/pitch/interpolate.py makes them. */
typedef struct {
    const int64_t *rows; /* (count + 1): the first frame of each utterance */
    int64_t count;
    const int64_t *states;         /* (count): pitches of each utterance's grid */
    const float *bottom;           /* (rows): the lowest pitch */
    const int64_t *nearest;        /* (rows): index of the pitch nearest to the measured pitch */
    const float *elsewhere, *here; /* (rows): log probability of every pitch, and what the nearest pitch has in addition */
    const uint32_t *seeds;         /* (rows): seed of the noise of each row */
    const uint32_t *multipliers, *increments; /* (6, pairs): from a seed to the words of pairs of draws */
    int64_t pairs, reach;                     /* reach: largest change of the pitch, in pitches of the grid */
    float interval;                           /* distance of neighboring pitches in Hz */
    double noise;                             /* standard deviation of the noise */
} pitch_grids;

/* Halves of the previous frame's pitches and their log probabilities, then log probabilities and noise of the current frame. */
typedef struct {
    float *there, *before, *best, *normal; /* each (states + 2 * reach), and room for LANES more */
    uint8_t *moves;                        /* (frames, states) of the longest utterance */
} grid_memory;

/* One uniform number for each lane: the draws that follow `seed` by the steps in `multipliers` and `increments` (3, pairs). */
INLINE vf wide_uniform(const uint32_t *multipliers, const uint32_t *increments, int64_t pairs, uint32_t seed)
{
    vu words[3];
    for (int k = 0; k < 3; k++) {
        vu factor, term;
        memcpy(&factor, multipliers + k * pairs, sizeof factor);
        memcpy(&term, increments + k * pairs, sizeof term);
        words[k] = seed * factor + term;
    }
    vu high = (words[0] & 0x7ff00000) | (words[1] >> 12 & 0x000ffc00), low = words[2] >> 6 & 0x03ff0000;
    return uniform_of((draw){(vi)high, (vi)low});
}

/* Draw normal noise for the pitches of a frame. Numbers come in pairs, from the cosine and the sine of an angle. */
static void draw_noise(const pitch_grids *g, uint32_t seed, int64_t states, float *normal)
{
    for (int64_t i = 0; 2 * i < states; i += LANES) {
        vf radius = wide_uniform(g->multipliers + i, g->increments + i, g->pairs, seed);
        vf angle =
            angle_of(wide_uniform(g->multipliers + 3 * g->pairs + i, g->increments + 3 * g->pairs + i, g->pairs, seed));
        radius = square_root(-2.0f * log_of_finite(radius));
        vf even = radius * cos_of(angle), odd = radius * sin_of(angle);
        for (int l = 0; l < LANES; l++) {
            normal[2 * (i + l)] = even[l];
            normal[2 * (i + l) + 1] = odd[l];
        }
    }
}

/* Compute the best log probabilities of this frame and their moves from the log probabilities `before` of the previous frame, whose
   pitch p is before[reach + p]. */
static void advance(const pitch_grids *g, const grid_memory *m, int64_t row, int64_t states, uint8_t *moves)
{
    int width = (int)(2 * g->reach + 1);
    float bottom = g->bottom[row], earlier = g->bottom[row - 1];
    for (int64_t j = 0; j < states + 2 * g->reach; j++)
        m->there[j] = 0.5f * (earlier + g->interval * (float)(j - g->reach));
    for (int64_t p = 0; p < states; p += LANES) {
        vf here, best = splat(-INFINITY);
        vi move = (vi){0} + (int)g->reach;
        for (int l = 0; l < LANES; l++)
            here[l] = 0.5f * (bottom + g->interval * (float)(p + l));
        for (int k = 0; k < width; k++) {
            vd2 step = widen(load_floats(m->there + p + k) - here), total = widen(load_floats(m->before + p + k));
            vf reached = narrow((vd2){total.low - step.low * step.low, total.high - step.high * step.high});
            vi higher = reached > best;
            best = choose(higher, reached, best);
            move = (move & ~higher) | (higher & k);
        }
        memcpy(m->best + p, &best, sizeof best);
        for (int l = 0; l < LANES && p + l < states; l++)
            moves[p + l] = (uint8_t)move[l];
    }
}

/* Multiply by the probabilities of the pitches of a frame, and store the result in `before` for the next frame. */
static void observe(const pitch_grids *g, const grid_memory *m, int64_t row, int64_t states)
{
    draw_noise(g, g->seeds[row], states, m->normal);
    for (int64_t p = 0; p < states; p++)
        m->best[p] += g->elsewhere[row];
    m->best[g->nearest[row]] += g->here[row];
    for (int64_t p = 0; p < states; p++)
        m->before[g->reach + p] = (float)(m->best[p] + g->noise * m->normal[p]);
}

/* Find the path of an utterance of `frames` frames, whose first row is `row`. */
static void find_path(const pitch_grids *g, const grid_memory *m, int64_t row, int64_t frames, int64_t states,
                      int64_t *path)
{
    for (int64_t j = 0; j < states + 2 * g->reach + LANES; j++)
        m->before[j] = -INFINITY;
    for (int64_t p = 0; p < states; p++)
        m->best[p] = 0.0f;
    for (int64_t t = 0; t < frames; t++) {
        if (t > 0) advance(g, m, row + t, states, m->moves + t * states);
        observe(g, m, row + t, states);
    }
    int64_t state = 0; /* stays 0 if state 0 is impossible, because Kaldi then compares with NaN */
    for (int64_t p = 1; p < states && m->before[g->reach] > -INFINITY; p++)
        if (m->before[g->reach + p] > m->before[g->reach + state]) state = p;
    for (int64_t t = frames - 1; t >= 0; t--) {
        path[row + t] = state;
        if (t > 0) state += m->moves[t * states + state] - g->reach;
        state = state < 0 ? 0 : state < states ? state : states - 1;
    }
}

/* Find the paths of all utterances. `path` (rows) receives the index of a pitch for each frame. Returns 0, or 1 without memory. */
EXPORT int SIMD_NAME(interpolate_pitch)(const pitch_grids *g, int64_t *path)
{
    int64_t most = 1, moves = 1;
    for (int64_t u = 0; u < g->count; u++) {
        int64_t size = (g->rows[u + 1] - g->rows[u]) * g->states[u];
        most = g->states[u] > most ? g->states[u] : most;
        moves = size > moves ? size : moves;
    }
    int64_t room = most + 2 * g->reach + 2 * LANES;
    float *memory = malloc(5 * room * sizeof *memory);
    grid_memory m = {memory, memory + room, memory + 2 * room, memory + 3 * room, malloc(moves)};
    int status = !memory || !m.moves;
    for (int64_t i = 0; !status && i < 5 * room; i++)
        memory[i] = 0.0f;
    for (int64_t u = 0; !status && u < g->count; u++)
        find_path(g, &m, g->rows[u], g->rows[u + 1] - g->rows[u], g->states[u], path);
    free(memory);
    free(m.moves);
    return status;
}
