"""One run in a process of its own, for ``bench/trace.py``: tokens and mode in, JSON out."""

import json
import sys
import time

import torch

import clearhead as ch
from bench.measure import forget_peak, peak_gigabytes


def main(n: int, mode: str) -> dict[str, float]:
    """Load, warm up, forget the peak so far, run once."""
    model = ch.from_pretrained("smollm2", engine="transformers")
    ids = torch.randint(5, 40000, (1, n), generator=torch.Generator().manual_seed(0))
    model.set_attn_implementation("eager" if mode == "eager" else "sdpa")
    held = dense = 0.0
    with torch.no_grad():
        model(ids[:, :64])
        forget_peak()
        start = time.perf_counter()
        if mode == "traced":
            trace = ch.trace(model, ids)
            held, dense = trace.nbytes / 1e9, trace.dense_nbytes / 1e9
        else:
            output = model(
                ids, use_cache=False, logits_to_keep=1, output_attentions=mode == "eager"
            )
            held = sum(a.nbytes for a in output.attentions or ()) / 1e9
        seconds = time.perf_counter() - start
    return {"peak": peak_gigabytes(), "seconds": seconds, "held": held, "dense": dense}


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), sys.argv[2])))
