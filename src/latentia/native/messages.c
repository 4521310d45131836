/* Messages of an elimination tree towards one place, for blocks of rows (inference/message_program.py):
   the whole way of a block stays in the innermost cache. A program is a list of operations on slots;
   a slot holds one number for each row of the block, a message has a slot for each of its states. */
#include "level.h"
#include <math.h>
#include <string.h>

typedef double vec __attribute__((vector_size(LANES * sizeof(double)), aligned(8), may_alias));
#define BLOCK 16              /* rows */
#define PARTS (BLOCK / LANES) /* vectors of a slot */
#define MOST_PAIRS 1024       /* products of a row in one operation */
#define MOST_STATES 16        /* of a message that STEP makes */
#define INLINE static inline __attribute__((always_inline))

enum { ONES, GATHER, OUTER, PAIR, DOT, RESCALE, STEP };

typedef struct {
    int32_t kind;
    int32_t out, x, y;  /* first slots; x of GATHER and STEP: number of the index */
    int32_t at, alone;  /* where its matrices or its table begin, and what each row tells alone */
    int32_t na, nb, nc; /* states of x, y and out; na of GATHER and STEP: rows of the table */
} Op;

typedef struct {
    const Op *ops;
    int64_t count;
    const double *tables;
    const int16_t *const *index; /* of each GATHER (rows): a row of its table, -1 the last one */
    double *work;                /* slots */
    int64_t result, states;      /* slots of the message asked for */
    double *out;                 /* (states, rows) */
    double *log;                 /* (rows): the message is out exp(log) */
    double *alone;               /* (rows): sums of what is told alone */
} Messages;

/* out_c = sum over a, b of M[c, a, b] x_a y_b */
static void pair(double *restrict out, const double *restrict M, const double *restrict x,
                 const double *restrict y, int na, int nb, int nc) {
    const vec *X = (const vec *)x, *Y = (const vec *)y;
    vec products[MOST_PAIRS * PARTS], *to = (vec *)out;
    int count = na * nb, c = 0;
    for (int a = 0; a < na; a++)
        for (int b = 0; b < nb; b++)
            for (int k = 0; k < PARTS; k++)
                products[(a * nb + b) * PARTS + k] = X[a * PARTS + k] * Y[b * PARTS + k];
    for (; c + 4 <= nc; c += 4)
        for (int k = 0; k < PARTS; k += 2) {
            const double *m = M + (int64_t)c * count;
            vec a0 = {0}, a1 = {0}, a2 = {0}, a3 = {0}, e0 = {0}, e1 = {0}, e2 = {0}, e3 = {0};
            for (int i = 0; i < count; i++, m++) {
                vec p = products[i * PARTS + k], q = products[i * PARTS + k + 1];
                a0 += m[0] * p, e0 += m[0] * q, a1 += m[count] * p, e1 += m[count] * q;
                a2 += m[2 * count] * p, e2 += m[2 * count] * q;
                a3 += m[3 * count] * p, e3 += m[3 * count] * q;
            }
            to[c * PARTS + k] = a0, to[c * PARTS + k + 1] = e0;
            to[(c + 1) * PARTS + k] = a1, to[(c + 1) * PARTS + k + 1] = e1;
            to[(c + 2) * PARTS + k] = a2, to[(c + 2) * PARTS + k + 1] = e2;
            to[(c + 3) * PARTS + k] = a3, to[(c + 3) * PARTS + k + 1] = e3;
        }
    for (; c < nc; c++)
        for (int k = 0; k < PARTS; k++) {
            vec sum = {0};
            for (int i = 0; i < count; i++)
                sum += M[(int64_t)c * count + i] * products[i * PARTS + k];
            to[c * PARTS + k] = sum;
        }
}

/* divide by the largest magnitude of all states, whose log is kept */
static void rescale(double *x, int states, double *log_of) {
    double top[BLOCK] = {0};
    for (int s = 0; s < states; s++)
        for (int r = 0; r < BLOCK; r++) {
            double size = fabs(x[s * BLOCK + r]);
            top[r] = top[r] > size ? top[r] : size;
        }
    for (int r = 0; r < BLOCK; r++) {
        top[r] = top[r] > 0 ? top[r] : 1.0;
        log_of[r] += log(top[r]);
    }
    for (int s = 0; s < states; s++)
        for (int r = 0; r < BLOCK; r++) x[s * BLOCK + r] /= top[r];
}

/* which row of its table each row of the block reads, and what that tells alone; 0: no such row */
INLINE int look(const Messages *p, const Op *q, int64_t first, int n, int *at, double *alone) {
    const int16_t *index = p->index[q->x] + first;
    const double *told = p->tables + q->alone;
    int odd = 0;
    for (int r = 0; r < BLOCK; r++) {
        int i = index[r < n ? r : n - 1];
        i = i < 0 ? i + q->na : i;
        odd |= (i < 0) | (i >= q->na);
        at[r] = i;
    }
    if (odd) return 0;
    for (int r = 0; r < BLOCK; r++) alone[r] += told[at[r]];
    return 1;
}

/* rows of a table */
INLINE void gather(const Messages *p, const Op *q, const int *at, int nc) {
    double *out = p->work + (int64_t)q->out * BLOCK;
    for (int r = 0; r < BLOCK; r++) {
        const double *row = p->tables + q->at + (int64_t)at[r] * nc;
        for (int s = 0; s < nc; s++) out[s * BLOCK + r] = row[s];
    }
}

/* out_c = sum_b M[i, b, c] y_b, the matrix picked by the evidence i of each row */
INLINE void pick(const Messages *p, const Op *q, const int *at, int nb, int nc) {
    double *out = p->work + (int64_t)q->out * BLOCK;
    const double *y = p->work + (int64_t)q->y * BLOCK;
    for (int r = 0; r < BLOCK; r++) {
        const double *M = p->tables + q->at + (int64_t)at[r] * nb * nc;
        double sums[MOST_STATES] = {0};
        for (int b = 0; b < nb; b++)
            for (int c = 0; c < nc; c++) sums[c] += M[b * nc + c] * y[b * BLOCK + r];
        for (int c = 0; c < nc; c++) out[c * BLOCK + r] = sums[c];
    }
}

/* of sizes that are met most often the loops are unrolled */
static int picked(const Messages *p, const Op *q, int64_t first, int n, double *alone) {
    int at[BLOCK];
    if (!look(p, q, first, n, at, alone)) return 0;
    if (q->kind == GATHER) {
        if (q->nc == 4) gather(p, q, at, 4);
        else gather(p, q, at, q->nc);
    } else if (q->nb == 4 && q->nc == 4) pick(p, q, at, 4, 4);
    else if (q->nb == 2 && q->nc == 2) pick(p, q, at, 2, 2);
    else if (q->nb == 3 && q->nc == 3) pick(p, q, at, 3, 3);
    else pick(p, q, at, q->nb, q->nc);
    return 1;
}

static int perform(const Messages *p, const Op *q, int64_t first, int n, double *logs, double *alone) {
    double *out = p->work + (int64_t)q->out * BLOCK;
    const double *x = p->work + (int64_t)q->x * BLOCK, *y = p->work + (int64_t)q->y * BLOCK;
    switch (q->kind) {
    case ONES:
        for (int r = 0; r < BLOCK; r++) out[r] = 1.0;
        break;
    case GATHER:
    case STEP: return picked(p, q, first, n, alone);
    case OUTER:
        for (int a = 0; a < q->na; a++)
            for (int b = 0; b < q->nb; b++)
                for (int r = 0; r < BLOCK; r++)
                    out[(a * q->nb + b) * BLOCK + r] = x[a * BLOCK + r] * y[b * BLOCK + r];
        break;
    case PAIR: pair(out, p->tables + q->at, x, y, q->na, q->nb, q->nc); break;
    case DOT:
        for (int r = 0; r < BLOCK; r++) out[r] = 0.0;
        for (int a = 0; a < q->na; a++)
            for (int r = 0; r < BLOCK; r++) out[r] += x[a * BLOCK + r] * y[a * BLOCK + r];
        break;
    case RESCALE: rescale(out, q->nc, logs); break;
    }
    return 1;
}

/* 1 if all rows are done; 0 if there is a number that is not finite, or an index out of bounds */
EXPORT int NAME(message_rows)(const Messages *p, int64_t rows) {
    double odd = 0.0;
    for (int64_t i = 0; i < p->count; i++)
        if ((p->ops[i].kind == PAIR && p->ops[i].na * p->ops[i].nb > MOST_PAIRS) ||
            (p->ops[i].kind == STEP && p->ops[i].nc > MOST_STATES))
            return 0;
    for (int64_t first = 0; first < rows; first += BLOCK) {
        int n = rows - first < BLOCK ? (int)(rows - first) : BLOCK;
        double logs[BLOCK] = {0}, alone[BLOCK] = {0};
        for (const Op *q = p->ops; q < p->ops + p->count; q++)
            if (!perform(p, q, first, n, logs, alone)) return 0;
        for (int64_t s = 0; s < p->states; s++) {
            const double *from = p->work + (p->result + s) * BLOCK;
            for (int r = 0; r < BLOCK; r++) odd += from[r] * 0.0; /* stays odd once it is */
            memcpy(p->out + s * rows + first, from, sizeof(double) * (size_t)n);
        }
        memcpy(p->log + first, logs, sizeof(double) * (size_t)n);
        memcpy(p->alone + first, alone, sizeof(double) * (size_t)n);
    }
    return odd == 0.0;
}
