"""A model traced, beside the untraced run and beside eager attention with its weights returned.

    python -m bench.trace [tokens ...]

Peaks are of a process of its own each; times of traced and untraced runs alternate in one process.
"""

import sys
from pathlib import Path

import torch

import clearhead as ch
from bench.measure import alternating, calibrated, child

RUN = Path(__file__).with_name("trace_run.py")
EAGER_UP_TO = 2048
TIMED_UP_TO = 4096


def peaks(n: int) -> None:
    plain = child(RUN, n, "untraced")
    rows = [("untraced, SDPA", plain), ("traced", child(RUN, n, "traced"))]
    if n <= EAGER_UP_TO:
        rows.append(("eager, weights returned", child(RUN, n, "eager")))
    for name, run in rows:
        print(
            f"  {n:,} tokens, {name}: peak {run['peak']:.2f} GB, {run['seconds']:.1f} s, "
            f"holds {run['held']:.2f} GB"
        )
    traced = rows[1][1]
    print(
        f"  traced peak / (untraced peak + trace): "
        f"{traced['peak'] / (plain['peak'] + traced['held']):.2f} (bar 1.15)"
    )
    print(f"  A alone, stored whole, would take {traced['dense']:.0f} GB")
    if n <= EAGER_UP_TO:
        eager = rows[2][1]
        print(
            f"  eager / traced: {eager['seconds'] / traced['seconds']:.1f} × the time, "
            f"{eager['peak'] / traced['peak']:.1f} × the memory"
        )


def times(n: int) -> None:
    model = ch.from_pretrained("smollm2", engine="transformers")
    ch.register_attention()
    model.set_attn_implementation("clearhead")
    ids = torch.randint(5, 40000, (1, n))
    mine, theirs, ratio = alternating(
        lambda: ch.trace(model, ids),
        lambda: model(ids, logits_to_keep=1, use_cache=False),
        runs=5,
    )
    print(f"  {n:,} tokens: traced {mine:.1f} s, untraced {theirs:.1f} s, {ratio:.2f} × (bar 1.10)")


if __name__ == "__main__":
    lengths = [int(given) for given in sys.argv[1:]] or [2048, 4096, 8192]
    with torch.no_grad():
        for length in lengths:
            with calibrated(f"Peak memory of SmolLM2, {length:,} tokens"):
                peaks(length)
        with calibrated("Time of SmolLM2, alternating"):
            for length in lengths:
                if length <= TIMED_UP_TO:
                    times(length)
