"""Files of a folder are replaced all or none; what a whole save does is in test_saving_whole."""

from pathlib import Path

import pytest

from clearhead.errors import CheckpointError
from clearhead.transformer.replacing import replacing


def held(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.iterdir()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in "abc":
        (tmp_path / name).write_text(f"old {name}")
    return tmp_path


def test_new_files_take_the_place_of_old_ones(folder: Path) -> None:
    with replacing(folder) as files:
        for name in "bd":
            (files.new / name).write_text(f"new {name}")
        assert (folder / "b").read_text() == "old b"
        files.place(away=["c", "not there"], names=["b", "d"])
    assert held(folder) == {"a": "old a", "b": "new b", "d": "new d"}


def test_what_is_not_placed_is_gone(folder: Path) -> None:
    with replacing(folder) as files:
        (files.new / "a").write_text("new a")
    assert held(folder) == {name: f"old {name}" for name in "abc"}


def test_a_name_that_was_not_written_changes_nothing(folder: Path) -> None:
    def attempt() -> None:
        with replacing(folder) as files:
            (files.new / "a").write_text("new a")
            files.place(away=["b"], names=["a", "c"])

    with pytest.raises(CheckpointError) as caught:
        attempt()
    assert str(caught.value) == (
        f"{folder} cannot be written: No such file or directory; what stood there is as it was"
    )
    assert held(folder) == {name: f"old {name}" for name in "abc"}


def test_a_folder_is_made_and_unmade(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"

    def attempt() -> None:
        with replacing(deep):
            assert deep.is_dir()
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        attempt()
    assert not (tmp_path / "a").exists()
    with replacing(deep) as files:
        (files.new / "x").write_text("new")
        files.place(away=[], names=["x"])
    assert held(deep) == {"x": "new"}
