/* Climbs of latent classes: accelerated EM of one latent whose columns know nothing of each other.

   The same climbs as networks/lockstep.py: L-BFGS on u = sqrt(n T), in which a step of EM has unit
   length; a step that lowers the penalised likelihood is replaced by EM's own. All tables of a climb
   lie one after the other; their rows are `groups`. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "level.h"

#define TURNS 16 /* columns between two divisions by the largest number */
#define MOST_STATES 32

typedef double vec __attribute__((vector_size(LANES * sizeof(double)), aligned(8), may_alias));
#define V(p) (*(vec *)(p))
#define C(p) (*(const vec *)(p))
#define INLINE static inline __attribute__((always_inline))

typedef struct {
    int64_t rows, columns, states;
    int64_t padded;       /* states, rounded up to a multiple of WHOLE */
    int64_t codes;        /* states of all columns */
    int64_t cells, groups, memory;
    const int32_t *seen;  /* (rows, columns): which of the codes; -1: a hole */
    const int32_t *place; /* (1 + codes, states): where P(class), then P(code | class) lie in tables */
    const double *weight; /* (rows) */
    const int64_t *begin; /* (groups + 1) rows of tables */
    const double *prior;  /* (cells) */
    double small;         /* gain still to come, below which a climb rests */
    double first_cap, least_cap, flat, at_rest, rest, keep, least_root;
    double *room; /* 2 * (1 + codes) * padded + 4 * cells */
} Classes;

/* one climb: vectors of `cells` numbers, and numbers */
typedef struct {
    double *x, *after, *u, *slope, *trial, *root, *s, *y;
    double *bent; /* (memory) products of steps and changes of slope; 0: nothing to remember */
    double *now;  /* numbers, by name below */
} Climb;

enum { LEVEL, FIT, CAP, GAIN, RATIO, QUIET, FAR, CUT, PAIRS, SLOT, STEPS, RESTS, LOST, NUMBERS };
#define VECTORS 6

static Climb climb_at(const Classes *c, double *vectors, double *numbers, int64_t k) {
    int64_t n = c->cells, m = c->memory;
    double *v = vectors + k * (VECTORS + 2 * m) * n, *now = numbers + k * (NUMBERS + m);
    Climb found = {v, v + n, v + 2 * n, v + 3 * n, v + 4 * n, v + 5 * n, v + 6 * n, v + (6 + m) * n,
                   now + NUMBERS, now};
    return found;
}

INLINE double dot(const double *a, const double *b, int64_t n) {
    double total = 0.0;
    for (int64_t i = 0; i < n; i++) total += a[i] * b[i];
    return total;
}

INLINE double divide_by_largest(vec *w, int64_t n) {
    double top = 0.0;
    for (int64_t j = 0; j < n; j++) top = w[j / LANES][j % LANES] > top ? w[j / LANES][j % LANES] : top;
    if (!(top > 0.0)) return 0.0;
    for (int64_t j = 0; j < n / LANES; j++) w[j] /= top;
    return top;
}

/* expected counts of tables x, (cells), and the log-likelihood; -INFINITY where a row is lost.
   Logarithms of rows with weight one are taken of products of several. */
INLINE double expect_padded(const Classes *c, const double *x, double *counts, int64_t n) {
    int64_t all = 1 + c->codes;
    double *table = c->room, *count = table + all * n, fit = 0.0, product = 1.0;
    vec w[MOST_STATES / LANES]; /* in registers, where n is a small constant */
    memset(table, 0, (size_t)(2 * all * n) * sizeof(double));
    for (int64_t i = 0; i < all; i++)
        for (int64_t j = 0; j < c->states; j++) table[i * n + j] = x[c->place[i * c->states + j]];
    for (int64_t r = 0; r < c->rows; r++) {
        const int32_t *seen = c->seen + r * c->columns;
        double logs = 0.0, total = 0.0;
        for (int64_t j = 0; j < n / LANES; j++) w[j] = C(table + j * LANES);
        for (int64_t i = 0; i < c->columns; i++) {
            if (seen[i] < 0) continue;
            const double *factor = table + (1 + seen[i]) * n;
            for (int64_t j = 0; j < n / LANES; j++) w[j] *= C(factor + j * LANES);
            if (i % TURNS == TURNS - 1) {
                double top = divide_by_largest(w, n);
                if (!(top > 0.0)) return -INFINITY;
                logs += log(top);
            }
        }
        vec sums = w[0];
        for (int64_t j = 1; j < n / LANES; j++) sums += w[j];
        for (int64_t j = 0; j < LANES; j++) total += sums[j];
        if (!(total > 1e-280)) return -INFINITY;
        if (c->weight[r] == 1.0 && total > 1e-100) {
            product *= total, fit += logs;
            if (product < 1e-200) fit += log(product), product = 1.0;
        } else {
            fit += c->weight[r] * (log(total) + logs);
        }
        double by = c->weight[r] / total;
        for (int64_t j = 0; j < n / LANES; j++) w[j] *= by, V(count + j * LANES) += w[j];
        for (int64_t i = 0; i < c->columns; i++) {
            if (seen[i] < 0) continue;
            double *own = count + (1 + seen[i]) * n;
            for (int64_t j = 0; j < n / LANES; j++) V(own + j * LANES) += w[j];
        }
    }
    for (int64_t i = 0; i < all; i++)
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

/* every row of tables divided by its sum; the sums where `root` is wanted, as square roots */
static void divide_rows(const Classes *c, double *x, double *root) {
    for (int64_t g = 0; g < c->groups; g++) {
        double total = 0.0;
        for (int64_t i = c->begin[g]; i < c->begin[g + 1]; i++) total += x[i];
        for (int64_t i = c->begin[g]; i < c->begin[g + 1]; i++) x[i] /= total;
        if (root)
            for (int64_t i = c->begin[g]; i < c->begin[g + 1]; i++) root[i] = sqrt(total);
    }
}

/* one E-step at the trial point: EM's tables after it, u and slope there, and its level */
static double look(const Classes *c, Climb *k, double *after, double *u, double *slope,
                   double *root) {
    k->now[STEPS] += 1.0;
    double fit = expect(c, k->trial, after), level = fit;
    if (!(fit > -INFINITY)) return fit;
    for (int64_t i = 0; i < c->cells; i++) {
        double x = k->trial[i];
        after[i] += c->prior[i];
        level += c->prior[i] * log(x > 1e-300 ? x : 1e-300);
    }
    divide_rows(c, after, root);
    for (int64_t i = 0; i < c->cells; i++) {
        u[i] = sqrt(k->trial[i]) * k->root[i];
        slope[i] = sqrt(after[i]) * k->root[i] - u[i];
    }
    k->now[FIT] = fit;
    return level;
}

/* the change from (u, slope) of before to the new ones; 0 where it tells nothing */
static void remember(const Classes *c, Climb *k, const double *u, const double *slope) {
    int64_t n = c->cells, slot = (int64_t)k->now[SLOT];
    double *s = k->s + slot * n, *y = k->y + slot * n;
    for (int64_t i = 0; i < n; i++) s[i] = u[i] - k->u[i], y[i] = k->slope[i] - slope[i];
    double bent = dot(s, y, n), square = dot(s, s, n);
    k->bent[slot] = 0.0;
    k->now[SLOT] = (double)((slot + 1) % c->memory);
    if (!(bent > 0.0)) return;
    double scale = 1.0 / sqrt(square), more = c->flat - bent / square;
    for (int64_t i = 0; i < n; i++) s[i] *= scale, y[i] *= scale;
    if (more > 0.0) for (int64_t i = 0; i < n; i++) y[i] += more * s[i];
    double straight = dot(y, y, n);
    k->bent[slot] = dot(s, y, n);
    k->now[RATIO] = k->bent[slot] / (straight > 1e-300 ? straight : 1e-300);
    k->now[PAIRS] += 1.0;
}

/* Newton's step as far as it is known; EM's own without a memory */
static void direction(const Classes *c, const Climb *k, double *d) {
    int64_t n = c->cells, m = c->memory, newest = (int64_t)k->now[SLOT] + m - 1;
    memcpy(d, k->slope, (size_t)n * sizeof(double));
    if (!(k->now[PAIRS] > 0.0)) return;
    double shares[64], gamma = k->now[RATIO] > 1.0 ? k->now[RATIO] : 1.0;
    for (int64_t j = 0; j < m; j++) {
        int64_t at = (newest - j) % m;
        if (!(k->bent[at] > 0.0)) continue;
        shares[at] = dot(k->s + at * n, d, n) / k->bent[at];
        for (int64_t i = 0; i < n; i++) d[i] -= shares[at] * k->y[at * n + i];
    }
    for (int64_t i = 0; i < n; i++) d[i] *= gamma;
    for (int64_t j = m - 1; j >= 0; j--) {
        int64_t at = (newest - j) % m;
        if (!(k->bent[at] > 0.0)) continue;
        double left = shares[at] - dot(k->y + at * n, d, n) / k->bent[at];
        for (int64_t i = 0; i < n; i++) d[i] += left * k->s[at * n + i];
    }
}

/* the next trial: a long step where the climb has moved, else EM's own */
static void choose(const Classes *c, Climb *k, int moved, double *d) {
    int64_t n = c->cells;
    double *now = k->now;
    direction(c, k, d);
    double ahead = 2.0 * dot(k->slope, d, n), most = c->rest * now[GAIN];
    int told = now[PAIRS] > 1.0 || now[GAIN] < c->at_rest * c->small;
    if (most < ahead) ahead = most;
    if (moved) now[QUIET] = ahead < c->small && told ? now[QUIET] + 1.0 : 0.0;
    now[RESTS] = moved && now[QUIET] >= 2.0;
    double length = sqrt(dot(d, d, n));
    double share = now[CAP] * sqrt(dot(k->slope, k->slope, n)) / (length > 1e-300 ? length : 1e-300);
    now[FAR] = moved && now[PAIRS] > 0.0, now[CUT] = share < 1.0;
    if (!now[FAR]) {
        memcpy(k->trial, k->after, (size_t)n * sizeof(double));
        return;
    }
    double by = share < 1.0 ? share : 1.0;
    for (int64_t i = 0; i < n; i++) {
        double least = c->keep * sqrt(k->x[i]), root = (k->u[i] + by * d[i]) / k->root[i];
        if (least < c->least_root) least = c->least_root;
        if (root < least) root = least;
        k->trial[i] = root * root;
    }
    divide_rows(c, k->trial, NULL);
}

static void start(const Classes *c, Climb *k, double *d) {
    double *now = k->now;
    now[CAP] = c->first_cap, now[GAIN] = INFINITY, now[RATIO] = 1.0;
    memcpy(k->trial, k->x, (size_t)c->cells * sizeof(double));
    now[LEVEL] = look(c, k, k->after, k->u, k->slope, k->root);
    now[LOST] = !(now[LEVEL] > -INFINITY);
    if (now[LOST]) return;
    choose(c, k, 1, d);
}

static void go_on(const Classes *c, Climb *k, double *room) {
    int64_t n = c->cells;
    double *now = k->now, *after = room, *u = room + n, *slope = room + 2 * n, fit = now[FIT];
    double level = look(c, k, after, u, slope, NULL);
    int lost = !(level > -INFINITY), better = !lost && level >= now[LEVEL];
    int good = !lost && (better || !now[FAR]);
    if (lost && !now[FAR]) { /* EM's own step leads nowhere */
        now[RESTS] = 1.0;
        return;
    }
    if (!lost) remember(c, k, u, slope);
    if (now[FAR] && better && now[CUT]) now[CAP] *= 2.0;
    if (now[FAR] && !better) now[CAP] = now[CAP] / 2.0 > c->least_cap ? now[CAP] / 2.0 : c->least_cap;
    if (good) {
        now[GAIN] = level - now[LEVEL], now[LEVEL] = level;
        memcpy(k->x, k->trial, (size_t)n * sizeof(double));
        memcpy(k->after, after, (size_t)(n) * sizeof(double));
        memcpy(k->u, u, (size_t)n * sizeof(double));
        memcpy(k->slope, slope, (size_t)n * sizeof(double));
    } else {
        now[FIT] = fit;
    }
    choose(c, k, good, room + 3 * n);
}

/* Some climbs, by number, on to so many E-steps in all, or to rest. New ones have taken none.
   vectors: (climbs, VECTORS + 2 * memory, cells), x first; numbers: (climbs, NUMBERS + memory). */
EXPORT void NAME(classes_climb)(const Classes *c, double *vectors, double *numbers,
                                const int64_t *which, int64_t count, int64_t steps) {
    double *room = c->room + 2 * (1 + c->codes) * c->padded;
    for (int64_t i = 0; i < count; i++) {
        Climb k = climb_at(c, vectors, numbers, which[i]);
        if (!k.now[STEPS]) start(c, &k, room + 3 * c->cells);
        while (!k.now[LOST] && !k.now[RESTS] && k.now[STEPS] < (double)steps) go_on(c, &k, room);
    }
}
