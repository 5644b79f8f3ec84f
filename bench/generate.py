"""Text written by SmolLM2, beside transformers: prompt, tokens a second, memory, and the ceiling.

    python -m bench.generate [float32] [bfloat16]

Both write greedily with their own ``generate``, in turns, in one process. A step must read every
weight and the cache once, so the ceiling is the measured read bandwidth over those bytes. Peaks
are of a process of its own each, from the loaded model on.
"""

import sys
import time
from pathlib import Path
from typing import Any

import torch

import clearhead as ch
from bench.measure import alternating, calibrated, child, median_seconds, paired
from clearhead.transformer.cache_cost import cache_bytes

RUN = Path(__file__).with_name("generate_run.py")
PROMPT = 2048
BEGINNINGS = (64, 1024)
WRITTEN = 64


def write_ours(model: Any, ids: torch.Tensor, count: int) -> tuple[int, ...]:
    """New tokens by our generate."""
    return ch.generate(model, ids, max_new_tokens=count, end_tokens=()).token_ids


def write_theirs(model: Any, ids: torch.Tensor, count: int, **more: Any) -> tuple[int, ...]:
    """New tokens by transformers' generate."""
    made = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        min_new_tokens=count,
        max_new_tokens=count,
        do_sample=False,
        pad_token_id=0,
        **more,
    )
    return tuple(made[0, ids.shape[1] :].tolist())


def bandwidth() -> float:
    """Bytes a second at which a large tensor is read."""
    large = torch.ones(2**28)
    return large.nbytes / median_seconds(large.sum, runs=5)


class FirstToken:
    """Told of every new token by transformers' generate: when did the first one come?"""

    def __init__(self) -> None:
        self.came: list[float] = []

    def put(self, _value: torch.Tensor) -> None:
        """Once for the prompt, then once a token."""
        self.came.append(time.perf_counter())

    def end(self) -> None:
        """All were written."""


def seconds_ours(model: Any, ids: torch.Tensor) -> float:
    """Seconds from the first new token to the last."""
    return ch.generate(model, ids, max_new_tokens=WRITTEN + 1, end_tokens=()).seconds


def seconds_theirs(model: Any, ids: torch.Tensor) -> float:
    """The same of transformers."""
    heard = FirstToken()
    write_theirs(model, ids, WRITTEN + 1, streamer=heard)
    return heard.came[-1] - heard.came[1]


def decoding(ours: Any, theirs: Any, ids: torch.Tensor) -> None:
    """Tokens a second once the prompt is read."""
    same = write_ours(ours, ids, WRITTEN) == write_theirs(theirs, ids, WRITTEN)
    mine, peer, ratio = paired(
        lambda: seconds_ours(ours, ids), lambda: seconds_theirs(theirs, ids), runs=5
    )
    weights = sum({p.data_ptr(): p.nbytes for p in ours.parameters()}.values())
    dtype = str(ours.token_embedding.weight.dtype).removeprefix("torch.")
    held = cache_bytes(ours.config, capacity=ids.shape[1] + WRITTEN // 2, dtype=dtype)
    ceiling = bandwidth() / (weights + held)
    print(
        f"  {WRITTEN} tokens after {ids.shape[1]:,}: ours {WRITTEN / mine:.1f} a second, "
        f"transformers {WRITTEN / peer:.1f}, {1 / ratio:.2f} × (bar 1.50); "
        f"the same tokens: {'yes' if same else 'no'}"
    )
    print(
        f"  ceiling {ceiling:.0f} a second ({ceiling * (weights + held) / 1e9:.0f} GB/s, "
        f"{(weights + held) / 1e6:.0f} MB a token): ours {WRITTEN / mine / ceiling:.0%} of it"
    )


def prompts(ours: Any, theirs: Any, ids: torch.Tensor) -> None:
    """Seconds from a long prompt to the first token."""
    mine, peer, _ = alternating(
        lambda: write_ours(ours, ids, 1), lambda: write_theirs(theirs, ids, 1), runs=9
    )
    print(
        f"  prompt of {ids.shape[1]:,} tokens: ours {mine:.2f} s, transformers {peer:.2f} s, "
        f"{peer / mine:.2f} × as fast (bar 1.00)"
    )


def peaks(dtype: str) -> None:
    """Memory of a process that reads the long prompt and writes."""
    mine, peer = child(RUN, "ours", dtype, PROMPT), child(RUN, "transformers", dtype, PROMPT)
    for what in ("loading", "writing"):
        print(
            f"  peak while {what}: ours {mine[what]:.2f} GB, transformers {peer[what]:.2f} GB, "
            f"{mine[what] / peer[what]:.2f} × (bar 1.00)"
        )


def main(dtype: str) -> None:
    """Everything about one dtype."""
    ours = ch.from_pretrained("smollm2", engine="clearhead", dtype=dtype)
    theirs = ch.from_pretrained("smollm2", engine="transformers", dtype=dtype)
    ids = torch.randint(5, 40000, (1, PROMPT))
    with calibrated(f"Decoding with SmolLM2, {dtype}"):
        for length in BEGINNINGS:
            decoding(ours, theirs, ids[:, :length])
    with calibrated(f"Reading a prompt with SmolLM2, {dtype}"):
        prompts(ours, theirs, ids)
    with calibrated(f"Peak memory with SmolLM2, {dtype}"):
        peaks(dtype)


if __name__ == "__main__":
    for asked in sys.argv[1:] or ["float32", "bfloat16"]:
        main(asked)
