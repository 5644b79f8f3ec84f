"""C compiled on the machine it runs on, once, and kept in the user's cache.

A library that is built here knows its processor, and the package stays plain Python to install. It
shares the threads PyTorch has already started: two teams of threads would wait for each other.
"""

import ctypes
import hashlib
import os
import platform
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from clearhead.user_cache import cache_folder

__all__ = ["SWITCH", "AbsentError", "build"]

#: Set to 0 it leaves all to PyTorch.
SWITCH = "CLEARHEAD_NATIVE"
_FLAGS = ("-O3", "-march=native", "-fopenmp", "-fPIC")
#: What OpenMP's code calls; PyTorch brings it.
_THREADS = "GOMP_parallel"
_SECONDS = 60


class AbsentError(Exception):
    """Why there can be no native code here."""


def build(*, anew: bool = False) -> Path:
    """The C files beside this one as a library: the one in the cache, or made now.

    Args:
        anew: whether to make it even where it is there, because it cannot be loaded.

    Returns:
        Its place.

    Raises:
        AbsentError: no compiler, another system than Linux, or the user's wish.
        OSError, subprocess.SubprocessError: the cache cannot be written, the compiler not run.

    Cost: half a second, once for every kind of processor.
    """
    if os.environ.get(SWITCH) == "0":
        raise AbsentError(f"{SWITCH} is 0")
    if not sys.platform.startswith("linux"):
        raise AbsentError(f"not on {sys.platform}")
    if not hasattr(ctypes.CDLL(None), _THREADS):
        raise AbsentError("PyTorch's threads are not OpenMP's")
    sources = sorted(Path(__file__).parent.glob("*.c"))
    headers = sorted(Path(__file__).parent.glob("*.h"))
    made_of = [file.read_bytes() for file in (*sources, *headers)]
    made_for = "\n".join((*_FLAGS, platform.machine(), _processor()))
    name = hashlib.sha256(b"\0".join((*made_of, made_for.encode()))).hexdigest()[:16]
    try:
        folder = cache_folder().absolute() / "native"
    except RuntimeError as fault:
        raise AbsentError(f"no cache folder: {fault}") from fault
    # a library that lost its end would end the process, so its name says how long it is
    there = [] if anew else sorted(folder.glob(f"{name}-*.so"))
    whole = (one for one in there if one.stem == f"{name}-{one.stat().st_size}")
    return next(whole, None) or _compiled(sources, folder, name)


def _compiled(sources: list[Path], place: Path, name: str) -> Path:
    """Make a library that is there whole or not at all, and that can be loaded."""
    compiler = _compiler()
    place.mkdir(parents=True, exist_ok=True)
    part = place / f".{name}.part-{secrets.token_hex(4)}"
    try:
        with tempfile.TemporaryDirectory() as folder:
            _run(*compiler, *_FLAGS, "-c", *map(str, sources), folder=folder)
            made = [f"{source.stem}.o" for source in sources]
            # without OpenMP's own library: its names are found in the one PyTorch loaded
            _run(*compiler, "-shared", *made, "-lm", "-o", str(part), folder=folder)
        try:
            ctypes.CDLL(str(part))
        except OSError as fault:
            raise AbsentError(f"what {compiler[0]} made cannot be loaded: {fault}") from fault
        with part.open("rb") as written:
            os.fsync(written.fileno())
        return part.replace(place / f"{name}-{part.stat().st_size}.so")
    finally:
        part.unlink(missing_ok=True)


def _run(*command: str, folder: str) -> None:
    done = subprocess.run(  # noqa: S603  the user's own compiler, on files of this package
        command, cwd=folder, capture_output=True, timeout=_SECONDS, check=False
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise AbsentError(f"{command[0]} failed: {said[0] if said else done.returncode}")


def _compiler() -> tuple[str, ...]:
    """The compiler, and what ``$CC`` has after its name: ``ccache gcc`` is one too."""
    try:
        asked = shlex.split(os.environ.get("CC", ""))
    except ValueError as fault:
        raise AbsentError(f"CC cannot be read: {fault}") from fault
    # Clang's OpenMP calls a library that PyTorch does not bring
    for name, *more in [asked] if asked else [["gcc"], ["cc"]]:
        found = shutil.which(name)
        if found is not None:
            return (str(Path(found).absolute()), *more)
    raise AbsentError(f"no C compiler{f' named {asked[0]}' if asked else ''}")


def _processor() -> str:
    """What the processor can do: a home may be shared by machines that differ."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")
