"""One run in a process of its own, for ``bench/generate.py``: what it is in, JSON out."""

import json
import sys

import torch

import clearhead as ch
from bench.generate import write_ours, write_theirs
from bench.measure import forget_peak, peak_gigabytes


def main(engine: str, dtype: str, n: int) -> dict[str, float]:
    """Load, warm up, forget the peak so far, read a prompt and write."""
    name = "clearhead" if engine == "ours" else "transformers"
    forget_peak()
    model = ch.from_pretrained("smollm2", engine=name, dtype=dtype)
    write = write_ours if engine == "ours" else write_theirs
    ids = torch.randint(5, 40000, (1, n), generator=torch.Generator().manual_seed(0))
    write(model, ids[:, :64], 2)
    loading = peak_gigabytes()
    forget_peak()
    write(model, ids, 32)
    return {"loading": loading, "writing": peak_gigabytes()}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
