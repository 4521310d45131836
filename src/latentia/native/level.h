/* What all files of the kernel share: names for each level of processor, and vectors. */
#ifndef LATENTIA_LEVEL_H
#define LATENTIA_LEVEL_H

#include <stdint.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* numbers of a vector: what one instruction of the level works on */
#if defined(__AVX__)
#define LANES 4
#else
#define LANES 2
#endif
#define WHOLE 4 /* a multiple of LANES at every level: what callers round up to */

/* NAME(f) is f_base, f_avx2, ...: one function for each level */
#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define NAME(f) JOIN(f, LEVEL)

#endif
