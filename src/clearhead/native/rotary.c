/* Turns every pair of every head by one angle a pair: y = x cosine + partner(x) sine.
 *
 * In 16 bits products and their sum are rounded each, as PyTorch's operations round them. The sine of
 * a pair's first number comes negative. A number's partner is half the width away, or its neighbour
 * where `interleaved` is set. Heads lie `apart` numbers from one to the next.
 */
#include "numbers.h"

#define ROTATE(TYPE, NUMBER)                                                                      \
    static inline NUMBER turned_##TYPE(NUMBER x, NUMBER partner, NUMBER cosine, NUMBER sine) {    \
        NUMBER across = to_##TYPE(from_##TYPE(partner) * from_##TYPE(sine));                      \
        NUMBER along = to_##TYPE(from_##TYPE(x) * from_##TYPE(cosine));                           \
        return to_##TYPE(from_##TYPE(across) + from_##TYPE(along));                               \
    }                                                                                             \
    void rotate_##TYPE(const NUMBER *restrict x, const NUMBER *restrict cosine,                   \
                       const NUMBER *restrict sine, NUMBER *restrict y, long heads, long apart,   \
                       long width, int interleaved) {                                             \
        for (long head = 0; head < heads; head++, x += apart, y += width) {                       \
            if (interleaved)                                                                      \
                for (long i = 0; i < width; i++)                                                  \
                    y[i] = turned_##TYPE(x[i], x[i ^ 1], cosine[i], sine[i]);                     \
            else                                                                                  \
                for (long i = 0, j = width / 2; j < width; i++, j++) {                            \
                    y[i] = turned_##TYPE(x[i], x[j], cosine[i], sine[i]);                         \
                    y[j] = turned_##TYPE(x[j], x[i], cosine[j], sine[j]);                         \
                }                                                                                 \
        }                                                                                         \
    }

BOTH(ROTATE)
