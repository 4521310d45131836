/* Rows that go down trees (pooling/node_rows.py): each to the last node of at least so many rows. */
#include "level.h"

typedef struct {
    int64_t rows, width, least;
    const float *features;             /* (rows, width) */
    const int64_t *feature;            /* that a node looks at */
    const double *threshold;           /* up to which a row goes to the left */
    const int64_t *left, *right, *size; /* a leaf is its own child */
    int64_t *node;                     /* where each row begins, and then where it ends */
} Descent;

EXPORT void NAME(nodes_descend)(const Descent *d) {
    for (int64_t r = 0; r < d->rows; r++) {
        const float *own = d->features + r * d->width;
        int64_t node = d->node[r];
        for (;;) {
            int low = own[d->feature[node]] <= d->threshold[node];
            int64_t after = low ? d->left[node] : d->right[node];
            if (after == node || d->size[after] < d->least) break;
            node = after;
        }
        d->node[r] = node;
    }
}
