/* Climbs: accelerated EM, whatever the E-step is; those of networks/lockstep.py.

   L-BFGS on u = sqrt(n T), in which a step of EM has unit length; a step that lowers the penalised
   likelihood is replaced by EM's own. All tables of a climb lie one after the other; their rows are
   `groups`. */
#ifndef LATENTIA_CLIMBING_H
#define LATENTIA_CLIMBING_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    int64_t cells, groups, memory;
    const int64_t *begin; /* (groups + 1) rows of tables */
    const double *prior;  /* (cells) */
    double small;         /* gain still to come, below which a climb rests */
    double first_cap, least_cap, flat, at_rest, rest, keep, least_root;
    double patience; /* E-steps after which more and more is small: (steps / patience)^2 times */
    double *room; /* 4 * cells */
    double *path; /* (climbs, most) the level after each move, or NULL */
    int64_t most;
} Climbing;

/* one climb: vectors of `cells` numbers, and numbers */
typedef struct {
    double *x, *after, *u, *slope, *trial, *root, *s, *y;
    double *bent; /* (memory) products of steps and changes of slope; 0: nothing to remember */
    double *now;  /* numbers, by name below */
    double *path;
} Climb;

enum { LEVEL, FIT, CAP, GAIN, RATIO, QUIET, FAR, CUT, PAIRS, SLOT, STEPS, RESTS, LOST, MOVES, NUMBERS };
#define VECTORS 6
#define PARTS 8

static Climb climb_at(const Climbing *c, double *vectors, double *numbers, int64_t k) {
    int64_t n = c->cells, m = c->memory;
    double *v = vectors + k * (VECTORS + 2 * m) * n, *now = numbers + k * (NUMBERS + m);
    Climb found = {v, v + n, v + 2 * n, v + 3 * n, v + 4 * n, v + 5 * n, v + 6 * n, v + (6 + m) * n,
                   now + NUMBERS, now, c->path ? c->path + k * c->most : NULL};
    return found;
}

static void note_level(const Climbing *c, Climb *k) {
    int64_t moves = (int64_t)k->now[MOVES];
    if (k->path && moves < c->most) k->path[moves] = k->now[LEVEL], k->now[MOVES] += 1.0;
}

/* in eight sums, so that no product waits for the one before */
static inline double dot(const double *a, const double *b, int64_t n) {
    double part[PARTS] = {0.0}, total = 0.0;
    int64_t i = 0;
    for (; i + PARTS <= n; i += PARTS)
        for (int j = 0; j < PARTS; j++) part[j] += a[i + j] * b[i + j];
    for (int j = 0; i < n; i++, j++) part[j] += a[i] * b[i];
    for (int j = 0; j < PARTS; j++) total += part[j];
    return total;
}

/* every row of tables divided by its sum; the sums where `root` is wanted, as square roots */
static void divide_rows(const Climbing *c, double *x, double *root) {
    for (int64_t g = 0; g < c->groups; g++) {
        double total = 0.0;
        for (int64_t i = c->begin[g]; i < c->begin[g + 1]; i++) total += x[i];
        for (int64_t i = c->begin[g]; i < c->begin[g + 1]; i++) x[i] /= total;
        if (root)
            for (int64_t i = c->begin[g]; i < c->begin[g + 1]; i++) root[i] = sqrt(total);
    }
}

/* sum of prior log x; neighbours with the same prior take one logarithm of their product */
static double log_prior(const Climbing *c, const double *x) {
    double found = 0.0, product = 1.0, prior = c->prior[0];
    for (int64_t i = 0; i < c->cells; i++) {
        if (c->prior[i] != prior || product < 1e-200) {
            found += prior * log(product);
            prior = c->prior[i], product = 1.0;
        }
        if (x[i] > 1e-100) product *= x[i];
        else found += prior * log(x[i] > 1e-300 ? x[i] : 1e-300);
    }
    return found + prior * log(product);
}

/* `after`, the expected counts of the trial point, become EM's tables; u and slope there; its level */
static double looked(const Climbing *c, Climb *k, double fit, double *after, double *u, double *slope,
                     double *root) {
    double level = fit;
    k->now[STEPS] += 1.0;
    if (!(fit > -INFINITY)) return -INFINITY;
    level += log_prior(c, k->trial);
    for (int64_t i = 0; i < c->cells; i++) after[i] += c->prior[i];
    divide_rows(c, after, root);
    for (int64_t i = 0; i < c->cells; i++) {
        u[i] = sqrt(k->trial[i]) * k->root[i];
        slope[i] = sqrt(after[i]) * k->root[i] - u[i];
    }
    k->now[FIT] = fit;
    return level;
}

/* the change from (u, slope) of before to the new ones; 0 where it tells nothing */
static void remember(const Climbing *c, Climb *k, const double *u, const double *slope) {
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
static void direction(const Climbing *c, const Climb *k, double *d) {
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
static void choose(const Climbing *c, Climb *k, int moved, double *d) {
    int64_t n = c->cells;
    double *now = k->now;
    direction(c, k, d);
    double ahead = 2.0 * dot(k->slope, d, n), most = c->rest * now[GAIN];
    double late = now[STEPS] / c->patience, small = c->small * (late > 1.0 ? late * late : 1.0);
    int told = now[PAIRS] > 1.0 || now[GAIN] < c->at_rest * small;
    if (most < ahead) ahead = most;
    if (moved) now[QUIET] = ahead < small && told ? now[QUIET] + 1.0 : 0.0;
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

/* the first E-step has been taken at x, which is the trial point: its counts are in `after` */
static void begin_climb(const Climbing *c, Climb *k, double fit) {
    double *now = k->now;
    now[CAP] = c->first_cap, now[GAIN] = INFINITY, now[RATIO] = 1.0;
    now[LEVEL] = looked(c, k, fit, k->after, k->u, k->slope, k->root);
    now[LOST] = !(now[LEVEL] > -INFINITY);
    note_level(c, k);
    if (!now[LOST]) choose(c, k, 1, c->room + 3 * c->cells);
}

/* an E-step has been taken at the trial point, whose counts are the first numbers of `room` */
static void go_on(const Climbing *c, Climb *k, double fit) {
    int64_t n = c->cells;
    double *now = k->now, *after = c->room, *u = after + n, *slope = u + n, before = now[FIT];
    double level = looked(c, k, fit, after, u, slope, NULL);
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
        note_level(c, k);
        memcpy(k->x, k->trial, (size_t)n * sizeof(double));
        memcpy(k->after, after, (size_t)n * sizeof(double));
        memcpy(k->u, u, (size_t)n * sizeof(double));
        memcpy(k->slope, slope, (size_t)n * sizeof(double));
    } else {
        now[FIT] = before;
    }
    choose(c, k, good, c->room + 3 * n);
}

#endif
