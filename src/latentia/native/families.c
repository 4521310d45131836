/* How often the joint states of families of columns come (networks/compiled_counts.py).

   Of a block of rows the joint states of one family after the other are worked out, a vector at a
   time, and counted. A row that lacks a member counts in a cell behind all others. */
#include "level.h"
#include <string.h>

#define ROWS 4096 /* of a block: its columns stay in the cache while families read them */
#define FEW 1024  /* cells that are counted in WAYS places: equal rows need not wait for each other */
#define WAYS 4

typedef struct {
    int64_t families;
    const int64_t *begin;       /* (families + 1) where its members begin */
    const int32_t *members;     /* columns, family by family */
    const int64_t *at;          /* (families + 1) where its cells begin, one more than joint states */
    const void *const *codes;   /* of each column (rows); -1: a hole */
    const int32_t *bytes;       /* of each column: of one code, 1, 2 or 4 */
    const int32_t *sizes;       /* of each column: codes are below this */
    const double *weight;       /* (rows) or NULL */
    double *counts;
    uint8_t *holed;             /* of each column: 1 where some row lacks it */
} Families;

/* joint = joint size + code; whether some code is a hole, and the largest of all */
#define TAKE(type)                                                                                 \
    static void take_##type(const type *codes, int64_t rows, uint32_t size, uint32_t *joint,       \
                            int32_t *holes, int32_t *most) {                                       \
        int32_t low = 0, high = 0;                                                                 \
        for (int64_t i = 0; i < rows; i++) {                                                       \
            int32_t code = codes[i];                                                               \
            joint[i] = joint[i] * size + (uint32_t)code;                                           \
            low |= code;                                                                           \
            high = code > high ? code : high;                                                      \
        }                                                                                          \
        *holes = low < 0;                                                                          \
        *most = high;                                                                              \
    }                                                                                              \
    static void leave_##type(const type *codes, int64_t rows, uint32_t nowhere, uint32_t *joint) { \
        for (int64_t i = 0; i < rows; i++) joint[i] = codes[i] < 0 ? nowhere : joint[i];           \
    }
TAKE(int8_t)
TAKE(int16_t)
TAKE(int32_t)

static void take(const Families *f, int32_t column, int64_t first, int64_t rows, uint32_t *joint,
                 int32_t *holes, int32_t *most) {
    const void *codes = f->codes[column];
    uint32_t size = (uint32_t)f->sizes[column];
    if (f->bytes[column] == 1)
        take_int8_t((const int8_t *)codes + first, rows, size, joint, holes, most);
    else if (f->bytes[column] == 2)
        take_int16_t((const int16_t *)codes + first, rows, size, joint, holes, most);
    else
        take_int32_t((const int32_t *)codes + first, rows, size, joint, holes, most);
}

static void leave(const Families *f, int32_t column, int64_t first, int64_t rows, uint32_t nowhere,
                  uint32_t *joint) {
    const void *codes = f->codes[column];
    if (f->bytes[column] == 1)
        leave_int8_t((const int8_t *)codes + first, rows, nowhere, joint);
    else if (f->bytes[column] == 2)
        leave_int16_t((const int16_t *)codes + first, rows, nowhere, joint);
    else
        leave_int32_t((const int32_t *)codes + first, rows, nowhere, joint);
}

static void count(const uint32_t *joint, int64_t rows, const double *weight, int64_t cells,
                  double *counts) {
    if (weight) {
        for (int64_t i = 0; i < rows; i++) counts[joint[i]] += weight[i];
        return;
    }
    if (cells > FEW || 2 * cells > rows) {
        for (int64_t i = 0; i < rows; i++) counts[joint[i]] += 1.0;
        return;
    }
    uint32_t own[WAYS * FEW];
    memset(own, 0, (size_t)(WAYS * cells) * sizeof *own);
    uint32_t *b = own + cells, *c = b + cells, *d = c + cells;
    int64_t i = 0;
    for (; i + WAYS <= rows; i += WAYS) {
        own[joint[i]]++;
        b[joint[i + 1]]++;
        c[joint[i + 2]]++;
        d[joint[i + 3]]++;
    }
    for (; i < rows; i++) own[joint[i]]++;
    for (int64_t k = 0; k < cells; k++) counts[k] += (double)own[k] + b[k] + c[k] + d[k];
}

/* Gives `rows`, or -1 where a code is out of bounds. */
EXPORT int64_t NAME(count_families)(const Families *f, int64_t rows) {
    uint32_t joint[ROWS];
    for (int64_t first = 0; first < rows; first += ROWS) {
        int64_t some = rows - first < ROWS ? rows - first : ROWS;
        for (int64_t k = 0; k < f->families; k++) {
            int64_t cells = f->at[k + 1] - f->at[k];
            int32_t lacking = 0, holes, most;
            memset(joint, 0, (size_t)some * sizeof *joint);
            for (int64_t m = f->begin[k]; m < f->begin[k + 1]; m++) {
                take(f, f->members[m], first, some, joint, &holes, &most);
                if (most >= f->sizes[f->members[m]]) return -1;
                lacking |= holes;
                f->holed[f->members[m]] |= (uint8_t)holes;
            }
            for (int64_t m = f->begin[k]; lacking && m < f->begin[k + 1]; m++)
                leave(f, f->members[m], first, some, (uint32_t)(cells - 1), joint);
            count(joint, some, f->weight ? f->weight + first : 0, cells, f->counts + f->at[k]);
        }
    }
    return rows;
}
