/* The program of an E-step (exact/compiled_rows.py): what rows.c goes through for every block. */
#ifndef LATENTIA_ROWS_H
#define LATENTIA_ROWS_H

#include "level.h"

typedef struct {
    int32_t kind;
    int32_t out, in; /* first slots; `in` of LOOK, LOAD, COUNT and STORE: number of a pack or group */
    int32_t other;   /* a further slot */
    int32_t at;      /* where its table, map, pairs, counts or index begin; index -1: as they come */
    int32_t shared, upper, lower; /* sizes; of most operations `lower` are all its states */
    int32_t times;   /* multiply into what is there */
} Op;

typedef struct {
    const Op *ops;
    int64_t count;
    const int32_t *index;         /* of SPREAD and MARGINAL: state of the scope of each joint state */
    const double *tables;         /* of each pack (codes, states) */
    const double *maps;           /* of each clique (shared, upper, lower) */
    const int16_t *const *codes;  /* of each pack (rows) */
    const int32_t *sizes;         /* of each pack: its codes are below this */
    int64_t packs;
    const double *const *dense;   /* of each group of continuous columns (states, rows) */
    double *const *beliefs;       /* of their parents (states, rows), to be filled */
    const double *weight;         /* (rows) or NULL */
    double *work;                 /* slots */
    int32_t *block_codes;         /* (packs, BLOCK) */
    double *pairs;                /* sums, as maps, WHOLE of each */
    double *counts;               /* sums, as tables */
    double *logs;                 /* (rows) log P(row) */
} Program;

/* Rows `first` ... rows - 1. Gives `rows`; or the first row of a block whose numbers come too near
   the smallest, of which nothing was added; or -1 where a code is out of bounds. */
EXPORT int64_t NAME(rows_estep)(const Program *p, int64_t first, int64_t rows);

#endif
