/* What rows have in common (networks/compiled_classes.py): pairs of entries that come together.

   A row is a product of one entry from each column. Where two columns have few joint entries, their
   products are worked out once for all rows, and the two are one column from there on. */
#include "level.h"
#include <string.h>

typedef struct {
    int64_t rows, columns, entries, most; /* no column has more different entries than `most` … */
    int64_t together;                     /* … or comes from more than so many */
    int32_t *seen;      /* (columns, rows) numbers of entries; -1: a hole; changed */
    int32_t *different; /* (columns) entries of each; changed */
    int32_t *members;   /* (columns) of how many columns each is made; 0: part of another; changed */
    int32_t *parts;     /* (columns * most, 2) the two entries of each new one; written */
    int32_t *slots;     /* (a power of two, above twice the rows) */
    int64_t slot_count;
} Sharing;

static int64_t place_of(const Sharing *s, int32_t a, int32_t b) {
    uint64_t key = ((uint64_t)(uint32_t)a << 32 | (uint32_t)b) * 0x9E3779B97F4A7C15u;
    return (int64_t)((key ^ key >> 29) & (uint64_t)(s->slot_count - 1));
}

/* Columns i and j as one, in the place of i; 0, and nothing changed, where it had too many entries.
   `room` (rows) */
static int joined(Sharing *s, int64_t i, int64_t j, int64_t made, int32_t *room) {
    const int32_t *a = s->seen + i * s->rows, *b = s->seen + j * s->rows;
    int32_t fresh = 0;
    memset(s->slots, 0xff, (size_t)s->slot_count * sizeof(int32_t));
    for (int64_t r = 0; r < s->rows; r++) {
        if (a[r] < 0 || b[r] < 0) {
            room[r] = a[r] < 0 ? b[r] : a[r];
            continue;
        }
        int64_t at = place_of(s, a[r], b[r]);
        int32_t *own = s->parts + 2 * made;
        while (s->slots[at] >= 0 && (own[2 * s->slots[at]] != a[r] || own[2 * s->slots[at] + 1] != b[r]))
            at = (at + 1) & (s->slot_count - 1);
        if (s->slots[at] < 0) {
            if (fresh == s->most) return 0;
            own[2 * fresh] = a[r], own[2 * fresh + 1] = b[r];
            s->slots[at] = fresh++;
        }
        room[r] = (int32_t)(s->entries + made) + s->slots[at];
    }
    memcpy(s->seen + i * s->rows, room, (size_t)s->rows * sizeof(int32_t));
    s->different[i] = fresh;
    return 1;
}

/* Columns are joined two by two, those of fewest entries first, as long as it helps; how many new
   entries there are. `order` (columns), `room` (rows) */
EXPORT int64_t NAME(rows_share)(Sharing *s, int32_t *order, int32_t *room) {
    int64_t made = 0, left = s->columns;
    for (int64_t i = 0; i < left; i++) order[i] = (int32_t)i;
    while (left > 1) {
        for (int64_t i = 1; i < left; i++) { /* by number of entries */
            int32_t own = order[i];
            int64_t k = i;
            for (; k > 0 && s->different[order[k - 1]] > s->different[own]; k--) order[k] = order[k - 1];
            order[k] = own;
        }
        int64_t again = 0;
        for (int64_t i = 0; i + 1 < left; i += 2) {
            int32_t a = order[i], b = order[i + 1];
            if (s->members[a] + s->members[b] > s->together || !joined(s, a, b, made, room)) continue;
            made += s->different[a];
            s->members[a] += s->members[b], s->members[b] = 0;
            order[again++] = a;
        }
        if (left % 2 && again) order[again++] = order[left - 1];
        left = again;
    }
    return made;
}
