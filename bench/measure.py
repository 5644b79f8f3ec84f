"""How the benches time: alternating runs, medians, and a calibration product before and after.

A timing counts only if the same matrix product took the same time, to 10%, before and after it:
else the machine was doing something else, and the bench says so.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

__all__ = [
    "alternating",
    "calibrated",
    "child",
    "clock",
    "forget_peak",
    "median_seconds",
    "paired",
    "peak_gigabytes",
]

DRIFT = 1.10


def clock(work: Callable[[], object]) -> float:
    """Seconds that one call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def median_seconds(work: Callable[[], object], *, runs: int = 7) -> float:
    """Median of several calls after one that does not count."""
    work()
    return statistics.median(clock(work) for _ in range(runs))


def alternating(
    ours: Callable[[], object], peer: Callable[[], object], *, runs: int = 7
) -> tuple[float, float, float]:
    """Median seconds of ours and of the peer, and the median of the paired ratios ours / peer."""
    return paired(lambda: clock(ours), lambda: clock(peer), runs=runs)


def paired(
    ours: Callable[[], float], peer: Callable[[], float], *, runs: int
) -> tuple[float, float, float]:
    """As :func:`alternating`, of functions that give their own figure."""
    ours(), peer()
    pairs = [(ours(), peer()) for _ in range(runs)]
    ratio = statistics.median(mine / theirs for mine, theirs in pairs)
    return (
        statistics.median(mine for mine, _ in pairs),
        statistics.median(theirs for _, theirs in pairs),
        ratio,
    )


@contextmanager
def calibrated(name: str) -> Iterator[None]:
    """Print a heading, and afterwards whether the timings under it count."""
    print(f"\n{name}")
    before = _product()
    yield
    drift = _product() / before
    steady = 1 / DRIFT <= drift <= DRIFT
    verdict = "the timings count" if steady else "the machine was busy: run again"
    print(f"  calibration product after / before {drift:.2f}: {verdict}")


def child(script: Path, *arguments: object) -> dict[str, float]:
    """Run a script of this folder in a process of its own and read the JSON it prints last."""
    command = [sys.executable, "-m", f"bench.{script.stem}", *map(str, arguments)]
    root = Path(__file__).parents[1]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=root)
    return json.loads(done.stdout.splitlines()[-1])


def forget_peak() -> None:
    """Count this process's peak memory from here on."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_gigabytes() -> float:
    """Most memory this process has held since."""
    status = Path("/proc/self/status").read_text().splitlines()
    peak = next(line for line in status if line.startswith("VmHWM"))
    return int(peak.split()[1]) * 1024 / 1e9


def _product() -> float:
    square = torch.randn(1024, 1024)
    # into memory of its own: a young process pays for every new page, and an old one does not
    made = torch.empty_like(square)
    # about six seconds: half a second of a shared machine differs from the next by a fifth
    return median_seconds(lambda: torch.mm(square, square, out=made), runs=301)
