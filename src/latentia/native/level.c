/* Which level of processor this is, and from which sources the library was built. */
#include "level.h"

EXPORT const char *latentia_sources(void) { return FINGERPRINT; }

/* 0: base, 1: avx2 with fused multiply-add */
EXPORT int latentia_level(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 1;
#endif
    return 0;
}
