/* Islands of columns below a tree of latents (discovery/island_network.py): what is learned, and the
   M-step.

   Tables and expected counts are alike, one block of numbers an island: (features, padded) weights, or
   counts of features, and after them (states above, padded) links. States that only pad have no
   probability: a weight of -1e30 at feature 0, links of zero. */
#ifndef LATENTIA_ISLAND_TABLES_H
#define LATENTIA_ISLAND_TABLES_H

#include "singles.h"

#define TINY 1e-30f
#define LEAST 1e-6f /* of a probability */
#define LEAST_VARIANCE 0.01f
#define NEVER -1e30f

typedef struct {
    int64_t column; /* of the rows */
    int64_t states;
    int64_t single;        /* feature of its first state that has one */
    int64_t parent;        /* another column of the rows, or -1 */
    int64_t parent_states; /* 1 without one */
    int64_t above;         /* single of the parent */
    int64_t pair;          /* feature of the first pair of states that has one */
    int64_t no_holes;      /* then the first state is told by the others, and has no feature */
    int64_t line;          /* cells along a line, or 0 … */
    int64_t bells;         /* … and where it is told of: ends, E[z | cell], E[z^2 | cell], shares */
} IslandColumn;

typedef struct {
    int64_t states, padded, above_padded; /* of the latent, and of that above: 1 at a root */
    int64_t above_states;
    int64_t above;      /* an island, or -1 */
    int64_t features;
    int64_t first, end; /* its columns among all */
    int64_t weights, links; /* where they begin in tables and counts */
    int64_t belief, sent, told; /* where they begin in the room for messages */
    int64_t first_child, end_child; /* among the children of all */
} Island;

/* Σ over states of a row of numbers */
ALWAYS float sum_row(const float *x, int64_t n) {
    singles sum = FROM(x);
    for (int64_t j = EIGHT; j < n; j += EIGHT) sum += FROM(x + j);
    return sum_of(sum);
}

/* counts of all cells of a column, (parent states, states, n), from those of features */
static void spread_cells(const IslandColumn *c, const float *counts, int64_t n, float *cells) {
    int64_t d = c->states, p = c->parent_states;
    if (!c->no_holes) {
        const float *from = counts + (c->parent < 0 ? c->single : c->pair) * n;
        memcpy(cells, from, (size_t)(p * d * n) * sizeof(float));
        return;
    }
    const float *own = counts + (c->single - 1) * n, *above = counts + (c->above - 1) * n;
    const float *pair = counts + c->pair * n;
    for (int64_t j = 0; j < n; j += EIGHT) {
        const singles none = all_of(0.0f);
        if (c->parent < 0) {
            singles rest = none;
            for (int64_t s = 1; s < d; s++) rest += AT(cells + s * n + j) = FROM(own + s * n + j);
            AT(cells + j) = larger(FROM(counts + j) - rest, none);
            continue;
        }
        singles others = none;
        for (int64_t t = 1; t < p; t++) {
            singles rest = none;
            for (int64_t s = 1; s < d; s++)
                rest += AT(cells + (t * d + s) * n + j) = FROM(pair + ((t - 1) * (d - 1) + s - 1) * n + j);
            AT(cells + t * d * n + j) = larger(FROM(above + t * n + j) - rest, none);
            others += FROM(above + t * n + j);
        }
        singles rest = none;
        for (int64_t s = 1; s < d; s++) {
            singles left = FROM(own + s * n + j);
            for (int64_t t = 1; t < p; t++) left -= FROM(cells + (t * d + s) * n + j);
            rest += left;
            AT(cells + s * n + j) = larger(left, none);
        }
        AT(cells + j) = larger(larger(FROM(counts + j) - others, none) - rest, none);
    }
}

/* towards which the states of cells along a line are drawn: masses of the state's own normal */
static void bell_masses(const IslandColumn *c, const float *bells, const float *cells, int64_t n,
                        float *towards) {
    int64_t along = c->line;
    const float *ends = bells + c->bells, *first = ends + along - 1, *second = first + along;
    float share = second[along];
    const float *apart = second + along + 1;
    for (int64_t j = 0; j < n; j += EIGHT) {
        singles total = all_of(0.0f), one = total, two = total, zero = total;
        for (int64_t s = 0; s < along; s++) {
            singles count = FROM(cells + s * n + j);
            total += count, one += first[s] * count, two += second[s] * count;
        }
        singles mean = one / (total + 1.0f), spread = (two + 1.0f) / (total + 1.0f) - mean * mean;
        spread = larger(spread, all_of(LEAST_VARIANCE));
        for (int i = 0; i < EIGHT; i++) spread[i] = 1.0f / __builtin_sqrtf(spread[i]);
        singles low = zero, high = zero + 1.0f; /* P(below), P(above) the last end */
        for (int64_t s = 0; s + 1 < along; s++) {
            singles z = (ends[s] - mean) * spread, tail = upper_tail(larger(z, -z));
            singles under = chosen((whole)(z > 0.0f), 1.0f - tail, tail);
            singles over = chosen((whole)(z > 0.0f), tail, 1.0f - tail);
            singles mass = chosen((whole)(low > 0.5f), high - over, under - low);
            AT(towards + s * n + j) = mass * share;
            low = under, high = over;
        }
        AT(towards + (along - 1) * n + j) = high * share;
        for (int64_t s = along; s < c->states; s++) AT(towards + s * n + j) = zero + apart[s - along];
    }
}

/* log P(state | …) of one column (and one state of its parent), in place of counts */
static void log_chances(const IslandColumn *c, const float *bells, float pseudo_count, int64_t n,
                        float *cells, float *towards) {
    int64_t d = c->states;
    float pooled = 0.0f;
    if (c->line) bell_masses(c, bells, cells, n, towards);
    else
        for (int64_t s = 0; s < d; s++) pooled += towards[s] = sum_row(cells + s * n, n);
    for (int64_t j = 0; j < n; j += EIGHT) {
        singles total = all_of(0.0f);
        for (int64_t s = 0; s < d; s++) {
            singles drawn = c->line ? FROM(towards + s * n + j)
                                    : all_of((towards[s] + LEAST) / (pooled + (float)d * LEAST));
            total += AT(cells + s * n + j) += pseudo_count * drawn + TINY;
        }
        for (int64_t s = 0; s < d; s++) {
            singles p = larger(FROM(cells + s * n + j) / total, all_of(LEAST));
            AT(cells + s * n + j) = logarithm_of(p);
        }
    }
}

/* add to an island's weights what a column says; cells are logarithms, (parent states, states, n) */
static void gather_weights(const IslandColumn *c, const float *cells, int64_t n, float *weights) {
    int64_t d = c->states, p = c->parent_states;
    if (!c->no_holes) {
        float *to = weights + (c->parent < 0 ? c->single : c->pair) * n;
        memcpy(to, cells, (size_t)(p * d * n) * sizeof(float));
        return;
    }
    float *own = weights + (c->single - 1) * n, *above = weights + (c->above - 1) * n;
    float *pair = weights + c->pair * n;
    for (int64_t j = 0; j < n; j += EIGHT) {
        singles corner = FROM(cells + j);
        AT(weights + j) += corner;
        for (int64_t s = 1; s < d; s++) AT(own + s * n + j) += FROM(cells + s * n + j) - corner;
        for (int64_t t = 1; t < p; t++) {
            singles left = FROM(cells + t * d * n + j);
            AT(above + t * n + j) += left - corner;
            for (int64_t s = 1; s < d; s++)
                AT(pair + ((t - 1) * (d - 1) + s - 1) * n + j) =
                    FROM(cells + (t * d + s) * n + j) - left - FROM(cells + s * n + j) + corner;
        }
    }
}

/* P(h | h above) from counts, (states above, n) */
static void maximise_links(const Island *own, const float *counts, float pseudo_count, float *links,
                           float *pooled) {
    int64_t n = own->padded;
    float total = 0.0f;
    memset(links, 0, (size_t)(own->above_padded * n) * sizeof(float));
    memset(pooled, 0, (size_t)n * sizeof(float));
    for (int64_t i = 0; i < own->above_states; i++)
        for (int64_t j = 0; j < n; j += EIGHT) AT(pooled + j) += FROM(counts + i * n + j);
    total = sum_row(pooled, n);
    float by = pseudo_count / (total > TINY ? total : TINY);
    for (int64_t i = 0; i < own->above_states; i++) {
        float *row = links + i * n;
        for (int64_t j = 0; j < n; j += EIGHT)
            AT(row + j) = FROM(counts + i * n + j) + by * FROM(pooled + j) + 1e-6f;
        for (int64_t j = own->states; j < n; j++) row[j] = 0.0f;
        singles scale = all_of(1.0f / sum_row(row, n));
        for (int64_t j = 0; j < n; j += EIGHT) AT(row + j) *= scale;
    }
}

/* the M-step of all islands; room: twice the cells of the largest column, states padded */
static void maximise_tables(const Island *islands, int64_t many, const IslandColumn *columns,
                            const float *bells, float pseudo_count, const float *counts,
                            float *tables, float *room) {
    for (const Island *own = islands; own < islands + many; own++) {
        int64_t n = own->padded;
        float *weights = tables + own->weights;
        memset(weights, 0, (size_t)(own->features * n) * sizeof(float));
        for (const IslandColumn *c = columns + own->first; c < columns + own->end; c++) {
            int64_t size = c->states * n;
            float *towards = room + c->parent_states * size;
            spread_cells(c, counts + own->weights, n, room);
            for (int64_t t = 0; t < c->parent_states; t++)
                log_chances(c, bells, pseudo_count, n, room + t * size, towards);
            gather_weights(c, room, n, weights);
        }
        for (int64_t j = own->states; j < n; j++) weights[j] = NEVER;
        maximise_links(own, counts + own->links, pseudo_count, tables + own->links, room);
    }
}

#endif
