"""Memory that is still free, where the system tells; imports no torch."""

from collections.abc import Mapping
from pathlib import Path

from clearhead.errors import InputError

__all__ = ["available_bytes", "check_memory", "gigabytes"]

_ADVICE = "ask for fewer tokens or rows, or load the model in a smaller dtype"

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def available_bytes() -> int | None:
    """Bytes that this process can still be given, or None where the system does not tell.

    On Linux what the kernel calls available, or less where a container's limit leaves less.
    """
    told = [bound for bound in (_of_the_machine(), _of_the_container()) if bound is not None]
    return min(told, default=None)


def check_memory(needs: Mapping[str, int], available: int | None, *, advice: str = _ADVICE) -> None:
    """Refuse what cannot fit, before it is begun.

    Args:
        needs: bytes, by what takes them.
        available: bytes that are free; None is not known, and nothing is refused.
        advice: what to do instead.

    Raises:
        InputError: they are too few.
    """
    total = sum(needs.values())
    if available is None or total <= available:
        return
    listed = " and ".join(f"{gigabytes(size)} for {what}" for what, size in needs.items())
    together = f", {gigabytes(total)} together" if len(needs) > 1 else ""
    raise InputError(
        f"not enough memory: this takes {listed}{together}, and {gigabytes(available)} are "
        f"available; {advice}"
    )


def gigabytes(count: int) -> str:
    """A number of bytes as people read it.

    Args:
        count: bytes.

    Examples:
        >>> gigabytes(1_530_000_000), gigabytes(23_592_960)
        ('1.53 GB', '23.6 MB')
    """
    return f"{count / 1e9:.3g} GB" if count >= 999_500_000 else f"{count / 1e6:.3g} MB"


def _of_the_machine() -> int | None:
    for line in _text(_MEMINFO).splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _of_the_container() -> int | None:
    """What a control group leaves; memory that only holds copies of files can be taken back."""
    most, used = _text(_CGROUP / "memory.max").strip(), _text(_CGROUP / "memory.current").strip()
    if not (most.isdigit() and used.isdigit()):
        return None
    kept = (line.split() for line in _text(_CGROUP / "memory.stat").splitlines())
    files = next((int(size) for name, size in kept if name == "inactive_file"), 0)
    return max(int(most) - int(used) + files, 0)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
