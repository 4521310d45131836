/* The whole E-step of small models: from the numbers of all tables to their expected counts.

   Factors are products of a few numbers, looked up by place; counts go back to the same places. So
   tables that lie in one array are climbed without a step outside (climbing.h). Of models with few
   rows this was nearly all the time. */
#include "climbing.h"
#include "rows.h"

typedef struct {
    const Program *program; /* its tables, maps, pairs and counts are those below */
    int64_t rows;
    int64_t cells;         /* numbers of a start; a one and a zero lie behind them */
    int64_t packs, groups; /* factors: those of packs, then those of cliques */
    const int64_t *sizes;  /* of each group: its factors */
    const int64_t *width;  /* of each group: numbers that a factor is the product of */
    const int32_t *places; /* of each group (width, factors): of these numbers */
    const int32_t *map_at; /* of each factor of a clique: where in maps it is summed */
    const double *alone;   /* of each factor of a pack: rows, where no latent has to do with it */
    int64_t tables, inside, maps; /* factors of all packs, of all cliques, and their sums */
    double *numbers;              /* (cells + 2) */
    double *table, *psi, *map;    /* (tables), (inside), (maps) */
    double *count, *pair;         /* (tables), (maps, WHOLE) */
} Cells;

static void make_factors(const Cells *c, const double *x) {
    memcpy(c->numbers, x, (size_t)c->cells * sizeof(double));
    c->numbers[c->cells] = 1.0, c->numbers[c->cells + 1] = 0.0;
    const int32_t *place = c->places;
    double *to = c->table;
    for (int64_t g = 0; g < c->groups; g++, to += c->sizes[g - 1]) {
        if (g == c->packs) to = c->psi;
        for (int64_t i = 0; i < c->sizes[g]; i++) to[i] = 1.0;
        for (int64_t w = 0; w < c->width[g]; w++, place += c->sizes[g])
            for (int64_t i = 0; i < c->sizes[g]; i++) to[i] *= c->numbers[place[i]];
    }
    memset(c->map, 0, (size_t)c->maps * sizeof(double));
    for (int64_t i = 0; i < c->inside; i++) c->map[c->map_at[i]] += c->psi[i];
}

/* sums over rows, of packs and cliques, as counts of numbers */
static void put_back(const Cells *c, double *counts) {
    for (int64_t i = 0; i < c->inside; i++) {
        const double *pair = c->pair + c->map_at[i] * WHOLE;
        double total = 0.0;
        for (int j = 0; j < WHOLE; j++) total += pair[j];
        c->psi[i] *= total;
    }
    memset(c->numbers, 0, (size_t)(c->cells + 2) * sizeof(double));
    const int32_t *place = c->places;
    const double *from = c->count;
    for (int64_t g = 0; g < c->groups; g++, from += c->sizes[g - 1]) {
        if (g == c->packs) from = c->psi;
        for (int64_t w = 0; w < c->width[g]; w++, place += c->sizes[g])
            for (int64_t i = 0; i < c->sizes[g]; i++) c->numbers[place[i]] += from[i];
    }
    memcpy(counts, c->numbers, (size_t)c->cells * sizeof(double));
}

/* Expected counts of numbers x, (cells), and the log-likelihood. Gives 1; 0 where a number comes too
   near the smallest, or -1 where a code is out of bounds: nothing is to be used then. */
static int64_t expect(const Cells *c, const double *x, double *counts, double *fit) {
    const Program *p = c->program;
    make_factors(c, x);
    memset(c->count, 0, (size_t)c->tables * sizeof(double));
    memset(c->pair, 0, (size_t)(c->maps * WHOLE) * sizeof(double));
    int64_t done = NAME(rows_estep)(p, 0, c->rows);
    if (done < c->rows) return done < 0 ? -1 : 0;
    *fit = 0.0;
    for (int64_t r = 0; r < c->rows; r++) *fit += p->weight ? p->weight[r] * p->logs[r] : p->logs[r];
    for (int64_t i = 0; i < c->tables; i++)
        if (c->alone[i] > 0.0) *fit += c->alone[i] * log(c->table[i]), c->count[i] = c->alone[i];
    put_back(c, counts);
    return 1;
}

/* Of several starts, (starts, cells): counts likewise, and log-likelihoods; 1, 0 or -1 as above. */
EXPORT int64_t NAME(cells_estep)(const Cells *c, const double *x, int64_t starts, double *counts,
                                 double *fits) {
    for (int64_t i = 0; i < starts; i++) {
        int64_t done = expect(c, x + i * c->cells, counts + i * c->cells, fits + i);
        if (done < 1) return done;
    }
    return 1;
}

/* Some climbs, by number, on to so many E-steps in all, or to rest; all have begun. Gives how many of
   them came there before one whose next E-step needs care, or -1 where a code is out of bounds.
   vectors: (climbs, VECTORS + 2 * memory, cells), x first; numbers: (climbs, NUMBERS + memory). */
EXPORT int64_t NAME(cells_climb)(const Cells *c, const Climbing *own, double *vectors,
                                 double *numbers, const int64_t *which, int64_t count,
                                 int64_t steps) {
    for (int64_t i = 0; i < count; i++) {
        Climb k = climb_at(own, vectors, numbers, which[i]);
        while (!k.now[LOST] && !k.now[RESTS] && k.now[STEPS] < (double)steps) {
            double fit;
            int64_t done = expect(c, k.trial, own->room, &fit);
            if (done < 1) return done < 0 ? -1 : i;
            go_on(own, &k, fit);
        }
    }
    return count;
}
