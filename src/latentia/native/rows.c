/* The exact E-step of a block of rows at a time, rows as lanes: a program of a few operations,
   written once for a junction tree (exact/compiled_rows.py), is gone through for every block.

   A slot is one number for each of BLOCK rows; messages and products are as many slots as they have
   states, and all slots of a block fit into a cache. Formulas: exact/estep.py. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "rows.h"

#define BLOCK 64
#define PARTS (BLOCK / LANES) /* vectors of a slot */
#define TINY 1e-200           /* a product below: the block is left to others, who take care */
#define SMALLEST 1e-300

typedef double vec __attribute__((vector_size(LANES * sizeof(double)), may_alias));
#define INLINE static inline __attribute__((always_inline))

enum { LOOK, LOAD, SPREAD, ONES, RESCALE, MAP, ROOT, BELIEF, PAIRS, MARGINAL, DIVIDE, COUNT, STORE };

INLINE vec *slot(const Program *p, int64_t number) { return (vec *)(p->work + number * BLOCK); }

/* log of positive, normal numbers: the exponent, and 2 artanh((m - 1) / (m + 1)) of the rest m */
static void add_logs(double *restrict to, const double *restrict x) {
    const double ln2 = 0.69314718055994530942, root = 0.70710678118654752440;
    for (int r = 0; r < BLOCK; r++) {
        union { double d; uint64_t u; } bits = {x[r]}, made;
        int32_t power = (int32_t)(bits.u >> 52) - 1022;
        made.u = (bits.u & 0xFFFFFFFFFFFFFull) | 0x3FE0000000000000ull; /* in [1/2, 1) */
        double m = made.d;
        double low = m < root ? 1.0 : 0.0;
        m += m * low;
        double s = (m - 1.0) / (m + 1.0), q = s * s, sum = 1.0 / 23;
        sum = sum * q + 1.0 / 21, sum = sum * q + 1.0 / 19, sum = sum * q + 1.0 / 17;
        sum = sum * q + 1.0 / 15, sum = sum * q + 1.0 / 13, sum = sum * q + 1.0 / 11;
        sum = sum * q + 1.0 / 9, sum = sum * q + 1.0 / 7, sum = sum * q + 1.0 / 5;
        sum = sum * q + 1.0 / 3;
        to[r] += ((double)power - low) * ln2 + (2.0 * s + 2.0 * s * q * sum);
    }
}

#if LANES == 4
typedef double loose __attribute__((vector_size(LANES * sizeof(double)), aligned(8), may_alias));
#if defined(__clang__)
#define PICK(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
typedef int64_t picks __attribute__((vector_size(LANES * sizeof(int64_t))));
#define PICK(a, b, i, j, k, l) __builtin_shuffle(a, b, (picks){i, j, k, l})
#endif

/* four rows of four numbers become four columns */
INLINE void transpose(vec x[4]) {
    vec a = PICK(x[0], x[1], 0, 4, 2, 6), b = PICK(x[0], x[1], 1, 5, 3, 7);
    vec c = PICK(x[2], x[3], 0, 4, 2, 6), d = PICK(x[2], x[3], 1, 5, 3, 7);
    x[0] = PICK(a, c, 0, 1, 4, 5), x[1] = PICK(b, d, 0, 1, 4, 5);
    x[2] = PICK(a, c, 2, 3, 6, 7), x[3] = PICK(b, d, 2, 3, 6, 7);
}

/* `look` and `count` of states in fours: the states of a code lie together */
static void look_fours(double *restrict out, const double *restrict table,
                       const int32_t *restrict codes, int states, int times) {
    for (int r = 0; r < BLOCK; r += 4)
        for (int s = 0; s < states; s += 4) {
            vec x[4];
            for (int i = 0; i < 4; i++) x[i] = *(const loose *)(table + codes[r + i] * states + s);
            transpose(x);
            for (int i = 0; i < 4; i++) {
                vec *to = (vec *)(out + (s + i) * BLOCK + r);
                if (times) *to *= x[i];
                else *to = x[i];
            }
        }
}

static void count_fours(double *restrict counts, const double *restrict belief,
                        const int32_t *restrict codes, int states) {
    for (int r = 0; r < BLOCK; r += 4)
        for (int s = 0; s < states; s += 4) {
            vec x[4];
            for (int i = 0; i < 4; i++) x[i] = *(const vec *)(belief + (s + i) * BLOCK + r);
            transpose(x);
            for (int i = 0; i < 4; i++) *(loose *)(counts + codes[r + i] * states + s) += x[i];
        }
}
#endif

/* factors of a pack, picked by the codes of rows: from (codes, states) to slots */
static void look(double *restrict out, const double *restrict table, const int32_t *restrict codes,
                 int states, int times) {
#if LANES == 4
    if (states % 4 == 0) {
        look_fours(out, table, codes, states, times);
        return;
    }
#endif
    for (int s = 0; s < states; s++) {
        double *to = out + s * BLOCK;
        const double *from = table + s;
        if (times) for (int r = 0; r < BLOCK; r++) to[r] *= from[codes[r] * states];
        else for (int r = 0; r < BLOCK; r++) to[r] = from[codes[r] * states];
    }
}

/* sums of beliefs by code, (codes, states) */
static void count(double *restrict counts, const double *restrict belief,
                  const int32_t *restrict codes, int states) {
#if LANES == 4
    if (states % 4 == 0) {
        count_fours(counts, belief, codes, states);
        return;
    }
#endif
    for (int r = 0; r < BLOCK; r++)
        for (int s = 0; s < states; s++) counts[codes[r] * states + s] += belief[s * BLOCK + r];
}

/* out_b = sum_c M[b * row + c * column] in_c, times `by` unless NULL, of up to three b */
INLINE void outputs(vec *restrict out, const vec *restrict in, const double *restrict M, int nb,
                    int nc, int row, int column, const vec *restrict by) {
    for (int k = 0; k < PARTS; k++) {
        vec made[3] = {{0}, {0}, {0}};
        for (int c = 0; c < nc; c++) {
            vec x = in[c * PARTS + k];
            for (int b = 0; b < nb; b++) made[b] += M[b * row + c * column] * x;
        }
        for (int b = 0; b < nb; b++) {
            if (by) made[b] *= by[b * PARTS + k];
            out[b * PARTS + k] = made[b];
        }
    }
}

/* the same of all b */
static void matrix(vec *restrict out, const vec *restrict in, const double *restrict M, int nb,
                   int nc, int row, int column, const vec *restrict by) {
    int b = 0;
    for (; b + 4 <= nb; b += 4)
        for (int k = 0; k < PARTS; k += 2) {
            vec a0 = {0}, a1 = {0}, a2 = {0}, a3 = {0}, e0 = {0}, e1 = {0}, e2 = {0}, e3 = {0};
            for (int c = 0; c < nc; c++) {
                const double *m = M + b * row + c * column;
                vec x = in[c * PARTS + k], y = in[c * PARTS + k + 1];
                a0 += m[0] * x, e0 += m[0] * y, a1 += m[row] * x, e1 += m[row] * y;
                a2 += m[2 * row] * x, e2 += m[2 * row] * y, a3 += m[3 * row] * x, e3 += m[3 * row] * y;
            }
            vec made[4][2] = {{a0, e0}, {a1, e1}, {a2, e2}, {a3, e3}};
            for (int i = 0; i < 4; i++) {
                int64_t at = (b + i) * PARTS + k;
                if (by) made[i][0] *= by[at], made[i][1] *= by[at + 1];
                out[at] = made[i][0], out[at + 1] = made[i][1];
            }
        }
    if (nb - b == 3) outputs(out + b * PARTS, in, M + b * row, 3, nc, row, column, by ? by + b * PARTS : NULL);
    if (nb - b == 2) outputs(out + b * PARTS, in, M + b * row, 2, nc, row, column, by ? by + b * PARTS : NULL);
    if (nb - b == 1) outputs(out + b * PARTS, in, M + b * row, 1, nc, row, column, by ? by + b * PARTS : NULL);
}

#define APART (WHOLE / LANES) /* vectors from one sum to the next */

/* sums_bc += sum over rows of D_b P_c, lane by lane, of few b and c: all sums are in registers */
INLINE void tile(vec *restrict sums, const vec *restrict D, const vec *restrict P, int nb, int nc,
                 int width) {
    vec made[3][4];
    for (int b = 0; b < nb; b++)
        for (int c = 0; c < nc; c++) made[b][c] = sums[(b * width + c) * APART];
    for (int k = 0; k < PARTS; k++)
        for (int b = 0; b < nb; b++) {
            vec x = D[b * PARTS + k];
            for (int c = 0; c < nc; c++) made[b][c] += x * P[c * PARTS + k];
        }
    for (int b = 0; b < nb; b++)
        for (int c = 0; c < nc; c++) sums[(b * width + c) * APART] = made[b][c];
}

/* the same of all b and c */
static void pairs(vec *restrict sums, const vec *restrict D, const vec *restrict P, int nb, int nc) {
    for (int b = 0, some; b < nb; b += some) {
        some = nb - b == 3 ? 3 : nb - b == 1 ? 1 : 2;
        for (int c = 0; c < nc; c += 4) {
            vec *to = sums + (b * nc + c) * APART;
            const vec *d = D + b * PARTS, *p = P + c * PARTS;
            switch (4 * some + (nc - c > 4 ? 4 : nc - c)) {
#define TILE(b, c) case 4 * b + c: tile(to, d, p, b, c, nc); break;
                TILE(1, 1) TILE(1, 2) TILE(1, 3) TILE(1, 4)
                TILE(2, 1) TILE(2, 2) TILE(2, 3) TILE(2, 4)
                TILE(3, 1) TILE(3, 2) TILE(3, 3) TILE(3, 4)
            }
        }
    }
}

/* is one of them too small, or no number? */
static int any_tiny(const double *x) {
    int64_t found = 0;
    for (int r = 0; r < BLOCK; r++) found |= !(x[r] > TINY);
    return found != 0;
}

/* divide by the largest of all states, whose log is kept; 0 where that is too small */
static int rescale(double *x, int states, double *logs) {
    double top[BLOCK];
    memcpy(top, x, sizeof top);
    for (int s = 1; s < states; s++)
        for (int r = 0; r < BLOCK; r++) top[r] = top[r] > x[s * BLOCK + r] ? top[r] : x[s * BLOCK + r];
    if (any_tiny(top)) return 0;
    add_logs(logs, top);
    for (int r = 0; r < BLOCK; r++) top[r] = 1.0 / top[r];
    for (int s = 0; s < states; s++)
        for (int r = 0; r < BLOCK; r++) x[s * BLOCK + r] *= top[r];
    return 1;
}

/* the message of a root is P(row): weight / P(row) goes down; 0 where it is too small */
static int root(double *down, const double *Z, const double *weight, double *logs) {
    if (any_tiny(Z)) return 0;
    add_logs(logs, Z);
    for (int r = 0; r < BLOCK; r++) down[r] = weight[r] / Z[r];
    return 1;
}

/* one operation on n rows from `first`; 0 where numbers come too near the smallest */
static int perform(const Program *p, const Op *q, int64_t first, int n, int64_t rows,
                   const double *weight, double *logs) {
    vec *out = slot(p, q->out);
    const int32_t *index = p->index + (q->at < 0 ? 0 : q->at);
    int states = q->lower;
    switch (q->kind) {
    case LOOK:
        look((double *)out, p->tables + q->at, p->block_codes + q->in * BLOCK, states, q->times);
        break;
    case LOAD: /* rows beyond the last are as the last one */
        for (int s = 0; s < states; s++)
            for (int r = 0; r < BLOCK; r++) {
                double x = p->dense[q->in][s * rows + first + (r < n ? r : n - 1)];
                double *to = (double *)out + s * BLOCK + r;
                *to = q->times ? *to * x : x;
            }
        break;
    case SPREAD:
        for (int s = 0; s < states; s++) {
            const vec *from = slot(p, q->in) + (int64_t)(q->at < 0 ? s : index[s]) * PARTS;
            vec *to = out + (int64_t)s * PARTS;
            if (q->times) for (int k = 0; k < PARTS; k++) to[k] *= from[k];
            else for (int k = 0; k < PARTS; k++) to[k] = from[k];
        }
        break;
    case ONES:
        for (int r = 0; r < states * BLOCK; r++) ((double *)out)[r] = 1.0;
        break;
    case RESCALE: return rescale((double *)out, states, logs);
    case ROOT: return root((double *)out, (double *)slot(p, q->in), weight, logs);
    case MAP:
        for (int64_t a = 0; a < q->shared; a++)
            matrix(out + a * q->upper * PARTS, slot(p, q->in + a * q->lower),
                   p->maps + q->at + a * q->upper * q->lower, q->upper, q->lower, q->lower, 1, NULL);
        break;
    case BELIEF:
        for (int64_t a = 0; a < q->shared; a++)
            matrix(out + a * q->lower * PARTS, slot(p, q->in + a * q->upper),
                   p->maps + q->at + a * q->upper * q->lower, q->lower, q->upper, 1, q->lower,
                   slot(p, q->other + a * q->lower));
        break;
    case PAIRS:
        for (int64_t a = 0; a < q->shared; a++)
            pairs((vec *)(p->pairs + (q->at + a * q->upper * q->lower) * WHOLE), slot(p, q->in + a * q->upper),
                  slot(p, q->other + a * q->lower), q->upper, q->lower);
        break;
    case MARGINAL: /* from `lower` joint states to `upper` states of the scope */
        memset(out, 0, sizeof(vec) * PARTS * (size_t)q->upper);
        for (int s = 0; s < states; s++) {
            const vec *from = slot(p, q->in + s);
            vec *to = out + (int64_t)index[s] * PARTS;
            for (int k = 0; k < PARTS; k++) to[k] += from[k];
        }
        break;
    case DIVIDE: {
        const double *from = (double *)slot(p, q->in), *by = (double *)slot(p, q->other);
        for (int r = 0; r < states * BLOCK; r++)
            ((double *)out)[r] = from[r] / (by[r] > SMALLEST ? by[r] : SMALLEST);
        break;
    }
    case COUNT:
        count(p->counts + q->at, (double *)slot(p, q->out), p->block_codes + q->in * BLOCK, states);
        break;
    case STORE:
        for (int s = 0; s < states; s++)
            memcpy(p->beliefs[q->in] + s * rows + first, (double *)out + s * BLOCK,
                   sizeof(double) * (size_t)n);
        break;
    }
    return 1;
}

EXPORT int64_t NAME(rows_estep)(const Program *p, int64_t first, int64_t rows) {
    for (; first < rows; first += BLOCK) {
        int n = rows - first < BLOCK ? (int)(rows - first) : BLOCK;
        double logs[BLOCK] = {0}, weight[BLOCK];
        for (int64_t k = 0; k < p->packs; k++) {
            int32_t *to = p->block_codes + k * BLOCK, out = 0;
            for (int r = 0; r < n; r++) {
                to[r] = p->codes[k][first + r];
                out |= (to[r] < 0) | (to[r] >= p->sizes[k]);
            }
            if (out) return -1;
            for (int r = n; r < BLOCK; r++) to[r] = to[n - 1];
        }
        for (int r = 0; r < BLOCK; r++)
            weight[r] = r < n ? (p->weight ? p->weight[first + r] : 1.0) : 0.0;
        for (const Op *q = p->ops; q < p->ops + p->count; q++)
            if (!perform(p, q, first, n, rows, weight, logs)) return first;
        memcpy(p->logs + first, logs, sizeof(double) * (size_t)n);
    }
    return rows;
}
