/* Mini-batch EM of islands below a tree of latents (discovery/compiled_islands.py), single precision.

   Rows are codes, from which the few features of an island that are one follow: their weights are
   added up, and the row's posterior is added to their counts. Links of latents are matrix products,
   which the caller's BLAS does. Messages lie row by row, states padded to a multiple of EIGHT. */
#include "island_tables.h"
#include "level.h"
#include <math.h>

#define SCALED_EVERY 3 /* messages multiplied before they are scaled */

typedef void (*Multiply)(const char *, const char *, const int *, const int *, const int *,
                         const float *, const float *, const int *, const float *, const int *,
                         const float *, float *, const int *); /* sgemm of Fortran */

typedef struct {
    int64_t islands, columns; /* how many; columns of the rows */
    int64_t size;             /* numbers of all tables */
    int64_t chunk;            /* rows at a time */
    int64_t wide;             /* features of a row that are one, at most */
    const Island *island;
    const IslandColumn *column; /* island by island */
    const int64_t *order;       /* of islands, those above first */
    const int64_t *children;    /* island by island */
    const float *bells;
    const int32_t *codes; /* (rows, columns); -1: a hole */
    const float *weight;  /* (rows), or none */
    Multiply multiply;
    float pseudo_count;
    float *messages;  /* room for those of a chunk */
    float *counts;    /* … for counts of a batch, (size) */
    float *cells;     /* … for the M-step */
    int32_t *active;  /* … (islands, chunk, wide): features that are one, after how many they are */
    int32_t *seen;    /* … (chunk, columns): codes of rows that lie anywhere */
    double *logs;     /* … (chunk) */
} Islands;

/* C (rows, n) = A (rows, m) B' where B is (n, m), or B itself (m, n); C += A' B for counts */
static void times_transposed(const Islands *c, int64_t rows, int64_t n, int64_t m, const float *a,
                             const float *b, float *out) {
    int N = (int)n, R = (int)rows, M = (int)m;
    float one = 1.0f, none = 0.0f;
    c->multiply("T", "N", &N, &R, &M, &one, b, &M, a, &M, &none, out, &N);
}

static void times(const Islands *c, int64_t rows, int64_t n, int64_t m, const float *a,
                  const float *b, float *out) {
    int N = (int)n, R = (int)rows, M = (int)m;
    float one = 1.0f, none = 0.0f;
    c->multiply("N", "N", &N, &R, &M, &one, b, &N, a, &M, &none, out, &N);
}

static void add_pairs(const Islands *c, int64_t rows, int64_t n, int64_t m, const float *a,
                      const float *b, float *out) {
    int N = (int)n, R = (int)rows, M = (int)m;
    float one = 1.0f;
    c->multiply("N", "T", &N, &M, &R, &one, b, &N, a, &M, &one, out, &N);
}

/* which features of an island are one in a row; how many come first. Which of them stay is no branch:
   the processor could not guess it. */
static void find_active(const Islands *c, const Island *own, const int32_t *codes, int32_t *active) {
    int32_t count = 0;
    for (const IslandColumn *x = c->column + own->first; x < c->column + own->end; x++) {
        int64_t s = codes[x->column], t = x->parent < 0 ? 0 : codes[x->parent];
        if (x->no_holes) {
            active[count + 1] = (int32_t)(x->single + s - 1);
            count += s > 0;
            if (x->parent < 0) continue;
            active[count + 1] = (int32_t)(x->pair + (t - 1) * (x->states - 1) + s - 1);
            count += (s > 0) & (t > 0);
        } else {
            active[count + 1] = (int32_t)(x->parent < 0 ? x->single + s : x->pair + t * x->states + s);
            count += (s >= 0) & (t >= 0);
        }
    }
    active[0] = count;
}

/* exp(sum of weights - largest), (n); the largest */
static float local_belief(const float *weights, const int32_t *active, int64_t n, float *belief) {
    singles top = all_of(NEVER);
    int64_t j = 0;
    for (; j + 4 * EIGHT <= n; j += 4 * EIGHT) {
        singles a = FROM(weights + j), b = FROM(weights + j + 8), e = FROM(weights + j + 16);
        singles f = FROM(weights + j + 24);
        for (int32_t i = 1; i <= active[0]; i++) {
            const float *row = weights + active[i] * n + j;
            a += FROM(row), b += FROM(row + 8), e += FROM(row + 16), f += FROM(row + 24);
        }
        AT(belief + j) = a, AT(belief + j + 8) = b, AT(belief + j + 16) = e, AT(belief + j + 24) = f;
        top = larger(top, larger(larger(a, b), larger(e, f)));
    }
    for (; j < n; j += EIGHT) {
        singles a = FROM(weights + j);
        for (int32_t i = 1; i <= active[0]; i++) a += FROM(weights + active[i] * n + j);
        AT(belief + j) = a, top = larger(top, a);
    }
    float most = largest_of(top);
    for (j = 0; j < n; j += EIGHT) AT(belief + j) = exponential_of(FROM(belief + j) - most);
    return most;
}

static double scale(float *belief, int64_t n) {
    float total = sum_row(belief, n);
    total = total > TINY ? total : TINY;
    singles by = all_of(1.0f / total);
    for (int64_t j = 0; j < n; j += EIGHT) AT(belief + j) *= by;
    return log(total);
}

/* beliefs and messages of some rows by number, and log P(row) */
static void upwards(const Islands *c, const float *tables, const int64_t *rows, int64_t many) {
    memset(c->logs, 0, (size_t)many * sizeof(double));
    for (int64_t r = 0; r < many; r++)
        memcpy(c->seen + r * c->columns, c->codes + rows[r] * c->columns,
               (size_t)c->columns * sizeof(int32_t));
    for (int64_t place = c->islands - 1; place >= 0; place--) {
        int64_t number = c->order[place];
        const Island *own = c->island + number;
        int64_t n = own->padded;
        float *beliefs = c->messages + own->belief, *sent = c->messages + own->sent;
        for (int64_t r = 0; r < many; r++) {
            int32_t *active = c->active + (number * c->chunk + r) * c->wide;
            find_active(c, own, c->seen + r * c->columns, active);
            c->logs[r] += local_belief(tables + own->weights, active, n, beliefs + r * n);
        }
        for (int64_t i = own->first_child; i < own->end_child; i++) {
            const float *from = c->messages + c->island[c->children[i]].sent;
            for (int64_t j = 0; j < many * n; j += EIGHT) AT(beliefs + j) *= FROM(from + j);
            if ((i + 1 - own->first_child) % SCALED_EVERY == 0)
                for (int64_t r = 0; r < many; r++) c->logs[r] += scale(beliefs + r * n, n);
        }
        for (int64_t r = 0; r < many; r++) c->logs[r] += scale(beliefs + r * n, n);
        times_transposed(c, many, own->above_padded, n, beliefs, tables + own->links, sent);
        if (own->above < 0)
            for (int64_t r = 0; r < many; r++) c->logs[r] += log(sent[r]);
    }
}

/* posteriors of the rows of which messages are there, added to counts (links less their tables) */
static void downwards(const Islands *c, const float *tables, const int64_t *rows, int64_t many) {
    for (int64_t place = 0; place < c->islands; place++) {
        int64_t number = c->order[place];
        const Island *own = c->island + number;
        int64_t n = own->padded, m = own->above_padded;
        const float *beliefs = c->messages + own->belief;
        float *ratio = c->messages + own->sent, *told = c->messages + own->told;
        float *counts = c->counts + own->weights;
        if (own->above < 0) {
            for (int64_t r = 0; r < many; r++)
                ratio[r] = (c->weight ? c->weight[rows[r]] : 1.0f) / (ratio[r] + TINY);
        } else {
            const float *above = c->messages + c->island[own->above].told;
            for (int64_t j = 0; j < many * m; j += EIGHT)
                AT(ratio + j) = FROM(above + j) / (FROM(ratio + j) + TINY);
        }
        add_pairs(c, many, n, m, ratio, beliefs, c->counts + own->links);
        times(c, many, n, m, ratio, tables + own->links, told);
        for (int64_t r = 0; r < many; r++) {
            const int32_t *active = c->active + (number * c->chunk + r) * c->wide;
            float *q = told + r * n;
            for (int64_t j = 0; j < n; j += EIGHT)
                AT(counts + j) += AT(q + j) *= FROM(beliefs + r * n + j);
            for (int32_t i = 1; i <= active[0]; i++) {
                float *count = counts + active[i] * n;
                for (int64_t j = 0; j < n; j += EIGHT) AT(count + j) += FROM(q + j);
            }
        }
    }
}

/* expected counts of some rows by number, into c->counts, unless they are not asked for; log P(row)
   into logs, unless there is no room for them */
static void expect(const Islands *c, const float *tables, const int64_t *rows, int64_t many,
                   int counted, double *logs) {
    if (counted) memset(c->counts, 0, (size_t)c->size * sizeof(float));
    for (int64_t first = 0; first < many; first += c->chunk) {
        int64_t some = many - first < c->chunk ? many - first : c->chunk;
        upwards(c, tables, rows + first, some);
        if (logs) memcpy(logs + first, c->logs, (size_t)some * sizeof(double));
        if (counted) downwards(c, tables, rows + first, some);
    }
    if (!counted) return;
    for (const Island *own = c->island; own < c->island + c->islands; own++)
        for (int64_t j = own->links; j < own->links + own->above_padded * own->padded; j += EIGHT)
            AT(c->counts + j) *= FROM(tables + j);
}

EXPORT void NAME(islands_expect)(const Islands *c, const float *tables, const int64_t *rows,
                                 int64_t many, int64_t counted, double *logs) {
    expect(c, tables, rows, many, (int)counted, logs);
}

EXPORT void NAME(islands_maximise)(const Islands *c, const float *counts, float *tables) {
    maximise_tables(c->island, c->islands, c->column, c->bells, c->pseudo_count, counts, tables, c->cells);
}

/* Batches of rows: counts <- own counts + share of the batch's, and the M-step, after each. */
EXPORT void NAME(islands_batches)(const Islands *c, const int64_t *rows, const int64_t *ends,
                                  int64_t batches, const float *own, const float *share,
                                  float *counts, float *tables) {
    for (int64_t b = 0; b < batches; b++) {
        int64_t first = b ? ends[b - 1] : 0;
        expect(c, tables, rows + first, ends[b] - first, 1, 0);
        for (int64_t j = 0; j < c->size; j += EIGHT)
            AT(counts + j) = own[b] * FROM(counts + j) + share[b] * FROM(c->counts + j);
        NAME(islands_maximise)(c, counts, tables);
    }
}
