"""axe-core, which checks accessibility: fetched once by npm, which checks what it fetched."""

import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import platformdirs
import pytest

__all__ = ["axe_source", "violations"]

VERSION = "4.14.1"


def axe_source() -> str:
    """The checker as one script, from a folder outside the repository."""
    folder = platformdirs.user_cache_path("clearhead-tests")
    archive = folder / f"axe-core-{VERSION}.tgz"
    if not archive.exists():
        _fetch(folder)
    with tarfile.open(archive) as packed:
        script = packed.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode("utf-8")


def _fetch(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("needs npm, to fetch axe-core: install the package npm (apt-get install npm)")
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"part-{os.getpid()}"
    part.mkdir(exist_ok=True)
    try:
        asked = [npm, "pack", "--silent", f"axe-core@{VERSION}"]
        ran = subprocess.run(asked, cwd=part, capture_output=True, text=True, check=False)
        if ran.returncode:
            cause = ran.stderr.strip().splitlines()[:1]
            pytest.skip(f"needs npm's registry, once, to fetch axe-core {VERSION} ({cause})")
        (part / f"axe-core-{VERSION}.tgz").replace(folder / f"axe-core-{VERSION}.tgz")
    finally:
        shutil.rmtree(part)


def violations(page: Any, axe: str) -> list[str]:
    """What axe-core finds wrong, one line an element, in a page opened with bypass_csp."""
    page.evaluate(axe)
    found = page.evaluate("async () => (await axe.run()).violations")
    return [
        f"{rule['id']}: {node['html'][:160]} {node['failureSummary']}"
        for rule in found
        for node in rule["nodes"]
    ]
