/* The pitch tracker with Kaldi's bits: src/feat/pitch-functions.cc. Correlations are computed for one frame per SIMD lane, the
   search goes from frame to frame. */
#include <stdlib.h>

#include "frames.h"
#include "simd.h"

/* Sizes and tables of the tracker: made by kaldi_compat/native/pitch.py, which declares the same structure. */
typedef struct {
    int32_t window, span;       /* samples that are correlated, and that a frame looks at */
    int32_t first_lag, lags;    /* whole lags at which correlations are measured */
    int32_t states;             /* lags that the search chooses from */
    float step;                 /* cost of a step of one state */
    float soft_min_f0;
    const int32_t *first;       /* (states): the first correlation with a weight, and their number */
    const int32_t *columns;
    const int64_t *offset;      /* (states): where the weights start in `weights` */
    const float *weights;
    const float *seconds;       /* (states): the lags */
} pitch_plan;

static vf *aligned(void *memory) { return (vf *)((char *)memory + (sizeof(vf) - (uintptr_t)memory % sizeof(vf))); }

static void *allocate(int64_t vectors) { return malloc((vectors + 1) * sizeof(vf)); }

/* Write the first `count` lanes of x[0], ..., x[dim - 1] as rows. */
static void write_lanes(const vf *x, int dim, int count, float *out)
{
    int i = 0;
    for (; i + LANES <= dim; i += LANES) {
        vf rows[LANES];
        memcpy(rows, x + i, sizeof rows);
        transpose(rows);
        for (int l = 0; l < count; l++)
            memcpy(out + (int64_t)l * dim + i, rows + l, sizeof(vf));
    }
    for (; i < dim; i++)
        for (int l = 0; l < count; l++)
            out[(int64_t)l * dim + i] = ((const float *)(x + i))[l];
}

/* Gather rows of `dim` floats, `stride` floats apart; the lanes past `count` repeat the last row. */
static void gather_rows(const float *rows, int64_t stride, int dim, int count, vf *x)
{
    const void *starts[LANES];
    int types[LANES];
    for (int l = 0; l < LANES; l++) {
        starts[l] = rows + (l < count ? l : count - 1) * stride;
        types[l] = FLOATS;
    }
    gather(starts, types, dim, x);
}

INLINE vf normalized(vf inner, vf norm, vf ballast)
{
    vf root = square_root(norm + ballast);
    vi silent = root == 0.0f;
    return choose(silent, splat(0.0f), inner / choose(silent, splat(1.0f), root));
}

/* Normalized correlations of frames, which start `shift` samples apart and lie within the signal.

   `ballast` (frames) is added to the products of energies for `searched` (frames, lags), and is not for `correlation` (frames,
   lags). `average` (frames) is the mean product of energies. Returns 0, or 1 if there is no memory. */
EXPORT int SIMD_NAME(pitch_correlate)(const pitch_plan *plan, const float *signal, int64_t shift, int64_t frames,
                                      const float *ballast, float *searched, float *correlation, float *average)
{
    int n = plan->window, lags = plan->lags;
    void *memory = allocate(plan->span + 3 * (int64_t)lags);
    if (!memory)
        return 1;
    vf *x = aligned(memory), *with_ballast = x + plan->span, *without = with_ballast + lags, *norms = without + lags;
    for (int64_t frame = 0; frame < frames; frame += LANES) {
        int count = frames - frame < LANES ? (int)(frames - frame) : LANES;
        float of_lanes[LANES] = {0};
        memcpy(of_lanes, ballast + frame, count * sizeof(float));
        gather_rows(signal + frame * shift, shift, plan->span, count, x);
        vf mean = -plain_sum(x, n) / (float)n;
        for (int i = 0; i < plan->span; i++)
            x[i] += mean;
        vf energy = dot_product(x, (const float *)x, 0, n);
        for (int k = 0; k < lags; k++) {
            const vf *later = x + plan->first_lag + k;
            norms[k] = energy * dot_product(later, (const float *)later, 0, n);
            vf inner = dot_product(x, (const float *)later, 0, n);
            with_ballast[k] = normalized(inner, norms[k], load_floats(of_lanes));
            without[k] = normalized(inner, norms[k], splat(0.0f));
        }
        vf sum = plain_sum(norms, lags) / (float)lags;
        for (int l = 0; l < count; l++)
            average[frame + l] = ((const float *)&sum)[l];
        write_lanes(with_ballast, lags, count, searched + frame * lags);
        write_lanes(without, lags, count, correlation + frame * lags);
    }
    free(memory);
    return 0;
}

/* The correlation at a state's lag, for lanes whose frames are in the same groups of rows (see row_product). */
INLINE vf interpolated(const pitch_plan *plan, int state, const vf *correlation, int group)
{
    return row_product(plan->weights + plan->offset[state], plan->columns[state], correlation + plan->first[state], group);
}

/* The local costs of a block of frames: eq. 5 of the paper. `groups` has a number for each lane. */
static void local_costs(const pitch_plan *plan, const vf *correlation, const vi groups, vf scale, vf *local)
{
    int all_in_four = 1;
    for (int l = 0; l < LANES; l++)
        all_in_four &= groups[l] == IN_FOUR;
    for (int i = 0; i < plan->states; i++) {
        vf value = interpolated(plan, i, correlation, IN_FOUR);
        if (!all_in_four) {
            value = choose(groups == IN_PAIR, interpolated(plan, i, correlation, IN_PAIR), value);
            value = choose(groups == SINGLE, interpolated(plan, i, correlation, SINGLE), value);
        }
        value *= scale;
        local[i] = (1.0f - value) + plan->soft_min_f0 * (plan->seconds[i] * value);
    }
}

/* What narrows down the predecessor of each state. */
typedef struct {
    int states;
    const float *step;   /* (states): cost of a step over so many states */
    const float *before; /* (states): costs of the paths to the frame before */
    int32_t *lower, *upper, *best;
    float *cost;         /* (states): cost of the path by way of `best` */
} search_bounds;

INLINE float cost_by_way_of(const search_bounds *s, int i, int j) { return s->step[i < j ? j - i : i - j] + s->before[j]; }

/* Start from the first local minimum that is no earlier than the predecessor of the state before. */
static void first_bounds(search_bounds *s)
{
    int best = 0;
    for (int i = 0; i < s->states; i++) {
        float lowest = cost_by_way_of(s, i, best);
        for (int j = best + 1; j < s->states; j++) {
            float cost = cost_by_way_of(s, i, j);
            if (!(cost < lowest))
                break;
            lowest = cost, best = j;
        }
        s->best[i] = s->lower[i] = best, s->cost[i] = lowest;
        s->upper[i] = s->states - 1;
    }
}

/* Lower the upper bounds; returns whether a predecessor changed. */
static int narrow_from_above(search_bounds *s)
{
    int changed = 0, last = s->states - 1;
    for (int i = s->states - 1; i >= 0; i--) {
        int lower = s->lower[i], upper = last < s->upper[i] ? last : s->upper[i], best = s->best[i];
        if (upper == lower || best == upper) {
            last = upper == lower ? lower : best;
            continue;
        }
        float lowest = s->cost[i];
        for (int j = upper; j > lower + 1; j--) { /* lower and lower + 1 were looked at before */
            float cost = cost_by_way_of(s, i, j);
            if (cost < lowest)
                lowest = cost, best = j;
            else if (best > j)
                break;
        }
        s->upper[i] = last = best;
        if (best != s->best[i])
            s->cost[i] = lowest, s->best[i] = best, changed = 1;
    }
    return changed;
}

/* Raise the lower bounds; returns whether a predecessor changed. */
static int narrow_from_below(search_bounds *s)
{
    int changed = 0, last = 0;
    for (int i = 0; i < s->states; i++) {
        int lower = last > s->lower[i] ? last : s->lower[i], upper = s->upper[i], best = s->best[i];
        if (upper == lower || best == lower) {
            last = upper == lower ? lower : best;
            continue;
        }
        float lowest = s->cost[i];
        for (int j = lower; j < upper - 1; j++) {
            float cost = cost_by_way_of(s, i, j);
            if (cost < lowest)
                lowest = cost, best = j;
            else if (best < j)
                break;
        }
        s->lower[i] = last = best;
        if (best != s->best[i])
            s->cost[i] = lowest, s->best[i] = best, changed = 1;
    }
    return changed;
}

/* Find the best predecessor of each state, and its cost, as Kaldi narrows bounds on them from both sides. Of candidates whose
   costs are the same in float, the order of the comparisons decides. */
static void find_predecessors(search_bounds *s)
{
    first_bounds(s);
    for (int round = 0; round < s->states; round++)
        if (!(round % 2 == 0 ? narrow_from_above(s) : narrow_from_below(s)))
            break;
}

/* Add the local costs, subtract the lowest cost, and return the state that has it. */
static int finish_costs(float *costs, const float *local, int states)
{
    float lowest = INFINITY;
    int best = 0;
    for (int i = 0; i < states; i++)
        costs[i] += local[i];
    for (int i = 0; i < states; i++)
        if (costs[i] < lowest)
            lowest = costs[i], best = i;
    for (int i = 0; i < states; i++)
        costs[i] -= lowest;
    return best;
}

/* Search the cheapest paths of frames, whose correlations with ballast (frames, lags) are scaled by `scale` (frames).

   `groups` (frames): see row_product(). `costs` (states): of the paths before the first frame; afterwards, at the last one.
   `predecessors` (frames, states): the state before on the cheapest path to each state. `best` (frames): the state that the
   cheapest path of all leads to. Returns 0, or 1 if there is no memory. */
EXPORT int SIMD_NAME(pitch_search)(const pitch_plan *plan, const float *searched, const float *scale, const uint8_t *groups,
                                   int64_t frames, float *costs, int16_t *predecessors, int16_t *best)
{
    int states = plan->states, lags = plan->lags;
    void *memory = allocate(lags + states + states + 6 * (states / LANES + 1));
    if (!memory)
        return 1;
    vf *x = aligned(memory), *local = x + lags, *rest = local + states;
    float *rows = (float *)rest;
    float *step = rows + (int64_t)LANES * states, *before = step + states;
    int32_t *numbers = (int32_t *)(before + states);
    search_bounds s = {states, step, before, numbers, numbers + states, numbers + 2 * states, costs};
    for (int i = 0; i < states; i++)
        step[i] = (float)(i * i) * plan->step;
    for (int64_t frame = 0; frame < frames; frame += LANES) {
        int count = frames - frame < LANES ? (int)(frames - frame) : LANES;
        float scales[LANES] = {0};
        vi group = {0};
        for (int l = 0; l < count; l++)
            scales[l] = scale[frame + l], group[l] = groups[frame + l];
        gather_rows(searched + frame * lags, lags, lags, count, x);
        local_costs(plan, x, group, load_floats(scales), local);
        write_lanes(local, states, count, rows);
        for (int l = 0; l < count; l++) {
            memcpy(before, costs, states * sizeof(float));
            find_predecessors(&s);
            int16_t *row = predecessors + (frame + l) * states;
            for (int i = 0; i < states; i++)
                row[i] = (int16_t)s.best[i];
            best[frame + l] = (int16_t)finish_costs(costs, rows + (int64_t)l * states, states);
        }
    }
    free(memory);
    return 0;
}

/* Interpolate each frame's correlation (frames, lags) to the lag of a state. */
EXPORT int SIMD_NAME(pitch_interpolate)(const pitch_plan *plan, const float *correlation, const uint8_t *groups,
                                        const int16_t *path, int64_t frames, float *out)
{
    int longest = 0;
    for (int i = 0; i < plan->states; i++)
        longest = plan->columns[i] > longest ? plan->columns[i] : longest;
    void *memory = allocate(longest);
    if (!memory)
        return 1;
    vf *x = aligned(memory);
    for (int64_t frame = 0; frame < frames; frame++, correlation += plan->lags) {
        int state = path[frame], columns = plan->columns[state];
        for (int k = 0; k < columns; k++)
            x[k] = splat(correlation[plan->first[state] + k]);
        vf value = row_product(plan->weights + plan->offset[state], columns, x, groups[frame]);
        out[frame] = ((const float *)&value)[0];
    }
    free(memory);
    return 0;
}
