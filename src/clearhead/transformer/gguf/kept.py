"""The folder a GGUF file was converted to: made once, found again by the file's sha256."""

import json
import time
from pathlib import Path
from typing import Any, cast

from clearhead.errors import CheckpointError
from clearhead.transformer.cache_folder import (
    alone,
    read_seal,
    whole_file,
    whole_folder,
)
from clearhead.transformer.fetch import sha256_of
from clearhead.transformer.progress import megabytes, say
from clearhead.user_cache import cache_folder

__all__ = ["folder_of"]

_MOST_REMEMBERED = 100
# A file can change twice within one tick of its time stamp; one this young is not remembered.
_SETTLED_SECONDS = 2


def folder_of(file: Path, *, sha256: str | None = None) -> Path:
    """The model folder of a GGUF file, from the cache; converted when it is not there yet.

    Args:
        file: the GGUF file.
        sha256: of its content, where it is known.

    Returns:
        The folder, named after the sha256.

    Raises:
        CheckpointError: the file cannot be read, or the cache folder cannot be written.

    Cost:
        The first time: the model's size in float32, on the disk. Later: none.
    """
    try:
        sha256 = sha256 or _remembered_sha256(file)
        target = cache_folder() / "models" / sha256
        if read_seal(target) is None:
            with alone(sha256, what=file.name):
                _keep(file, target, sha256)
    except OSError as fault:  # the cache folder's own faults have been told by now
        reason = fault.strerror or str(fault)
        raise CheckpointError(f"{file} cannot be read: {reason}") from fault
    return target


def _keep(file: Path, target: Path, sha256: str) -> None:
    """Convert a file into the cache, and say what that takes; called under the lock."""
    if read_seal(target) is not None:
        return  # another process was quicker
    # the package that reads GGUF takes a while to import, which a second start does without
    from clearhead.transformer.gguf.convert import write_folder

    with whole_folder(target) as folder:
        size = write_folder(file, folder, sha256=sha256)
    say(f"{file.name}: {megabytes(size)} of float32 weights are kept in {target}")


def _remembered_sha256(file: Path) -> str:
    """A file's sha256, computed once for each path, size and time stamp."""
    index = cache_folder() / "sha256.json"
    status = file.stat()
    key, stamp = str(file.resolve()), [status.st_size, status.st_mtime_ns]
    known = _read_index(index)
    match known.get(key):
        case [size, changed, str() as digest] if [size, changed] == stamp:
            return digest
        case _:
            pass
    digest = sha256_of(file)
    if time.time_ns() - status.st_mtime_ns > _SETTLED_SECONDS * 1_000_000_000:
        known.pop(key, None)
        latest = [*known.items(), (key, [*stamp, digest])][-_MOST_REMEMBERED:]
        whole_file(index, json.dumps(dict(latest), indent=1))
    return digest


def _read_index(index: Path) -> dict[str, Any]:
    """What was remembered; nothing where the index is absent or damaged: it can be made anew."""
    try:
        known = json.loads(index.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", known) if isinstance(known, dict) else {}
