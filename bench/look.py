"""A second ``clearhead look``, as a person waits for it: whole processes, the model in the cache.

    python -m bench.look

Beside it stands what importing PyTorch alone takes, in processes of its own.
"""

import statistics
import subprocess
import sys

from bench.measure import calibrated, clock

SENTENCE = "The animal did not cross the street because it was tired."
LOOK = [sys.executable, "-m", "clearhead", "look", SENTENCE]
IMPORT = "from time import perf_counter as now; start = now(); import torch; print(now() - start)"
RUNS = 7


def answer(*command: str) -> str:
    """What a process of its own prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def second_look() -> None:
    answer(*LOOK)  # the first one fetches the model
    looks, imports = [], []
    for _ in range(RUNS):
        looks.append(clock(lambda: answer(*LOOK)))
        imports.append(float(answer(sys.executable, "-c", IMPORT)))
    print(f"  clearhead look: {told(looks)}")
    print(f"  of which import torch takes {told(imports)}")


def told(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.1f} s ({min(seconds):.1f} to {max(seconds):.1f})"


if __name__ == "__main__":
    with calibrated(f"A second look, median of {RUNS}"):
        second_look()
