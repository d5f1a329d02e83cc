/* The pitch tracker with Kaldi's bits: src/feat/pitch-functions.cc. Correlations are computed for one frame per SIMD lane, the
   search goes from frame to frame. */
#include <stdlib.h>

#include "frames.h"
#include "libm.h"
#include "simd.h"

/* Sizes and tables of the tracker: see PitchConstants in kaldi_compat/pitch/constants.py. */
typedef struct {
    int32_t window, span;    /* samples that are correlated, and samples of a frame with its largest lag */
    int32_t first_lag, lags; /* whole lags at which correlations are measured */
    int32_t states;          /* lags that the search chooses from */
    float step;              /* cost of a step of one state */
    float soft_min_f0;
    const int32_t *first; /* (states): the first correlation with a weight, and their number */
    const int32_t *columns;
    const int64_t *offset; /* (states): where the weights start in `weights` */
    const float *weights;
    const float *seconds; /* (states): the lags */
    const float *pitch;   /* (states): in Hz */
} pitch_plan;

static vf *aligned(void *memory) { return (vf *)((char *)memory + (sizeof(vf) - (uintptr_t)memory % sizeof(vf))); }

static void *allocate(int64_t vectors) { return malloc((vectors + 1) * sizeof(vf)); }

/* Write the first `count` lanes of x (dim) as rows to out (count, dim). */
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

/* inner / sqrt(norm + ballast), or 0 in lanes where the root is 0. */
INLINE vf normalized(vf inner, vf norm, vf ballast)
{
    vf root = square_root(norm + ballast);
    vi silent = root == 0.0f;
    return choose(silent, splat(0.0f), inner / choose(silent, splat(1.0f), root));
}

/* Compute normalized correlations of frames with the ballast and without it (lags). Subtracts the mean from the samples x (span) in place.
   Returns the products of energies, averaged over the lags, which are stored in norms (lags). */
static vf correlate_block(const pitch_plan *plan, vf *x, vf ballast, vf *with_ballast, vf *without, vf *norms)
{
    int n = plan->window, lags = plan->lags;
    vf mean = -plain_sum(x, n) / (float)n;
    for (int i = 0; i < plan->span; i++)
        x[i] += mean;
    vf energy = dot_product(x, (const float *)x, 0, n);
    for (int k = 0; k < lags; k++) {
        const vf *later = x + plan->first_lag + k;
        norms[k] = energy * dot_product(later, (const float *)later, 0, n);
        vf inner = dot_product(x, (const float *)later, 0, n);
        with_ballast[k] = normalized(inner, norms[k], ballast);
        without[k] = normalized(inner, norms[k], splat(0.0f));
    }
    return plain_sum(norms, lags) / (float)lags;
}

/* The correlation at a state's lag, interpolated as row_product() does for rows of `group`. */
INLINE vf interpolated(const pitch_plan *plan, int state, const vf *correlation, int group)
{
    return row_product(plan->weights + plan->offset[state], plan->columns[state], correlation + plan->first[state],
                       group);
}

/* Compute the local costs (states) of a block of frames: equation 5 of "A pitch extraction algorithm tuned for automatic speech
   recognition". `groups` holds the group of each lane's row (see row_product()), and `scale` the factors of the correlations. */
static __attribute__((noinline)) void local_costs(const pitch_plan *plan, const vf *correlation, const vi groups,
                                                  vf scale, vf *local)
{
    vi in_pairs = groups == IN_PAIR, singles = groups == SINGLE;
    int has_singles = bits_of(singles) != 0, all_in_four = !has_singles && !bits_of(in_pairs);
    for (int i = 0; i < plan->states; i++) {
        vf value = interpolated(plan, i, correlation, IN_FOUR);
        if (!all_in_four) {
            value = choose(in_pairs, interpolated(plan, i, correlation, IN_PAIR), value);
            if (has_singles) value = choose(singles, interpolated(plan, i, correlation, SINGLE), value);
        }
        value *= scale;
        local[i] = (1.0f - value) + plan->soft_min_f0 * (plan->seconds[i] * value);
    }
}

/* The search for the predecessors of one frame's states. Arrays have a number for each state, and LANES more where it says so. */
typedef struct {
    int states;
    float step;
    const float *steps; /* steps[n] is the cost of a step over n states, for n from -states to states + LANES - 1 */
    float *before;      /* costs of the paths to the previous frame, and LANES infinities */
    float *after;       /* costs of the paths to this frame, and room for LANES more */
    int16_t *found;     /* the predecessors, and room for LANES more */
    int32_t *lower, *upper, *best; /* bounds on each predecessor, and the best one so far (see find_by_bounds()) */
    float *cost;                   /* costs of the paths through `best` */
} frame_search;

INLINE float cost_by_way_of(const frame_search *s, int i, int j) { return s->steps[j - i] + s->before[j]; }

/* The cheapest predecessor of state i, from `low` to `high`, or -1 if several have the lowest cost. Whole vectors are compared, because
   predecessors above `high` cost more. */
INLINE int cheapest(const frame_search *s, int i, int low, int high)
{
    const float *steps = s->steps - i;
    vf lowest = splat(INFINITY);
    for (int j = low; j <= high; j += LANES)
        lowest = lower_of(lowest, load_floats(steps + j) + load_floats(s->before + j));
    vf target = splat(lowest_lane(lowest));
    int found = -1;
    for (int j = low; j <= high; j += LANES) {
        unsigned bits = bits_of(load_floats(steps + j) + load_floats(s->before + j) == target);
        if (!bits) continue;
        if (found >= 0 || bits & (bits - 1)) return -1;
        found = j + __builtin_ctz(bits);
    }
    return found > high ? -1 : found; /* If no cost is below infinity, an infinity after the states may be the lowest. */
}

/* Find the predecessors of the first states of blocks `first` to `last`, which have LANES states each. The predecessors are from `low` to
   `high`. Returns 1, or 0 if several predecessors of a state have the lowest cost. */
static int find_of_blocks(const frame_search *s, int32_t *of_block, int first, int last, int low, int high)
{
    if (first > last) return 1;
    int middle = (first + last) / 2, j = low == high ? low : cheapest(s, middle * LANES, low, high);
    if (j < 0) return 0;
    of_block[middle] = j;
    return find_of_blocks(s, of_block, first, middle - 1, low, j) &&
           find_of_blocks(s, of_block, middle + 1, last, j, high);
}

/* Find the predecessors, from `low` to `high`, of LANES states from `first` on. Returns 1, or 0 if a state has several cheapest ones. */
static int find_in_block(frame_search *s, int first, int low, int high)
{
    vf lowest = load_floats(s->steps + first - low) + s->before[low];
    vi found = (vi){0} + low, several = {0};
    for (int j = low + 1; j <= high; j++) {
        vf cost = load_floats(s->steps + first - j) + s->before[j];
        vi is_lower = cost < lowest;
        several = (several & ~is_lower) | (cost == lowest);
        found = (found & ~is_lower) | (is_lower & j);
        lowest = lower_of(lowest, cost);
    }
    unsigned states = s->states - first < LANES ? (1u << (s->states - first)) - 1 : ~0u;
    if (bits_of(several) & states) return 0;
    memcpy(s->after + first, &lowest, sizeof lowest);
    for (int l = 0; l < LANES; l++)
        s->found[first + l] = (int16_t)found[l];
    return 1;
}

/* Find the predecessors of all states by halving. Returns 1, or 0 if find_by_bounds() may find other predecessors.

   The difference of the costs of two predecessors j < k changes by 2 * step * (k - j) from one state to the next. If that is more than
   the rounding errors, predecessors never decrease from state to state, even in float, and both searches find the cheapest one, unless
   several have the lowest cost. `highest` is the highest cost of the paths to the previous frame. */
static __attribute__((noinline)) int find_by_halving(frame_search *s, float highest)
{
    int last = s->states - 1, blocks = last / LANES + 1;
    if (s->states > 4096 || !(2.0f * s->step > 0x1p-22f * (highest + s->steps[s->states]))) return 0;
    int32_t *of_block = s->best;
    int low = cheapest(s, 0, 0, last), high = cheapest(s, last, 0, last);
    if (low < 0 || high < 0 || !find_of_blocks(s, of_block, 1, blocks - 1, low, high)) return 0;
    of_block[0] = low;
    for (int block = 0; block < blocks; block++)
        if (!find_in_block(s, block * LANES, of_block[block], block + 1 < blocks ? of_block[block + 1] : high))
            return 0;
    return 1;
}

/* Start the bounds: the best predecessor of each state is the first local minimum at or after the minimum of the previous state. */
static void first_bounds(frame_search *s)
{
    int best = 0;
    for (int i = 0; i < s->states; i++) {
        float lowest = cost_by_way_of(s, i, best);
        for (int j = best + 1; j < s->states; j++) {
            float cost = cost_by_way_of(s, i, j);
            if (!(cost < lowest)) break;
            lowest = cost, best = j;
        }
        s->best[i] = s->lower[i] = best, s->cost[i] = lowest;
        s->upper[i] = s->states - 1;
    }
}

/* Lower the upper bounds. Return 1 if a predecessor changed, otherwise 0. */
static int narrow_from_above(frame_search *s)
{
    int changed = 0, last = s->states - 1;
    for (int i = s->states - 1; i >= 0; i--) {
        int lower = s->lower[i], upper = last < s->upper[i] ? last : s->upper[i], best = s->best[i];
        if (upper == lower || best == upper) {
            last = upper == lower ? lower : best;
            continue;
        }
        float lowest = s->cost[i];
        for (int j = upper; j > lower + 1; j--) { /* costs at lower and lower + 1 were compared earlier */
            float cost = cost_by_way_of(s, i, j);
            if (cost < lowest)
                lowest = cost, best = j;
            else if (best > j)
                break;
        }
        s->upper[i] = last = best;
        if (best != s->best[i]) s->cost[i] = lowest, s->best[i] = best, changed = 1;
    }
    return changed;
}

/* Raise the lower bounds. Return 1 if a predecessor changed, otherwise 0. */
static int narrow_from_below(frame_search *s)
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
        if (best != s->best[i]) s->cost[i] = lowest, s->best[i] = best, changed = 1;
    }
    return changed;
}

/* Find the predecessor of each state as Kaldi does, by narrowing bounds from both sides. The order of the comparisons decides between
   predecessors of equal cost. */
static __attribute__((noinline)) void find_by_bounds(frame_search *s)
{
    first_bounds(s);
    for (int round = 0; round < s->states; round++)
        if (!(round % 2 == 0 ? narrow_from_above(s) : narrow_from_below(s))) break;
    for (int i = 0; i < s->states; i++)
        s->found[i] = (int16_t)s->best[i], s->after[i] = s->cost[i];
}

/* Store the costs of this frame's paths, plus local costs, minus the lowest cost, in `before`. Return the state that has the lowest cost.
   `highest` receives the highest cost. */
static int finish_costs(frame_search *s, const float *local, float *highest)
{
    vf lowest = splat(INFINITY), negative = splat(INFINITY);
    for (int i = 0; i < LANES; i++)
        s->after[s->states + i] = INFINITY;
    for (int i = 0; i < s->states; i += LANES) {
        vf cost = load_floats(s->after + i) + load_floats(local + i);
        memcpy(s->after + i, &cost, sizeof cost);
        lowest = lower_of(lowest, cost);
    }
    float least = lowest_lane(lowest);
    int best = -1;
    for (int i = 0; i < s->states; i += LANES) {
        vf cost = load_floats(s->after + i);
        unsigned bits = best < 0 ? bits_of(cost == least) : 0;
        if (bits) best = i + __builtin_ctz(bits);
        cost -= least;
        memcpy(s->before + i, &cost, sizeof cost);
        negative = lower_of(negative, choose(cost < INFINITY, -cost, cost));
    }
    for (int i = 0; i < LANES; i++)
        s->before[s->states + i] = INFINITY;
    *highest = -lowest_lane(negative);
    return best < 0 || best >= s->states ? 0 : best; /* If all costs are NaN, an infinity after the states is the lowest. */
}

/* Start paths with the given costs (states), or with zeros if `costs` is NULL. Return the highest cost. */
static float start_search(frame_search *s, const float *costs)
{
    float highest = 0.0f;
    for (int i = 0; i < s->states; i++) {
        s->before[i] = costs ? costs[i] : 0.0f;
        highest = s->before[i] > highest ? s->before[i] : highest;
    }
    for (int i = 0; i < LANES; i++)
        s->before[s->states + i] = INFINITY;
    return highest;
}

/* Resampled audio of utterances and what the search of their pitch needs: see PitchFrames in kaldi_compat/pitch/frames.py.

   Frame r of utterance u is row rows[u] + r. It starts at sample first + r * shift of the utterance. Samples before the start and past the
   end of an utterance are 0. */
typedef struct {
    const float *signal;
    const int64_t *start, *length; /* (count), in samples */
    const int64_t *rows;           /* (count + 1) */
    int64_t count, first, shift;
    const float *ballast;      /* (rows): added to the products of energies */
    const float *revised_from; /* (rows) or NULL: the ballast from which a frame's correlations are scaled */
    const float *revised_to;   /* (rows): the ballast to which they are scaled; both are equal if they are not scaled */
    const uint8_t *groups;     /* (rows): see row_product() */
} pitch_batch;

/* Memory for the frames of all lanes, and for the search of one frame. */
typedef struct {
    float *edges[LANES];                /* (span) each: copies of frames that reach past the ends, with zeros */
    vf *x;                              /* (span): samples */
    vf *with_ballast, *without, *norms; /* (lags) */
    vf *local;                          /* (states): local costs */
    float *rows;                        /* (LANES, states), and room for LANES more: the local costs, frame by frame */
    frame_search search;
} track_block;

/* Take room for `count` floats, rounded up to whole vectors, from the memory at *memory. */
static float *take_floats(char **memory, int64_t count)
{
    float *start = (float *)*memory;
    *memory += (count + LANES - 1) / LANES * sizeof(vf);
    return start;
}

static void *make_track_block(track_block *b, const pitch_plan *plan)
{
    int64_t states = plan->states, lags = plan->lags, span = plan->span;
    int64_t floats = LANES * (2 * span + 4 * lags + 3 * states) + 16 * (states + 2 * LANES) + LANES * LANES;
    void *allocated = calloc(floats / LANES + 64, sizeof(vf));
    if (!allocated) return NULL;
    char *memory = (char *)aligned(allocated);
    for (int l = 0; l < LANES; l++)
        b->edges[l] = take_floats(&memory, span);
    b->x = (vf *)take_floats(&memory, span * LANES);
    b->with_ballast = (vf *)take_floats(&memory, lags * LANES);
    b->without = (vf *)take_floats(&memory, lags * LANES);
    b->norms = (vf *)take_floats(&memory, lags * LANES);
    b->local = (vf *)take_floats(&memory, states * LANES);
    b->rows = take_floats(&memory, states * LANES + LANES);
    frame_search *s = &b->search;
    s->states = plan->states, s->step = plan->step;
    s->before = take_floats(&memory, states + LANES), s->after = take_floats(&memory, states + LANES);
    s->found = (int16_t *)take_floats(&memory, states + LANES);
    float *steps = take_floats(&memory, 2 * states + LANES) + states;
    for (int i = -plan->states; i < plan->states + LANES; i++)
        steps[i] = (float)(i * i) * plan->step;
    s->steps = steps;
    s->lower = (int32_t *)take_floats(&memory, states), s->upper = (int32_t *)take_floats(&memory, states);
    s->best = (int32_t *)take_floats(&memory, states), s->cost = take_floats(&memory, states);
    return allocated;
}

/* Gather the samples of `count` frames, from row `row` on, in the block. The utterance of the first frame is at or after *utterance, which
   receives the utterance of the last frame. */
static void gather_frames(track_block *b, const pitch_plan *plan, const pitch_batch *batch, int64_t row, int count,
                          int64_t *utterance)
{
    const void *starts[LANES] = {NULL};
    int types[LANES];
    int64_t u = *utterance;
    for (int l = 0; l < LANES; l++) {
        types[l] = FLOATS;
        if (l >= count) {
            starts[l] = starts[0];
            continue;
        }
        while (row + l >= batch->rows[u + 1])
            u++;
        int64_t begin = batch->first + (row + l - batch->rows[u]) * batch->shift, length = batch->length[u];
        const float *signal = batch->signal + batch->start[u];
        if (begin >= 0 && begin + plan->span <= length) {
            starts[l] = signal + begin;
            continue;
        }
        memset(b->edges[l], 0, plan->span * sizeof(float));
        int64_t from = begin < 0 ? 0 : begin, to = begin + plan->span < length ? begin + plan->span : length;
        if (from < to) memcpy(b->edges[l] + (from - begin), signal + from, (to - from) * sizeof(float));
        starts[l] = b->edges[l];
    }
    *utterance = u;
    gather(starts, types, plan->span, b->x);
}

/* The factors of correlations for a revised ballast, 1 if a ratio overflows. `average` is the result of correlate_block(). */
static vf revision(const pitch_batch *batch, int64_t row, int count, vf average)
{
    if (!batch->revised_from) return splat(1.0f);
    float from[LANES] = {0}, to[LANES] = {0};
    memcpy(from, batch->revised_from + row, count * sizeof(float));
    memcpy(to, batch->revised_to + row, count * sizeof(float));
    vf ratio = (load_floats(from) + average) / (load_floats(to) + average);
    vi usable = (ratio >= 0.0f) & (ratio < INFINITY);
    float roots[LANES]; /* Kaldi calls pow(float, float), which C++ resolves to powf() */
    for (int l = 0; l < LANES; l++)
        roots[l] = usable[l] ? half_powf(ratio[l]) : 1.0f;
    return load_floats(roots);
}

/* The arrays of a Lattice in kaldi_compat/pitch/search.py: the results for frames that were searched. */
typedef struct {
    int16_t *before, *best;
    float *correlation;
    uint8_t *groups;
    int16_t *path;
    float *nccf;
} pitch_found;

/* Search the rows from `begin` to before `end`, and write the results to the frames from `known` on. `costs` are as in pitch_search().
   Returns 0, 1 if there is no memory, or 2 if correlations overflow. */
static int search_rows(const pitch_plan *plan, const pitch_batch *batch, int64_t begin, int64_t end, float *costs,
                       const pitch_found *found, int64_t known)
{
    int states = plan->states, lags = plan->lags, status = 0;
    int64_t gathered = 0, u = -1;
    int16_t *before = found->before + known * states, *best = found->best + known;
    float *correlation = found->correlation + known * lags;
    memcpy(found->groups + known, batch->groups + begin, end - begin);
    memset(found->path + known, 0xff, (end - begin) * sizeof(int16_t));
    track_block b;
    void *memory = make_track_block(&b, plan);
    if (!memory) return 1;
    float highest = start_search(&b.search, costs);
    for (int64_t row = begin; row < end; row += LANES) {
        int count = end - row < LANES ? (int)(end - row) : LANES;
        float ballast[LANES] = {0};
        int32_t groups[LANES] = {0};
        vi group, finite = ~(vi){0};
        memcpy(ballast, batch->ballast + row, count * sizeof(float));
        for (int l = 0; l < count; l++)
            groups[l] = batch->groups[row + l];
        memcpy(&group, groups, sizeof group);
        gather_frames(&b, plan, batch, row, count, &gathered);
        vf average = correlate_block(plan, b.x, load_floats(ballast), b.with_ballast, b.without, b.norms);
        for (int k = 0; k < lags; k++)
            finite &= (b.with_ballast[k] - b.with_ballast[k] == 0.0f) & (b.without[k] - b.without[k] == 0.0f);
        for (int l = 0; l < count; l++)
            status = finite[l] ? status : 2;
        if (status) break;
        local_costs(plan, b.with_ballast, group, revision(batch, row, count, average), b.local);
        write_lanes(b.local, states, count, b.rows);
        write_lanes(b.without, lags, count, correlation + (row - begin) * lags);
        for (int l = 0; l < count; l++) {
            while (row + l >= batch->rows[u + 1])
                if (row + l == batch->rows[++u] && row + l > begin) highest = start_search(&b.search, NULL);
            if (!find_by_halving(&b.search, highest)) find_by_bounds(&b.search);
            memcpy(before + (row + l - begin) * states, b.search.found, states * sizeof(int16_t));
            best[row + l - begin] = (int16_t)finish_costs(&b.search, b.rows + (int64_t)l * states, &highest);
        }
    }
    memcpy(costs, b.search.before, states * sizeof(float));
    free(memory);
    return status;
}

/* Write the best path of each utterance, from its last frame, ends[u] - 1, back to where it meets the path that an earlier call wrote.
   Interpolate the correlation of each of these frames to its state's lag. Returns 0, or 1 if there is no memory. */
static int trace(const pitch_plan *plan, const pitch_found *found, const int64_t *ends, int64_t count)
{
    void *memory = allocate(plan->lags);
    if (!memory) return 1;
    vf *x = aligned(memory);
    for (int64_t u = 0; u < count; u++) {
        int64_t start = u > 0 ? ends[u - 1] : 0, frame = ends[u] - 1;
        int16_t state = frame < start ? 0 : found->best[frame];
        for (; frame >= start && found->path[frame] != state; frame--) {
            const float *correlation = found->correlation + frame * plan->lags + plan->first[state];
            int columns = plan->columns[state];
            for (int k = 0; k < columns; k++)
                x[k] = splat(correlation[k]);
            vf value = row_product(plan->weights + plan->offset[state], columns, x, found->groups[frame]);
            found->nccf[frame] = ((const float *)&value)[0];
            found->path[frame] = state;
            state = found->before[frame * plan->states + state];
        }
    }
    free(memory);
    return 0;
}

/* Search the cheapest paths of the rows from `begin` to before `end`, which are the last of `frames` frames, and trace the best paths of
   utterances that end before the frames `ends` (count). `costs` (states) holds the costs of the paths to the row before `begin`, and
   afterward the costs of the paths to the last row. All utterances but the first start with costs of zero. Returns 0, 1 if there is no
   memory, or 2 if correlations overflow. */
EXPORT int SIMD_NAME(pitch_search)(const pitch_plan *plan, const pitch_batch *batch, int64_t begin, int64_t end,
                                   float *costs, int16_t *before, int16_t *best, float *correlation, uint8_t *groups,
                                   int16_t *path, float *nccf, int64_t frames, const int64_t *ends, int64_t count)
{
    const pitch_found found = {before, best, correlation, groups, path, nccf};
    int status = begin < end ? search_rows(plan, batch, begin, end, costs, &found, frames - (end - begin)) : 0;
    return status ? status : trace(plan, &found, ends, count);
}
