/* A step of climbs whose E-steps are taken elsewhere (networks/compiled_lockstep.py). */
#include "climbing.h"
#include "level.h"

/* Climbs by number, all of which have been looked at where their trial point is (new ones: at x):
   counts (count, cells) and log-likelihoods. Where they go next is their new trial point.
   vectors: (climbs, VECTORS + 2 * memory, cells), x first; numbers: (climbs, NUMBERS + memory). */
EXPORT void NAME(climbs_step)(const Climbing *c, double *vectors, double *numbers,
                              const int64_t *which, int64_t count, const double *counts,
                              const double *fits) {
    size_t size = (size_t)c->cells * sizeof(double);
    for (int64_t i = 0; i < count; i++) {
        Climb k = climb_at(c, vectors, numbers, which[i]);
        const double *own = counts + i * c->cells;
        if (!k.now[STEPS]) {
            memcpy(k.trial, k.x, size);
            memcpy(k.after, own, size);
            begin_climb(c, &k, fits[i]);
        } else {
            memcpy(c->room, own, size);
            go_on(c, &k, fits[i]);
        }
    }
}
