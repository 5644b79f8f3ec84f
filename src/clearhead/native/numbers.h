/* Numbers of the two dtypes that are read here, all widened to float32: one by one, and in lanes.
 *
 * Plain C with the vector types of GCC, for any processor. TYPE in a name stands for
 * float32 or bfloat16; NUMBER is what one is stored as.
 */
#ifndef CLEARHEAD_NUMBERS_H
#define CLEARHEAD_NUMBERS_H

#include <stdint.h>
#include <string.h>

#define LANES 8
#define BOTH(MACRO) MACRO(float32, float) MACRO(bfloat16, bfloat16)

typedef uint16_t bfloat16;
typedef float floats __attribute__((vector_size(4 * LANES)));
typedef int32_t words __attribute__((vector_size(4 * LANES)));
typedef uint16_t halves __attribute__((vector_size(2 * LANES)));

static inline float from_float32(float x) { return x; }
static inline float to_float32(float x) { return x; }

static inline float from_bfloat16(bfloat16 x) {
    uint32_t bits = (uint32_t)x << 16;
    float wide;
    memcpy(&wide, &bits, sizeof wide);
    return wide;
}

/* To the nearest, ties to even; NaN stays NaN. */
static inline bfloat16 to_bfloat16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (x != x) return 0x7fc0;
    return (bfloat16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline floats lanes_of_float32(const float *from) {
    floats lanes;
    memcpy(&lanes, from, sizeof lanes);
    return lanes;
}

static inline floats lanes_of_bfloat16(const bfloat16 *from) {
    halves narrow;
    memcpy(&narrow, from, sizeof narrow);
    words bits = __builtin_convertvector(narrow, words) << 16;
    return (floats)bits;
}

static inline void lanes_to(float *into, floats lanes) { memcpy(into, &lanes, sizeof lanes); }

static inline float sum(floats lanes) {
    for (int half = LANES / 2; half; half /= 2)
        for (int lane = 0; lane < half; lane++) lanes[lane] += lanes[lane + half];
    return lanes[0];
}

#endif
