"""Rows, maps and windows of A, and attention itself beside PyTorch's, in one process.

python -m bench.attention
"""

import torch

import clearhead as ch
from bench.measure import alternating, calibrated, median_seconds

sdpa = torch.nn.functional.scaled_dot_product_attention


def inputs(n: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Q, K, V of a layer of SmolLM2: 9 heads, 3 key–value heads, 64 wide."""
    return torch.randn(1, 9, n, 64), torch.randn(1, 3, n, 64), torch.randn(1, 3, n, 64)


def beside_sdpa() -> None:
    for n in (512, 2048, 4096):
        beside_sdpa_at(n)


def beside_sdpa_at(n: int) -> None:
    q, k, v = inputs(n)
    mine, theirs, ratio = alternating(
        lambda: ch.attention(q, k, v, mask=ch.causal_mask()).context,
        lambda: sdpa(q, k, v, is_causal=True, enable_gqa=True),
    )
    print(
        f"  causal, n = {n}: clearhead {mine * 1e3:.1f} ms, SDPA {theirs * 1e3:.1f} ms, "
        f"ours / theirs {ratio:.2f}"
    )


def window() -> None:
    q, k, v = inputs(8192)
    narrow = ch.causal_mask() & ch.sliding_window_mask(512)
    mine, full, ratio = alternating(
        lambda: ch.attention(q, k, v, mask=narrow).context,
        lambda: ch.attention(q, k, v, mask=ch.causal_mask()).context,
        runs=5,
    )
    print(
        f"  window 512 of 8,192 keys: {mine * 1e3:.0f} ms, full causal {full * 1e3:.0f} ms, "
        f"{1 / ratio:.1f} × faster (bar 3)"
    )


def reads() -> None:
    q, k, v = inputs(4096)
    weights = ch.attention(q, k, v, mask=ch.causal_mask()).weights
    row = median_seconds(lambda: weights[0, 3, 4000], runs=51)
    print(f"  a row of A at 4,096 keys: {row * 1e3:.2f} ms a head (bar 1)")
    pooled = median_seconds(lambda: weights[0, 3].pooled(256))
    print(f"  a 256×256 pooled map at 4,096: {pooled * 1e3:.0f} ms a head (bar 100)")
    received = median_seconds(weights.received, runs=3)
    alone = median_seconds(lambda: sdpa(q, k, v, is_causal=True, enable_gqa=True), runs=3)
    print(f"  column sums of all 9 heads at 4,096: {received / alone:.1f} × the time of SDPA alone")


def maps() -> None:
    layers = [ch.attention(*inputs(512), mask=ch.causal_mask()).weights for _ in range(30)]
    seconds = median_seconds(lambda: [weights.pooled(64) for weights in layers], runs=3)
    print(f"  270 maps (30 layers × 9 heads) at 512 tokens: {seconds:.2f} s (bar 2)")


if __name__ == "__main__":
    torch.manual_seed(0)
    with torch.no_grad():
        for name, work in (
            ("Attention beside SDPA, float32", beside_sdpa),
            ("Window", window),
            ("Reading A", reads),
            ("Maps of a model", maps),
        ):
            with calibrated(name):
                work()
