/* Sums of products of coordinates over rows (closed_form/compiled_windows.py).

   The coordinates of a row are sums of rows of tables, one for each few neighbouring leaves, picked by
   their joint code; all of them lie one after the other, each vector of coordinates rounded up to WHOLE
   numbers. A product of three is added to the sums of the code of its first factor, where that is a
   leaf: what that leaf tells of its codes is multiplied in once, when all rows are done. */
#include <stddef.h>
#include <string.h>

#include "level.h"

#define BLOCK 16 /* rows whose coordinates stay in the innermost cache while table after table is added */

typedef double vec __attribute__((vector_size(LANES * sizeof(double)), aligned(8), may_alias));
#define INLINE static inline __attribute__((always_inline))

typedef struct {
    int32_t leaf;           /* whose code picks a row of sums; -1: `a` are coordinates */
    int32_t a, b, c;        /* where factors begin among the values of a row */
    int32_t b_leaf, c_leaf; /* or whose own coordinates they are; -1: nobody's */
    int32_t na, nb, nc;     /* numbers of factors; nc rounded up to WHOLE */
    int32_t at;             /* where its sums begin: (na or codes, nb, nc) */
} Product;

typedef struct {
    int64_t leaves;
    const int16_t *const *codes; /* of each leaf (rows), -1 for missing */
    const int32_t *states;       /* of each leaf; one more code stands for missing cells */
    int64_t groups;              /* of leaves: the next ones in order */
    const int32_t *members;      /* how many leaves each has */
    const double *tables;
    const int64_t *tables_at;    /* where the table of each group begins: (joint codes, its width) */
    const int32_t *widths;
    const int32_t *runs_at;      /* where the runs of each group begin, and where the last ones end */
    const int32_t *runs;         /* (runs, 2): values from ... to, which the table tells one by one */
    int64_t width;               /* values of a row */
    const double *base;          /* (width) before any leaf is added */
    const double *own;           /* coordinates of leaves by code */
    const int64_t *own_at;       /* where those of each leaf begin: (states + 1, own_width) */
    const int32_t *own_width;
    const Product *products;
    int64_t count;
    const double *weight;        /* (rows) or NULL */
    double *values;              /* (BLOCK, width) to work in */
    int32_t *block_codes;        /* (leaves, BLOCK) to work in */
    double *sums;
} Sums;

/* what leaves tell of all rows of a block, some of them at once */
static void add_leaves(const Sums *p, int n) {
    for (int64_t g = 0, x = 0; g < p->groups; g++) {
        int64_t joint[BLOCK] = {0};
        for (int64_t end = x + p->members[g]; x < end; x++)
            for (int r = 0; r < n; r++)
                joint[r] = joint[r] * (p->states[x] + 1) + p->block_codes[x * BLOCK + r];
        const int32_t *begin = p->runs + 2 * p->runs_at[g], *end = p->runs + 2 * p->runs_at[g + 1];
        for (int r = 0; r < n; r++) {
            const double *from = p->tables + p->tables_at[g] + joint[r] * p->widths[g];
            double *row = p->values + r * p->width;
            for (const int32_t *run = begin; run < end; run += 2)
                for (int k = run[0]; k < run[1]; k += WHOLE, from += WHOLE)
                    for (int i = 0; i < WHOLE; i += LANES) *(vec *)(row + k + i) += *(const vec *)(from + i);
        }
    }
}

/* sums_bc += w b c */
INLINE void add_pairs(double *restrict sums, double w, const double *restrict b, const double *restrict c,
                      int nb, int nc) {
    for (int j = 0; j < nb; j++) {
        double s = w * b[j];
        for (int k = 0; k < nc; k += LANES) *(vec *)(sums + j * nc + k) += s * *(const vec *)(c + k);
    }
}

INLINE const double *factor(const Sums *p, int r, int leaf, int at) {
    if (leaf < 0) return p->values + r * p->width + at;
    return p->own + p->own_at[leaf] + (int64_t)p->block_codes[(int64_t)leaf * BLOCK + r] * p->own_width[leaf];
}

INLINE void add_product(const Sums *p, const Product *q, const double *weight, int n, int nb, int nc) {
    for (int r = 0; r < n; r++) {
        const double *b = factor(p, r, q->b_leaf, q->b), *c = factor(p, r, q->c_leaf, q->c);
        double *sums = p->sums + q->at;
        if (q->leaf >= 0) {
            int64_t code = p->block_codes[(int64_t)q->leaf * BLOCK + r];
            add_pairs(sums + code * nb * nc, weight[r], b, c, nb, nc);
            continue;
        }
        const double *a = p->values + r * p->width + q->a;
        for (int64_t i = 0; i < q->na; i++) add_pairs(sums + i * nb * nc, weight[r] * a[i], b, c, nb, nc);
    }
}

/* codes of n rows, those of missing cells behind all others; 0 where one is out of bounds */
static int read_codes(const Sums *p, int64_t first, int n) {
    int odd = 0;
    for (int64_t x = 0; x < p->leaves; x++)
        for (int r = 0; r < n; r++) {
            int code = p->codes[x][first + r], states = p->states[x];
            odd |= (code < -1) | (code >= states);
            p->block_codes[x * BLOCK + r] = code < 0 ? states : code;
        }
    return !odd;
}

/* 1 if all rows were added; 0 where a code is out of bounds */
EXPORT int NAME(product_sums)(const Sums *p, int64_t rows) {
    for (int64_t first = 0; first < rows; first += BLOCK) {
        int n = rows - first < BLOCK ? (int)(rows - first) : BLOCK;
        double weight[BLOCK];
        if (!read_codes(p, first, n)) return 0;
        for (int r = 0; r < n; r++) {
            weight[r] = p->weight ? p->weight[first + r] : 1.0;
            memcpy(p->values + r * p->width, p->base, sizeof(double) * (size_t)p->width);
        }
        add_leaves(p, n);
        for (const Product *q = p->products; q < p->products + p->count; q++) {
            if (q->nb == 4 && q->nc == 4) add_product(p, q, weight, n, 4, 4);
            else if (q->nb == 3 && q->nc == 4) add_product(p, q, weight, n, 3, 4);
            else if (q->nb == 2 && q->nc == 4) add_product(p, q, weight, n, 2, 4);
            else add_product(p, q, weight, n, q->nb, q->nc);
        }
    }
    return 1;
}
