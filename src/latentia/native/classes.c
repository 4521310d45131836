/* Climbs of latent classes: accelerated EM of one latent whose columns know nothing of each other.

   climbing.h has the climbs; here is their E-step. Rows are products of entries: of P(code | class),
   and of products that many rows share (sharing.c), each of two entries before it. */
#include "climbing.h"
#include "level.h"

#define TURNS 16 /* cells between two divisions by the largest number */
#define MOST_STATES 32

typedef double vec __attribute__((vector_size(LANES * sizeof(double)), aligned(8), may_alias));
#define V(p) (*(vec *)(p))
#define C(p) (*(const vec *)(p))
#define INLINE static inline __attribute__((always_inline))

typedef struct {
    int64_t rows, columns, states;
    int64_t padded;       /* states, rounded up to a multiple of WHOLE */
    int64_t codes;        /* states of all columns */
    int64_t shared;       /* entries that are products of two before them */
    int64_t cells, groups, memory;
    const int32_t *seen;  /* (rows, columns): which of the entries; -1: a hole */
    const int32_t *members; /* (columns) cells of a row that each column stands for */
    const int32_t *parts; /* (shared, 2) */
    const int32_t *place; /* (1 + codes, states): where P(class), then P(code | class) lie in tables */
    const double *weight; /* (rows) */
    const int64_t *begin; /* (groups + 1) rows of tables */
    const double *prior;  /* (cells) */
    double small;         /* gain still to come, below which a climb rests */
    double first_cap, least_cap, flat, at_rest, rest, keep, least_root;
    double *room; /* 2 * (1 + codes + shared) * padded + 4 * cells */
} Classes;

INLINE double divide_by_largest(vec *w, int64_t n) {
    double top = 0.0;
    for (int64_t j = 0; j < n; j++) top = w[j / LANES][j % LANES] > top ? w[j / LANES][j % LANES] : top;
    if (!(top > 0.0)) return 0.0;
    for (int64_t j = 0; j < n / LANES; j++) w[j] /= top;
    return top;
}

/* log(number) more, taken of products of several numbers */
INLINE void take_log(double number, double *product, double *logs) {
    if (number > 1e-100) *product *= number;
    else *logs += log(number);
    if (*product < 1e-200) *logs += log(*product), *product = 1.0;
}

/* expected counts of tables x, (cells), and the log-likelihood; -INFINITY where a row is lost.
   Logarithms of rows with weight one are taken of products of several. */
INLINE double expect_padded(const Classes *c, const double *x, double *counts, int64_t n) {
    int64_t own = 1 + c->codes, all = own + c->shared;
    double *table = c->room, *count = table + all * n, fit = 0.0, product = 1.0;
    vec w[MOST_STATES / LANES]; /* in registers, where n is a small constant */
    memset(table, 0, (size_t)(2 * all * n) * sizeof(double));
    for (int64_t i = 0; i < own; i++)
        for (int64_t j = 0; j < c->states; j++) table[i * n + j] = x[c->place[i * c->states + j]];
    for (int64_t i = 0; i < c->shared; i++) {
        const double *a = table + (1 + c->parts[2 * i]) * n, *b = table + (1 + c->parts[2 * i + 1]) * n;
        double *both = table + (own + i) * n;
        for (int64_t j = 0; j < n; j += LANES) V(both + j) = C(a + j) * C(b + j);
    }
    for (int64_t r = 0; r < c->rows; r++) {
        const int32_t *seen = c->seen + r * c->columns;
        double logs = 0.0, total = 0.0;
        int once = c->weight[r] == 1.0;
        int32_t since = 0;
        for (int64_t j = 0; j < n / LANES; j++) w[j] = C(table + j * LANES);
        for (int64_t i = 0; i < c->columns; i++) {
            if (seen[i] < 0) continue;
            const double *factor = table + (1 + seen[i]) * n;
            since += c->members[i];
            if (since > TURNS) {
                double top = divide_by_largest(w, n);
                if (!(top > 0.0)) return -INFINITY;
                if (once) take_log(top, &product, &fit);
                else logs += log(top);
                since = c->members[i];
            }
            for (int64_t j = 0; j < n / LANES; j++) w[j] *= C(factor + j * LANES);
        }
        vec sums = w[0];
        for (int64_t j = 1; j < n / LANES; j++) sums += w[j];
        for (int64_t j = 0; j < LANES; j++) total += sums[j];
        if (!(total > 1e-280)) return -INFINITY;
        if (once) take_log(total, &product, &fit);
        else fit += c->weight[r] * (log(total) + logs);
        double by = c->weight[r] / total;
        for (int64_t j = 0; j < n / LANES; j++) w[j] *= by, V(count + j * LANES) += w[j];
        for (int64_t i = 0; i < c->columns; i++) {
            if (seen[i] < 0) continue;
            double *met = count + (1 + seen[i]) * n;
            for (int64_t j = 0; j < n / LANES; j++) V(met + j * LANES) += w[j];
        }
    }
    for (int64_t i = c->shared - 1; i >= 0; i--) { /* what was met together was met alone */
        double *a = count + (1 + c->parts[2 * i]) * n, *b = count + (1 + c->parts[2 * i + 1]) * n;
        const double *both = count + (own + i) * n;
        for (int64_t j = 0; j < n; j += LANES) V(a + j) += C(both + j), V(b + j) += C(both + j);
    }
    for (int64_t i = 0; i < own; i++)
        for (int64_t j = 0; j < c->states; j++) counts[c->place[i * c->states + j]] = count[i * n + j];
    return fit + log(product);
}

/* the same, made once for each small number of padded states, so that loops over them unroll */
static double expect(const Classes *c, const double *x, double *counts) {
    switch (c->padded) {
    case 4: return expect_padded(c, x, counts, 4);
    case 8: return expect_padded(c, x, counts, 8);
    default: return expect_padded(c, x, counts, c->padded);
    }
}

/* Some climbs, by number, on to so many E-steps in all, or to rest. New ones have taken none.
   vectors: (climbs, VECTORS + 2 * memory, cells), x first; numbers: (climbs, NUMBERS + memory). */
EXPORT void NAME(classes_climb)(const Classes *c, double *vectors, double *numbers,
                                const int64_t *which, int64_t count, int64_t steps) {
    Climbing own = {c->cells, c->groups, c->memory, c->begin, c->prior, c->small, c->first_cap,
                    c->least_cap, c->flat, c->at_rest, c->rest, c->keep, c->least_root, INFINITY,
                    c->room + 2 * (1 + c->codes + c->shared) * c->padded, NULL, 0};
    for (int64_t i = 0; i < count; i++) {
        Climb k = climb_at(&own, vectors, numbers, which[i]);
        if (!k.now[STEPS]) {
            memcpy(k.trial, k.x, (size_t)c->cells * sizeof(double));
            begin_climb(&own, &k, expect(c, k.trial, k.after));
        }
        while (!k.now[LOST] && !k.now[RESTS] && k.now[STEPS] < (double)steps)
            go_on(&own, &k, expect(c, k.trial, own.room));
    }
}
