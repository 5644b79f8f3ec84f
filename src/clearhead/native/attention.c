/* C and L of one query a head that sees every key.
 *
 * Keys are taken a block at a time, which stays near the processor for all heads that share it:
 * scores, their largest, weights exp(S − largest), their sum and their product with V. Two blocks become one by exp(L₁ − L) C₁ + exp(L₂ − L) C₂; blocks are the
 * same and merged in the same order whatever the threads, so that the bits are too.
 * Source: Dao 2023, "FlashAttention-2", section 3.1.
 */
#include <math.h>
#include <stdlib.h>

#include "numbers.h"

#define BLOCK 256 /* keys */
#define AT_ONCE 4

/* exp(x) for x of at most 0: a power of two, and the rest, at most log(2)/2, by its series. */
static inline floats exponential(floats x) {
    words small = x < -87.0f;
    x = (floats)(((words)x & ~small) | ((words)((floats){0} - 87.0f) & small));
    const float shift = 12582912.0f; /* 1.5 · 2²³: what is added to it is rounded to whole */
    floats power = x * 1.44269504f + shift;
    words whole = (words)power - (words)((floats){0} + shift);
    power -= shift;
    floats rest = x - power * 0.693359375f;
    rest -= power * -2.12194440e-4f;
    floats series = rest * (1.0f / 5040.0f) + 1.0f / 720.0f;
    series = series * rest + 1.0f / 120.0f;
    series = series * rest + 1.0f / 24.0f;
    series = series * rest + 1.0f / 6.0f;
    series = series * rest + 0.5f;
    series = series * rest + 1.0f;
    series = series * rest + 1.0f;
    floats made = series * (floats)((whole + 127) << 23);
    return (floats)((words)made & ~small);
}

/* Scores of `count` keys at once, so that no sum waits for the one before it. */
#define SCORES_OF(TYPE, NUMBER)                                                                   \
    static inline __attribute__((always_inline)) void scores_##TYPE(                              \
        const float *q, const NUMBER *k, long step, int count, long width, float *scores) {       \
        floats dots[AT_ONCE] = {{0}};                                                             \
        long i = 0;                                                                               \
        for (; i + LANES <= width; i += LANES)                                                    \
            for (int j = 0; j < count; j++)                                                       \
                dots[j] += lanes_of_float32(q + i) * lanes_of_##TYPE(k + j * step + i);           \
        for (int j = 0; j < count; j++) {                                                         \
            scores[j] = sum(dots[j]);                                                             \
            for (long rest = i; rest < width; rest++)                                             \
                scores[j] += q[rest] * from_##TYPE(k[j * step + rest]);                           \
        }                                                                                         \
    }

/* Adds `count` values times their weights. */
#define GATHER(TYPE, NUMBER)                                                                      \
    static inline __attribute__((always_inline)) void gather_##TYPE(                              \
        const float *weights, const NUMBER *v, long step, int count, long width, float *made) {   \
        long i = 0;                                                                               \
        for (; i + LANES <= width; i += LANES) {                                                  \
            floats lanes = lanes_of_float32(made + i);                                            \
            for (int j = 0; j < count; j++)                                                       \
                lanes += weights[j] * lanes_of_##TYPE(v + j * step + i);                          \
            lanes_to(made + i, lanes);                                                            \
        }                                                                                         \
        for (; i < width; i++)                                                                    \
            for (int j = 0; j < count; j++) made[i] += weights[j] * from_##TYPE(v[j * step + i]); \
    }

/* One block of keys for `group` queries: C, not yet divided, then the largest score and the sum. */
#define BLOCK_OF(TYPE, NUMBER)                                                                    \
    static void block_##TYPE(const float *q, const NUMBER *k, const NUMBER *v, float *made,       \
                             long group, long keys, long key_step, long value_step, long width) { \
        float scores[BLOCK];                                                                      \
        long even = keys - keys % AT_ONCE;                                                        \
        for (long g = 0; g < group; g++, q += width, made += width + 2) {                         \
            float largest = -INFINITY, total = 0;                                                 \
            for (long j = 0; j < even; j += AT_ONCE)                                              \
                scores_##TYPE(q, k + j * key_step, key_step, AT_ONCE, width, scores + j);         \
            for (long j = even; j < keys; j++)                                                    \
                scores_##TYPE(q, k + j * key_step, key_step, 1, width, scores + j);               \
            for (long j = 0; j < keys; j++)                                                       \
                if (!(scores[j] <= largest)) largest = scores[j]; /* NaN too */                   \
            for (long j = keys; j % LANES; j++) scores[j] = -INFINITY;                            \
            for (long j = 0; j < keys; j += LANES) {                                              \
                floats weights = exponential(lanes_of_float32(scores + j) - largest);             \
                lanes_to(scores + j, weights);                                                    \
                total += sum(weights);                                                            \
            }                                                                                     \
            memset(made, 0, width * sizeof *made);                                                \
            for (long j = 0; j < even; j += AT_ONCE)                                              \
                gather_##TYPE(scores + j, v + j * value_step, value_step, AT_ONCE, width, made);  \
            for (long j = even; j < keys; j++)                                                    \
                gather_##TYPE(scores + j, v + j * value_step, value_step, 1, width, made);        \
            made[width] = largest;                                                                \
            made[width + 1] = total;                                                              \
        }                                                                                         \
    }

/* All blocks of one head, in order, as one. Gives whether all of it is finite. */
#define MERGE(TYPE, NUMBER)                                                                       \
    static int merge_##TYPE(const float *parts, long blocks, long apart, NUMBER *context,         \
                            float *logsumexp, float *made, long width) {                          \
        float largest = -INFINITY, total = 0;                                                     \
        for (long block = 0; block < blocks; block++) {                                           \
            float other = parts[block * apart + width];                                           \
            if (!(other <= largest)) largest = other;                                             \
        }                                                                                         \
        memset(made, 0, width * sizeof *made);                                                    \
        for (long block = 0; block < blocks; block++) {                                           \
            const float *part = parts + block * apart;                                            \
            float factor = blocks == 1 ? 1.0f : expf(part[width] - largest);                      \
            total += factor * part[width + 1];                                                    \
            for (long i = 0; i < width; i++) made[i] += factor * part[i];                         \
        }                                                                                         \
        *logsumexp = largest + logf(total);                                                       \
        float all = *logsumexp;                                                                   \
        for (long i = 0; i < width; i++) {                                                        \
            float number = made[i] / total;                                                       \
            all += number;                                                                        \
            context[i] = to_##TYPE(number);                                                       \
        }                                                                                         \
        return isfinite(all);                                                                     \
    }

/* Q and C are (batch, kv_heads · group, width), each with all its numbers side by side; K and V
 * have steps of their own between batch rows, heads and keys. Gives 1 where C and L are finite, 0
 * where some are not, and -1 where there is no memory.
 */
#define ATTEND(TYPE, NUMBER)                                                                      \
    SCORES_OF(TYPE, NUMBER)                                                                       \
    GATHER(TYPE, NUMBER)                                                                          \
    BLOCK_OF(TYPE, NUMBER)                                                                        \
    MERGE(TYPE, NUMBER)                                                                           \
    int attend_##TYPE(const NUMBER *q, const NUMBER *k, const NUMBER *v, NUMBER *context,         \
                      float *logsumexp, float scale, long batch, long kv_heads, long group,       \
                      long keys, long width, const long *key_steps, const long *value_steps,      \
                      int threads) {                                                              \
        long heads = batch * kv_heads * group, blocks = (keys + BLOCK - 1) / BLOCK;               \
        long tasks = batch * kv_heads * blocks, apart = group * (width + 2);                      \
        float *scaled = malloc(((heads + 1) * width + tasks * apart) * sizeof *scaled);           \
        if (!scaled) return -1;                                                                   \
        float *made = scaled + heads * width, *parts = made + width;                              \
        for (long i = 0; i < heads * width; i++) scaled[i] = from_##TYPE(q[i]) * scale;           \
        if (tasks == 1 || tasks * BLOCK * width * group < 1 << 16) threads = 1;                   \
        _Pragma("omp parallel for schedule(static) num_threads(threads) if (threads > 1)")        \
        for (long task = 0; task < tasks; task++) {                                               \
            long head = task / blocks, first = task % blocks * BLOCK;                             \
            long row = head / kv_heads, shared = head % kv_heads;                                 \
            long count = keys - first < BLOCK ? keys - first : BLOCK;                             \
            block_##TYPE(scaled + head * group * width,                                           \
                         k + row * key_steps[0] + shared * key_steps[1] + first * key_steps[2],   \
                         v + row * value_steps[0] + shared * value_steps[1] +                     \
                             first * value_steps[2],                                              \
                         parts + task * apart, group, count, key_steps[2], value_steps[2],        \
                         width);                                                                  \
        }                                                                                         \
        int finite = 1;                                                                           \
        for (long head = 0; head < heads; head++) {                                               \
            long shared = head / group, g = head % group;                                         \
            finite &= merge_##TYPE(parts + shared * blocks * apart + g * (width + 2), blocks,     \
                                   apart, context + head * width, logsumexp + head, made,         \
                                   width);                                                        \
        }                                                                                         \
        free(scaled);                                                                             \
        return finite;                                                                            \
    }

BOTH(ATTEND)
