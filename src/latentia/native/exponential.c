/* exp(min(x, 0)) of many numbers in place (kernels/exponentials.py), to about a unit of the last
   place. What is no number stays none; below -708 it is zero. */
#include "level.h"
#include <string.h>

typedef double vec __attribute__((vector_size(LANES * sizeof(double)), aligned(8), may_alias));
typedef int64_t bits __attribute__((vector_size(LANES * sizeof(int64_t)), aligned(8), may_alias));

/* x = k ln 2 + r with |r| <= ln 2 / 2: the sum of r^i / i!, whose exponent is then raised by k */
static inline vec exponential(vec x) {
    const double round = 6755399441055744.0; /* 1.5 2^52: adding it leaves k in the lowest bits */
    const double high = 0.693147180369123816490, low = 1.90821492927058770002e-10; /* ln 2 */
    bits above = x > 0.0, below = x < -708.0;
    x = (vec)((bits)x & ~above);
    vec moved = x * 1.44269504088896340736 + round, k = moved - round;
    vec r = (x - k * high) - k * low, sum = r * (1.0 / 6227020800) + 1.0 / 479001600;
    sum = sum * r + 1.0 / 39916800, sum = sum * r + 1.0 / 3628800, sum = sum * r + 1.0 / 362880;
    sum = sum * r + 1.0 / 40320, sum = sum * r + 1.0 / 5040, sum = sum * r + 1.0 / 720;
    sum = sum * r + 1.0 / 120, sum = sum * r + 1.0 / 24, sum = sum * r + 1.0 / 6;
    sum = sum * r + 0.5, sum = sum * r + 1.0, sum = sum * r + 1.0;
    typedef uint64_t raised __attribute__((vector_size(LANES * sizeof(uint64_t)), may_alias));
    vec power = (vec)(((raised)moved + 1023) << 52); /* 2^k */
    return (vec)((bits)(sum * power) & ~below);
}

EXPORT void NAME(exp_negative)(double *x, int64_t count) {
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) *(vec *)(x + i) = exponential(*(vec *)(x + i));
    if (i < count) {
        double rest[LANES] = {0};
        memcpy(rest, x + i, sizeof(double) * (size_t)(count - i));
        *(vec *)rest = exponential(*(vec *)rest);
        memcpy(x + i, rest, sizeof(double) * (size_t)(count - i));
    }
}
