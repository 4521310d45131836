/* Messages along chains of hidden states: filter, smooth, expected counts, best paths.

   Sequences lie one behind the other, states next to each other: (steps, padded), padded being the
   number of states rounded up to a multiple of WHOLE; what pads is nought (minus infinity in logarithms)
   and stays so. alpha_t = emission_t * (move' alpha_(t-1)), divided by its sum at every EVERY-th
   step of a sequence only; beta comes back through the same divisors, so that sum alpha beta = 1 at
   every step. Emissions are at most one: between two divisions sums only fall. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "level.h"

#define EVERY 8  /* steps between two divisions */
#define BLOCK 32 /* steps whose pairs of states are added up in one product */

typedef double vec __attribute__((vector_size(LANES * sizeof(double)), aligned(8), may_alias));
#define V(p) (*(vec *)(p))
#define C(p) (*(const vec *)(p))
typedef int64_t whole __attribute__((vector_size(LANES * sizeof(int64_t)), aligned(8), may_alias));
#define INLINE static inline __attribute__((always_inline))

typedef struct {
    int64_t padded;              /* states, rounded up to a multiple of WHOLE */
    int64_t sequences;           /* of steps offsets[s] ... offsets[s + 1] - 1 */
    const int64_t *offsets;      /* (sequences + 1) */
    const int64_t *which;        /* (steps) configuration of `start` or of the move; NULL: one each */
    const double *start;         /* (configurations, padded) */
    const double *move;          /* (configurations, padded from, padded to) */
    const double *back;          /* (configurations, padded to, padded from) */
    int64_t lookups;             /* an emission is a product of so many rows of tables, */
    const double *const *tables; /* each (rows, padded) */
    const int64_t *const *rows;  /* each (steps) */
    const double *dense;         /* and of these, (steps, padded); NULL: none */
} Chain;

/* Bodies below are written for any number n of padded states and made once for each small one,
   so that loops over states unroll: n is a constant in them. */
#if defined(ONE_SIZE) /* the same for all, where compilers take long: under a sanitizer */
#define FOR_SIZE(call) call(c->padded);
#else
#define FOR_SIZE(call)                \
    switch (c->padded) {              \
    case 4: call(4); break;           \
    case 8: call(8); break;           \
    case 16: call(16); break;         \
    default: call(c->padded); break;  \
    }
#endif

INLINE int64_t config(const Chain *c, int64_t t) { return c->which ? c->which[t] : 0; }

INLINE const double *move_at(const Chain *c, const double *moves, int64_t t, int64_t n) {
    return moves + config(c, t) * n * n;
}

/* P(cells of step t | state): a row of a table, or a product in `room`; sums where `logs` */
INLINE const double *emission(const Chain *c, int64_t t, double *room, int logs, int64_t n) {
    int64_t l = 0;
    const double *first = c->dense ? c->dense + t * n
                          : c->lookups ? c->tables[0] + c->rows[l++][t] * n
                                       : NULL;
    if (first && l == c->lookups) return first;
    for (int64_t j = 0; j < n; j++) room[j] = first ? first[j] : logs ? 0.0 : 1.0;
    for (; l < c->lookups; l++) {
        const double *row = c->tables[l] + c->rows[l][t] * n;
        if (logs) for (int64_t j = 0; j < n; j += LANES) V(room + j) += C(row + j);
        else for (int64_t j = 0; j < n; j += LANES) V(room + j) *= C(row + j);
    }
    return room;
}

INLINE double sum(const double *x, int64_t n) {
    vec total = C(x);
    for (int64_t j = LANES; j < n; j += LANES) total += C(x + j);
    double found = total[0];
    for (int l = 1; l < LANES; l++) found += total[l];
    return found;
}

/* out_j = by * sum_i x_i M_ij times_j, columns 4 vectors at a time, then one; two sums of each side
   by side, so that none waits for the other. out and x must not overlap. */
INLINE void product(double *restrict out, const double *restrict M, const double *restrict x,
                    const double *restrict times, int64_t n) {
    int64_t j = 0;
    for (; j + 4 * LANES <= n; j += 4 * LANES) {
        vec a0 = {0}, a1 = {0}, a2 = {0}, a3 = {0}, b0 = {0}, b1 = {0}, b2 = {0}, b3 = {0};
        for (int64_t i = 0; i < n; i += 2) {
            const double *p = M + i * n + j, *q = p + n;
            double y = x[i], z = x[i + 1];
            a0 += y * C(p), a1 += y * C(p + LANES), a2 += y * C(p + 2 * LANES), a3 += y * C(p + 3 * LANES);
            b0 += z * C(q), b1 += z * C(q + LANES), b2 += z * C(q + 2 * LANES), b3 += z * C(q + 3 * LANES);
        }
        V(out + j) = (a0 + b0) * C(times + j), V(out + j + LANES) = (a1 + b1) * C(times + j + LANES);
        V(out + j + 2 * LANES) = (a2 + b2) * C(times + j + 2 * LANES), V(out + j + 3 * LANES) = (a3 + b3) * C(times + j + 3 * LANES);
    }
    for (; j < n; j += LANES) {
        vec a = {0}, b = {0};
        for (int64_t i = 0; i < n; i += 2) {
            a += x[i] * C(M + i * n + j);
            b += x[i + 1] * C(M + (i + 1) * n + j);
        }
        V(out + j) = (a + b) * C(times + j);
    }
}

typedef struct {
    double *alpha; /* (steps, padded) */
    double *scale; /* (steps) divisors, 1 where nothing was divided */
    double *ratio; /* (steps) P(cells | cells before); NULL: not asked for */
    double level;  /* the log of all of them */
    double least;  /* the least sum met: where it is too small, small states may be lost */
} Forward;

INLINE int forward_one(const Chain *c, Forward *f, int normal, int64_t begin, int64_t end,
                       double *room, int64_t n) {
    double *now = room, *next = room + n, before = 1.0, total = 1.0, by;
    for (int64_t t = begin; t < end; t++) {
        const double *e = emission(c, t, room + 2 * n, 0, n);
        const double *first = c->start + config(c, t) * n;
        if (t == begin) for (int64_t j = 0; j < n; j += LANES) V(next + j) = C(first + j) * C(e + j);
        else product(next, move_at(c, c->move, t, n), now, e, n);
        int divide = (t - begin) % EVERY == 0;
        if (divide || f->ratio) total = sum(next, n);
        if (f->ratio) f->ratio[t] = total * before;
        if (divide) {
            if (!(total >= f->least)) f->least = total;
            if (!(total > 0.0)) return 0;
            f->level += log(total);
            by = 1.0 / total;
            for (int64_t j = 0; j < n; j += LANES) V(next + j) *= by;
        }
        if (f->scale) f->scale[t] = divide ? total : 1.0;
        by = !divide && f->ratio ? 1.0 / total : 1.0; /* of what is left, to a sum of one */
        before = by;
        if (!normal) by = 1.0;
        for (int64_t j = 0; j < n; j += LANES) V(f->alpha + t * n + j) = C(next + j) * by;
        double *other = now;
        now = next, next = other;
    }
    if (end > begin) {
        double last = sum(now, n);
        if (!(last >= f->least)) f->least = last;
        f->level += log(last);
    }
    return 1;
}

/* Messages forward; where `normal`, of sum one. room: 3 * padded. */
EXPORT void NAME(chain_forward)(const Chain *c, Forward *f, int normal, double *room) {
    f->level = 0.0, f->least = 1.0;
    for (int64_t s = 0, going = 1; going && s < c->sequences; s++) {
#define CALL(n) going = forward_one(c, f, normal, c->offsets[s], c->offsets[s + 1], room, n)
        FOR_SIZE(CALL)
#undef CALL
    }
}

/* pairs_ij += sum over steps of a_ti w_tj: (padded, padded) */
INLINE void add_pairs(double *restrict pairs, const double *restrict a, const double *restrict w,
                      int64_t steps, int64_t n) {
    for (int64_t i = 0; i < n; i += 4)
        for (int64_t j = 0; j < n; j += LANES) {
            double *p = pairs + i * n + j;
            vec p0 = C(p), p1 = C(p + n), p2 = C(p + 2 * n), p3 = C(p + 3 * n);
            for (int64_t t = 0; t < steps; t++) {
                const double *x = a + t * n + i;
                vec y = C(w + t * n + j);
                p0 += x[0] * y, p1 += x[1] * y, p2 += x[2] * y, p3 += x[3] * y;
            }
            V(p) = p0, V(p + n) = p1, V(p + 2 * n) = p2, V(p + 3 * n) = p3;
        }
}

/* What is counted on the way back; pairs and starts NULL where beliefs alone are asked for. */
typedef struct {
    double *pairs;              /* (configurations, padded from, padded to), the move left out */
    double *starts;             /* (configurations, padded) */
    int64_t lookups;            /* cells of so many columns: */
    const int64_t *const *rows; /* each (steps) */
    double *const *counts;      /* each (rows, padded) */
    double farthest;            /* of a sum of beliefs from one */
} Counts;

/* Steps lo ... hi - 1, whose beta and carried messages lie in the rows of two blocks. */
INLINE void add_block(const Chain *c, Counts *to, double *alpha, const double *beta,
                      const double *carried, int64_t lo, int64_t hi, int64_t begin, int64_t n) {
    int64_t from = lo == begin ? lo + 1 : lo;
    if (to->pairs && !c->which)
        add_pairs(to->pairs, alpha + (from - 1) * n, carried + (from - lo) * n, hi - from, n);
    else if (to->pairs)
        for (int64_t t = from; t < hi; t++)
            add_pairs(to->pairs + config(c, t) * n * n, alpha + (t - 1) * n, carried + (t - lo) * n,
                      1, n);
    for (int64_t t = lo; t < hi; t++) {
        double *gamma = alpha + t * n;
        for (int64_t j = 0; j < n; j += LANES) V(gamma + j) *= C(beta + (t - lo) * n + j);
        double total = sum(gamma, n), away = fabs(total - 1.0), by = 1.0 / total;
        if (!(away <= to->farthest)) to->farthest = away;
        if (!to->pairs) for (int64_t j = 0; j < n; j += LANES) V(gamma + j) *= by;
        for (int64_t l = 0; l < to->lookups; l++) {
            double *count = to->counts[l] + to->rows[l][t] * n;
            for (int64_t j = 0; j < n; j += LANES) V(count + j) += C(gamma + j);
        }
        if (to->starts && t == begin)
            for (int64_t j = 0; j < n; j += LANES)
                V(to->starts + config(c, t) * n + j) += C(gamma + j);
    }
}

INLINE void backward_one(const Chain *c, const Forward *f, Counts *to, int64_t begin, int64_t end,
                         double *room, int64_t n) {
    double *beta = room, *carried = room + BLOCK * n, *above = room + 2 * BLOCK * n;
    double *ones = above + n, *product_room = above + 2 * n;
    for (int64_t j = 0; j < n; j++) ones[j] = 1.0;
    for (int64_t hi = end, lo; hi > begin; hi = lo) {
        lo = hi - begin > BLOCK ? hi - BLOCK : begin;
        for (int64_t t = hi - 1; t >= lo; t--) {
            double *b = beta + (t - lo) * n, *w = carried + (t - lo) * n;
            if (t == end - 1) {
                double by = 1.0 / sum(f->alpha + t * n, n);
                for (int64_t j = 0; j < n; j += LANES) V(b + j) = by * C(ones + j);
            } else {
                const double *after = t == hi - 1 ? above : w + n;
                product(b, move_at(c, c->back, t + 1, n), after, ones, n);
            }
            const double *e = emission(c, t, product_room, 0, n);
            double by = (t - begin) % EVERY ? 1.0 : 1.0 / f->scale[t];
            for (int64_t j = 0; j < n; j += LANES) V(w + j) = C(b + j) * (C(e + j) * by);
        }
        add_block(c, to, f->alpha, beta, carried, lo, hi, begin, n);
        for (int64_t j = 0; j < n; j += LANES) V(above + j) = C(carried + j);
    }
}

/* Beliefs in place of alpha, from what chain_forward left; expected counts are added to `to`.
   room: (2 * BLOCK + 3) * padded. */
EXPORT void NAME(chain_backward)(const Chain *c, const Forward *f, Counts *to, double *room) {
    to->farthest = 0.0;
    for (int64_t s = 0; s < c->sequences; s++) {
#define CALL(n) backward_one(c, f, to, c->offsets[s], c->offsets[s + 1], room, n)
        FOR_SIZE(CALL)
#undef CALL
    }
}

/* --- best paths: the same chain in logarithms ------------------------------------------------- */

#if defined(__AVX__)
#include <immintrin.h>
INLINE vec larger(vec a, vec b) { return (vec)_mm256_max_pd((__m256d)a, (__m256d)b); }
#else
INLINE vec larger(vec a, vec b) {
    for (int l = 0; l < LANES; l++) a[l] = a[l] > b[l] ? a[l] : b[l];
    return a;
}
#endif

/* out_j = max_i x_i + M_ij, plus e_j */
INLINE void best_into(double *restrict out, const double *restrict M, const double *restrict x,
                      const double *restrict e, int64_t n) {
    int64_t j = 0;
    for (; j + 4 * LANES <= n; j += 4 * LANES) {
        const double *p = M + j;
        vec a0 = x[0] + C(p), a1 = x[0] + C(p + LANES), a2 = x[0] + C(p + 2 * LANES), a3 = x[0] + C(p + 3 * LANES);
        for (int64_t i = 1; i < n; i++) {
            p += n;
            a0 = larger(a0, x[i] + C(p)), a1 = larger(a1, x[i] + C(p + LANES));
            a2 = larger(a2, x[i] + C(p + 2 * LANES)), a3 = larger(a3, x[i] + C(p + 3 * LANES));
        }
        V(out + j) = a0 + C(e + j), V(out + j + LANES) = a1 + C(e + j + LANES);
        V(out + j + 2 * LANES) = a2 + C(e + j + 2 * LANES), V(out + j + 3 * LANES) = a3 + C(e + j + 3 * LANES);
    }
    for (; j < n; j += LANES) {
        vec a = x[0] + C(M + j);
        for (int64_t i = 1; i < n; i++) a = larger(a, x[i] + C(M + i * n + j));
        V(out + j) = a + C(e + j);
    }
}

/* the first i of the largest x_i + y_i */
INLINE int64_t first_best(const double *x, const double *y, int64_t n) {
    vec top = C(x) + C(y);
    for (int64_t i = LANES; i < n; i += LANES) top = larger(top, C(x + i) + C(y + i));
    double best = top[0];
    for (int l = 1; l < LANES; l++) best = best > top[l] ? best : top[l];
#if defined(__AVX__)
    if (n <= 16 && LANES == 4) { /* all at once: which of few it is cannot be foretold */
        unsigned same = 0;
        for (int64_t i = 0; i < n; i += LANES)
            same |= (unsigned)_mm256_movemask_pd((__m256d)(C(x + i) + C(y + i) == best)) << i;
        return same ? __builtin_ctz(same) : 0;
    }
#endif
    int64_t at = 0;
    while (at < n - 1 && x[at] + y[at] != best) at++;
    return at;
}

/* The same for few states, and from_j the first i of the largest: looked up on the way back. */
INLINE void best_from(double *restrict out, int64_t *restrict from, const double *restrict M,
                      const double *restrict x, const double *restrict e, int64_t n) {
    for (int64_t j = 0; j < n; j += LANES) {
        vec top = {0};
        whole at = {0};
        for (int64_t i = 0; i < n; i += 2) {
            vec a = x[i] + C(M + i * n + j), b = x[i + 1] + C(M + (i + 1) * n + j);
            whole second = (whole)(b > a), here = i - second; /* a mask is -1 */
            vec best = larger(a, b);
            whole later = i ? (whole)(best > top) : ~(whole){0};
            at = (later & here) | (~later & at);
            top = i ? larger(top, best) : best;
        }
        V(out + j) = top + C(e + j);
        *(whole *)(from + j) = at;
    }
}

INLINE double best_of_few(const Chain *c, int64_t *path, int64_t *from, int64_t begin, int64_t end,
                          double *room, int64_t n) {
    double level = 0.0, *noughts = room + n, *now = room + 2 * n, *next = room + 3 * n;
    for (int64_t j = 0; j < n; j++) noughts[j] = 0.0;
    for (int64_t t = begin; t < end; t++) {
        const double *e = emission(c, t, room, 1, n), *first = c->start + config(c, t) * n;
        if (t == begin) for (int64_t j = 0; j < n; j += LANES) V(next + j) = C(first + j) + C(e + j);
        else best_from(next, from + (t - begin) * n, move_at(c, c->move, t, n), now, e, n);
        double *other = now;
        now = next, next = other;
        if ((t - begin) % EVERY) continue;
        double top = now[first_best(now, noughts, n)];
        if (!(top > -INFINITY)) continue;
        level += top;
        for (int64_t j = 0; j < n; j += LANES) V(now + j) -= top;
    }
    if (end == begin) return level;
    path[end - 1] = first_best(now, noughts, n);
    level += now[path[end - 1]];
    for (int64_t t = end - 1; t > begin; t--) path[t - 1] = from[(t - begin) * n + path[t]];
    return level;
}

INLINE double best_one(const Chain *c, int64_t *path, double *score, int64_t begin, int64_t end,
                       double *room, int64_t n) {
    if (n <= 8) return best_of_few(c, path, (int64_t *)score, begin, end, room, n);
    double level = 0.0, *now = score, *noughts = room + n;
    for (int64_t j = 0; j < n; j++) noughts[j] = 0.0;
    for (int64_t t = begin; t < end; t++, now += n) {
        const double *e = emission(c, t, room, 1, n), *first = c->start + config(c, t) * n;
        if (t == begin) for (int64_t j = 0; j < n; j += LANES) V(now + j) = C(first + j) + C(e + j);
        else best_into(now, move_at(c, c->move, t, n), now - n, e, n);
        if ((t - begin) % EVERY) continue; /* else sums grow, and lose digits */
        double top = now[first_best(now, noughts, n)];
        if (!(top > -INFINITY)) continue;
        level += top;
        for (int64_t j = 0; j < n; j += LANES) V(now + j) -= top;
    }
    if (end == begin) return level;
    now -= n;
    path[end - 1] = first_best(now, noughts, n);
    level += now[path[end - 1]];
    for (int64_t t = end - 1; t > begin; t--) {
        now -= n;
        path[t - 1] = first_best(now, move_at(c, c->back, t, n) + path[t] * n, n);
    }
    return level;
}

/* path: the best state of every step; level: its log-probability, of each sequence. score: the
   steps of the longest sequence times padded; room: 4 * padded. */
EXPORT void NAME(chain_best_path)(const Chain *c, int64_t *path, double *level, double *score,
                                  double *room) {
    for (int64_t s = 0; s < c->sequences; s++) {
#define CALL(n) level[s] = best_one(c, path, score, c->offsets[s], c->offsets[s + 1], room, n)
        FOR_SIZE(CALL)
#undef CALL
    }
}
