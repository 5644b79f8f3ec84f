/* Products of one row with a weight, y = W x + b: as long as it takes to read W.
 *
 * A core that reads one stretch of memory waits for it; one that reads several at once, far apart,
 * waits less. So each thread takes a part of the outputs, and in it STREAMS rows of W at a time that
 * lie a quarter of the part apart. The sums of one output are made in one order whatever the threads
 * and streams, so that its bits are the same for any number of them.
 */
#include <stdlib.h>

#include "numbers.h"

#define STREAMS 4
#define SPAN 2048

/* Dot products of x with `count` rows of W, `apart` numbers from one to the next. A wide row is
 * summed SPAN numbers at a time: a sum of many parts loses less than one long one.
 */
#define DOTS(TYPE, NUMBER)                                                                        \
    static inline __attribute__((always_inline)) void dots_##TYPE(                                \
        const NUMBER *w, long apart, int count, const float *x, long width, float *made) {        \
        for (int row = 0; row < count; row++) made[row] = 0;                                      \
        long i = 0, whole = width - width % (2 * LANES);                                          \
        while (i < whole) {                                                                       \
            long end = whole - i < SPAN ? whole : i + SPAN;                                       \
            floats even[STREAMS] = {{0}}, odd[STREAMS] = {{0}};                                   \
            for (; i < end; i += 2 * LANES) {                                                     \
                floats first = lanes_of_float32(x + i), second = lanes_of_float32(x + i + LANES); \
                for (int row = 0; row < count; row++) {                                           \
                    const NUMBER *here = w + row * apart + i;                                     \
                    even[row] += lanes_of_##TYPE(here) * first;                                   \
                    odd[row] += lanes_of_##TYPE(here + LANES) * second;                           \
                }                                                                                 \
            }                                                                                     \
            for (int row = 0; row < count; row++) made[row] += sum(even[row] + odd[row]);         \
        }                                                                                         \
        for (int row = 0; row < count; row++)                                                     \
            for (long rest = whole; rest < width; rest++)                                         \
                made[row] += from_##TYPE(w[row * apart + rest]) * x[rest];                        \
    }

/* Outputs `from` up to `to`. */
#define PART(TYPE, NUMBER)                                                                        \
    static void part_##TYPE(const NUMBER *w, const float *x, const NUMBER *b, NUMBER *y,          \
                            long from, long to, long width) {                                     \
        long each = (to - from) / STREAMS;                                                        \
        float made[STREAMS];                                                                      \
        for (long r = from; r < from + each; r++) {                                               \
            dots_##TYPE(w + r * width, each * width, STREAMS, x, width, made);                    \
            for (int row = 0; row < STREAMS; row++) {                                             \
                long out = r + row * each;                                                        \
                y[out] = to_##TYPE(b ? made[row] + from_##TYPE(b[out]) : made[row]);              \
            }                                                                                     \
        }                                                                                         \
        for (long out = from + STREAMS * each; out < to; out++) {                                 \
            dots_##TYPE(w + out * width, 0, 1, x, width, made);                                   \
            y[out] = to_##TYPE(b ? made[0] + from_##TYPE(b[out]) : made[0]);                      \
        }                                                                                         \
    }

/* W is (outputs, width), row after row; b may be NULL. Gives 1, or -1 where there is no memory. */
#define LINEAR(TYPE, NUMBER)                                                                      \
    DOTS(TYPE, NUMBER)                                                                            \
    PART(TYPE, NUMBER)                                                                            \
    int linear_##TYPE(const NUMBER *w, const NUMBER *x, const NUMBER *b, NUMBER *y,               \
                      long outputs, long width, int threads) {                                    \
        float *wide = malloc(width * sizeof *wide);                                               \
        if (!wide) return -1;                                                                     \
        for (long i = 0; i < width; i++) wide[i] = from_##TYPE(x[i]);                             \
        _Pragma("omp parallel for schedule(static, 1) num_threads(threads) if (threads > 1)")     \
        for (int part = 0; part < threads; part++)                                                \
            part_##TYPE(w, wide, b, y, outputs * part / threads,                                  \
                        outputs * (part + 1) / threads, width);                                   \
        free(wide);                                                                               \
        return 1;                                                                                 \
    }

BOTH(LINEAR)
