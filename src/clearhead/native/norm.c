/* RMS norm of rows, y = (w + offset) x / sqrt(mean(x²) + epsilon), the root in float32.
 *
 * Where `rounds` is set, x over the root is rounded to the dtype before the product with w, as the
 * released models without an offset do. w may be NULL.
 */
#include <math.h>

#include "numbers.h"

#define NORM(TYPE, NUMBER)                                                                        \
    void rms_norm_##TYPE(const NUMBER *restrict x, const NUMBER *restrict w,                      \
                         NUMBER *restrict y, long rows, long width, float epsilon, float offset,  \
                         int rounds) {                                                            \
        for (long row = 0; row < rows; row++, x += width, y += width) {                           \
            floats squares = {0};                                                                 \
            long i = 0;                                                                           \
            for (; i + LANES <= width; i += LANES) {                                              \
                floats here = lanes_of_##TYPE(x + i);                                             \
                squares += here * here;                                                           \
            }                                                                                     \
            float total = sum(squares);                                                           \
            for (; i < width; i++) total += from_##TYPE(x[i]) * from_##TYPE(x[i]);                \
            float factor = 1.0f / sqrtf(total / (float)width + epsilon);                          \
            for (i = 0; i < width; i++) {                                                         \
                float unit = from_##TYPE(x[i]) * factor;                                          \
                if (rounds) unit = from_##TYPE(to_##TYPE(unit));                                  \
                y[i] = to_##TYPE(w ? unit * (offset + from_##TYPE(w[i])) : unit);                 \
            }                                                                                     \
        }                                                                                         \
    }

BOTH(NORM)
