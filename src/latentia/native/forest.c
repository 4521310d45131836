/* The most probable states of a forest whose factors tie two variables at most, in logarithms.

   Variables come parents first: up[i] < i is the one above i, -1 for a root. Sums and maxima go up
   together; the best states are read on the way down. */
#include <math.h>
#include <stddef.h>

#include "level.h"

typedef struct {
    int64_t count;      /* variables */
    int64_t states;     /* of each; those that a variable has not are minus infinity in sums, bests */
    double tie;         /* relative: logarithms that differ by less are equal */
    const int64_t *up;  /* (count) */
    const double *pair; /* (count, states above, states): what ties a variable to the one above */
    double *sums;       /* (count, states) of each alone; what lies below is added */
    double *bests;      /* the same */
    int64_t *from;      /* (count, states above): the first best state; ~state where another ties */
    int64_t *path;      /* (count) */
    double sum;         /* log of the sum over all joint states */
    double best;        /* of the best one */
    int64_t tied;       /* whether another state was as good somewhere on the path */
} Forest;

typedef struct {
    double sum, best;
    int64_t from;
} Found;

/* over the states of one variable, its row of `pair` added (NULL: none) */
static Found over_states(const Forest *f, const double *sums, const double *bests,
                         const double *pair) {
    double highest = -INFINITY, best = -INFINITY, total = 0.0;
    for (int64_t j = 0; j < f->states; j++) {
        double added = pair ? pair[j] : 0.0, s = sums[j] + added, b = bests[j] + added;
        highest = s > highest ? s : highest;
        best = b > best ? b : best;
    }
    Found found = {-INFINITY, best, 0};
    if (highest > -INFINITY) {
        for (int64_t j = 0; j < f->states; j++)
            total += exp(sums[j] + (pair ? pair[j] : 0.0) - highest);
        found.sum = highest + log(total);
    }
    if (!(best > -INFINITY)) return found;
    double least = best - f->tie * (1.0 + fabs(best));
    int64_t first = -1, others = 0;
    for (int64_t j = 0; j < f->states; j++)
        if (bests[j] + (pair ? pair[j] : 0.0) >= least) {
            if (first < 0) first = j;
            else others = 1;
        }
    found.from = others ? ~first : first;
    return found;
}

EXPORT void NAME(forest_best)(Forest *f) {
    int64_t n = f->states;
    f->sum = f->best = 0.0, f->tied = 0;
    for (int64_t i = f->count - 1; i >= 0; i--) {
        const double *sums = f->sums + i * n, *bests = f->bests + i * n;
        int64_t *from = f->from + i * n, above = f->up[i];
        if (above < 0) {
            Found found = over_states(f, sums, bests, NULL);
            f->sum += found.sum, f->best += found.best, from[0] = found.from;
            continue;
        }
        for (int64_t a = 0; a < n; a++) {
            Found found = over_states(f, sums, bests, f->pair + (i * n + a) * n);
            f->sums[above * n + a] += found.sum, f->bests[above * n + a] += found.best;
            from[a] = found.from;
        }
    }
    for (int64_t i = 0; i < f->count; i++) {
        int64_t state = f->from[i * n + (f->up[i] < 0 ? 0 : f->path[f->up[i]])];
        f->tied |= state < 0;
        f->path[i] = state < 0 ? ~state : state;
    }
}
