/* Vectors of single numbers, eight at every level: exponentials, logarithms and normal tails. */
#ifndef LATENTIA_SINGLES_H
#define LATENTIA_SINGLES_H

#include <stdint.h>
#include <string.h>

#define EIGHT 8 /* what callers round states up to */
typedef float singles __attribute__((vector_size(EIGHT * sizeof(float)), aligned(4), may_alias));
typedef int32_t whole __attribute__((vector_size(EIGHT * sizeof(int32_t)), aligned(4), may_alias));
#define AT(p) (*(singles *)(p))
#define FROM(p) (*(const singles *)(p))
#define ALWAYS static inline __attribute__((always_inline))

ALWAYS singles all_of(float x) { return (singles){x, x, x, x, x, x, x, x}; }

ALWAYS singles chosen(whole which, singles yes, singles no) {
    return (singles)(((whole)yes & which) | ((whole)no & ~which));
}

ALWAYS singles larger(singles a, singles b) { return chosen((whole)(a > b), a, b); }

ALWAYS float sum_of(singles x) {
    return ((x[0] + x[4]) + (x[1] + x[5])) + ((x[2] + x[6]) + (x[3] + x[7]));
}

ALWAYS float largest_of(singles x) {
    float half[4], a, b;
    for (int i = 0; i < 4; i++) half[i] = x[i] > x[i + 4] ? x[i] : x[i + 4];
    a = half[0] > half[2] ? half[0] : half[2], b = half[1] > half[3] ? half[1] : half[3];
    return a > b ? a : b;
}

/* exp(x), x <= 0: x = k ln 2 + r, |r| <= ln 2 / 2, and the sum of r^i / i!; zero below -87 */
ALWAYS singles exponential_of(singles x) {
    const float round = 12582912.0f; /* 1.5 2^23: adding it leaves k in the lowest bits */
    whole below = (whole)(x < -87.0f);
    x = larger(x, all_of(-87.0f));
    singles moved = x * 1.44269504f + round, k = moved - round;
    singles r = (x - k * (45426.0f / 65536)) - k * 1.42860682e-6f, sum = r * (1.0f / 5040) + 1.0f / 720;
    sum = sum * r + 1.0f / 120, sum = sum * r + 1.0f / 24, sum = sum * r + 1.0f / 6;
    sum = sum * r + 0.5f, sum = sum * r + 1.0f, sum = sum * r + 1.0f;
    typedef uint32_t raised __attribute__((vector_size(EIGHT * sizeof(uint32_t)), may_alias));
    singles power = (singles)(((raised)moved + 127) << 23); /* 2^k */
    return (singles)((whole)(sum * power) & ~below);
}

/* log(x) of positive normal numbers: x = 2^k m, sqrt(1/2) <= m < sqrt(2), and the series of artanh */
ALWAYS singles logarithm_of(singles x) {
    whole bits = (whole)x, apart = bits - 0x3f3504f3; /* of sqrt(1/2) */
    whole k = apart >> 23;
    singles m = (singles)(bits - (k << 23)), power = (singles)(k + 0x4b400000) - 12582912.0f;
    singles s = (m - 1.0f) / (m + 1.0f), q = s * s, sum = q * (1.0f / 9) + 1.0f / 7;
    sum = sum * q + 1.0f / 5, sum = sum * q + 1.0f / 3;
    return power * 0.693147181f + (2.0f * s + 2.0f * s * q * sum);
}

/* P(Z > z) of a standard normal, z >= 0: exp(-z^2 / 2) times a polynomial in 1 / (1 + .3 z) that was
   fitted for this file, right to 2e-7 of its value up to z = 9 */
ALWAYS singles upper_tail(singles z) {
    singles t = 1.0f / (1.0f + 0.3f * z), sum = all_of(0.0f);
    const float by[] = {0.119605493f,  0.121105695f, 0.097783961f,  0.135420133f,
                        -0.066402519f, 0.219971171f, -0.165019607f, 0.037535697f};
    for (int i = 7; i >= 0; i--) sum = (sum + by[i]) * t;
    return sum * exponential_of(-0.5f * z * z);
}

#endif
