"""Write the numbers of a report for a person: counts, shares and bytes."""

import math

__all__ = ["counted", "length", "percent", "percent_at_most", "scale_bound", "size"]

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def counted(count: int, noun: str) -> str:
    """Write how many there are of something, such as ``1 token`` or ``1,024 tokens``."""
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"


def percent(share: float) -> str:
    """Write a share as a percentage with one decimal, a small one as ``<0.1%``."""
    return "<0.1%" if 0 < share < 0.0005 else f"{share:.1%}"


def percent_at_most(share: float) -> str:
    """Write a share rounded up to one decimal, so that "none above" holds."""
    return f"{math.ceil(share * 1000) / 1000:.1%}"


def scale_bound(share: float) -> str:
    """Write a bound of the scale: two decimals, no idle zeros."""
    return f"{share * 100:.2f}".rstrip("0").rstrip(".") + "%"


def length(contribution: float | None) -> str:
    """Write the length of a contribution with three digits, an unknown one as a dash."""
    return "–" if contribution is None else f"{contribution:#.3g}"


def size(count: int) -> str:
    """Write a number of bytes in binary units, such as ``1.5 MiB``."""
    amount = float(count)
    for unit in _UNITS[:-1]:
        if amount < 1024:
            return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} {_UNITS[-1]}"
