"""Memory that is free, as the system tells it; and what is too much for it."""

from pathlib import Path

import pytest

from clearhead.errors import InputError
from clearhead.transformer import available_memory
from clearhead.transformer.available_memory import available_bytes, check_memory, gigabytes


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(available_memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(available_memory, "_CGROUP", tmp_path)
    return tmp_path


def test_what_the_kernel_calls_available(system: Path) -> None:
    (system / "meminfo").write_text("MemTotal: 9 kB\nMemFree: 1 kB\nMemAvailable:   2000 kB\n")
    assert available_bytes() == 2_048_000


def test_what_a_container_leaves(system: Path) -> None:
    (system / "meminfo").write_text("MemAvailable: 2000 kB\n")
    (system / "memory.current").write_text("900000\n")
    (system / "memory.max").write_text("max\n")
    assert available_bytes() == 2_048_000
    (system / "memory.max").write_text("1000000\n")
    assert available_bytes() == 100_000
    (system / "memory.stat").write_text("anon 5\ninactive_file 7000\nactive_file 1\n")
    assert available_bytes() == 107_000


def test_a_system_that_does_not_tell(system: Path) -> None:
    assert available_bytes() is None
    check_memory({"a cache": 10**18}, None)


def test_what_fits_is_not_refused() -> None:
    check_memory({"a cache": 10, "weights": 5}, 15)


def test_what_does_not_fit() -> None:
    with pytest.raises(InputError) as caught:
        check_memory({"a cache": 3_000_000_000}, 2_500_000_000)
    assert str(caught.value) == (
        "not enough memory: this takes 3 GB for a cache, and 2.5 GB are available; ask for fewer "
        "tokens or rows, or load the model in a smaller dtype"
    )


def test_several_needs_and_other_advice() -> None:
    with pytest.raises(InputError) as caught:
        check_memory({"a": 2_000_000, "b": 1_000_000}, 2_500_000, advice="take less")
    assert str(caught.value) == (
        "not enough memory: this takes 2 MB for a and 1 MB for b, 3 MB together, and 2.5 MB are "
        "available; take less"
    )


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 MB"), (999_499_999, "999 MB"), (999_500_000, "1 GB")]
)
def test_sizes(count: int, shown: str) -> None:
    assert gigabytes(count) == shown
