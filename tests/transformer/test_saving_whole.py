"""A folder holds one model, whole, whatever fails while another is saved over it (case 49)."""

import json
import os
import shutil
import time
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.errors import CheckpointError
from clearhead.tokens import TextTokenizer
from clearhead.transformer import replacing, saving, shards
from clearhead.transformer.config import TransformerConfig
from clearhead.transformer.model import Transformer
from clearhead.transformer.model_folder import read_folder
from clearhead.transformer.released import load_released
from tests.tokens import tiny

SIZES: dict[str, Any] = {"vocabulary_size": 30, "context_length": 64, "d_model": 16, "heads": 2}


def model_of(**changed: Any) -> Transformer:
    return Transformer(TransformerConfig(**SIZES | {"d_ff": 24, "layers": 2} | changed))


def contents(folder: Path) -> dict[str, bytes]:
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def read(folder: Path) -> dict[str, torch.Tensor]:
    model = load_released(read_folder(folder), dtype=torch.float32, device="cpu")
    return model.state_dict()


def assert_holds(folder: Path, model: Transformer) -> None:
    expected, got = model.state_dict(), read(folder)
    assert all(torch.equal(expected[name], got[name]) for name in expected.keys() | got.keys())


@pytest.fixture
def old(tmp_path: Path) -> Path:
    model_of().save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "README.md").write_text("mine")
    return tmp_path / "model"


def outcome(model: Transformer, folder: Path, options: dict[str, Any]) -> str | None:
    """What is said when a model cannot be saved; None where it is."""
    try:
        model.save_pretrained(folder, **options)
    except CheckpointError as fault:
        return str(fault)
    return None


NEW = {
    "the same shape": ({}, {}),
    "another shape": ({"layers": 1}, {}),
    "several files": ({}, {"max_shard_size": 2000}),
    "several files of another shape": ({"layers": 3}, {"max_shard_size": 2000}),
}


@pytest.mark.parametrize("new", NEW)
def test_a_rename_that_fails_is_undone(
    new: str, old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each rename of the whole save fails once; then none does."""
    changed, options = NEW[new]
    model, before = model_of(**changed), contents(old)
    rename, count = Path.replace, [0]

    def failing(self: Path, target: Path) -> Path:
        count[0] -= 1
        if count[0] == 0:
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", failing)
    for at in range(1, 100):
        count[0] = at
        said = outcome(model, old, options)
        if said is None:
            break
        assert said == (
            f"{old} cannot be written: Input/output error; what stood there is as it was"
        )
        assert contents(old) == before
    assert said is None
    assert_holds(old, model)
    assert (old / "README.md").read_text() == "mine"
    assert not list(old.glob(".saving-*"))


@pytest.mark.parametrize("place", ["new", "old"])
@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_what_there_was(
    place: str, fault: BaseException, old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = old if place == "old" else old.parent / "deep" / "er"
    before, written = contents(old.parent), []

    def failing(*args: Any) -> None:
        written.append(args)
        if len(written) == 3:
            raise fault
        return write_file(*args)

    write_file = shards.write_file
    monkeypatch.setattr(shards, "write_file", failing)
    with pytest.raises((CheckpointError, KeyboardInterrupt)):
        model_of().save_pretrained(target, max_shard_size=2000)
    assert contents(old.parent) == before
    assert not (old.parent / "deep").exists()


def test_where_only_numbers_differ_one_rename_exchanges_them(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At no moment is there a folder without a model, or with half of each."""
    first, second = read(old), model_of()
    rename, seen = Path.replace, []

    def watched(self: Path, target: Path) -> Path:
        result = rename(self, target)
        seen.append({name: float(weights.sum()) for name, weights in read(old).items()})
        return result

    monkeypatch.setattr(Path, "replace", watched)
    second.save_pretrained(old)
    sums = [
        {name: float(weights.sum()) for name, weights in one.items()}
        for one in (first, second.state_dict())
    ]
    assert all(one in sums for one in seen)
    assert seen[-1] == sums[1]


def test_what_differs_is_never_there_together(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    second = model_of(d_ff=32)
    rename, seen = Path.replace, []

    def watched(self: Path, target: Path) -> Path:
        result = rename(self, target)
        try:
            seen.append(len(read(old)))
        except CheckpointError as fault:
            seen.append(str(fault).split(":")[0])
        return result

    monkeypatch.setattr(Path, "replace", watched)
    second.save_pretrained(old, max_shard_size=3000)
    assert seen[-1] == len(second.state_dict())
    assert set(seen[:-1]) == {f"{old} holds no config.json"}


def test_one_file_and_several_replace_each_other(old: Path) -> None:
    for size in (2000, "1GB", 2000, 4000):
        model = model_of()
        told = model.save_pretrained(old, max_shard_size=size)
        assert_holds(old, model)
        assert {file.name for file in old.iterdir()} == {*told.files, "README.md"}


def test_a_strange_index_makes_nothing_go_away(old: Path) -> None:
    index = old / "model.safetensors.index.json"
    (old.parent / "x.safetensors").write_text("mine")
    entries = {"a": "README.md", "b": "../x.safetensors", "c": str(old.parent / "x.safetensors")}
    for strange in (json.dumps({"weight_map": entries}), "{", '{"weight_map": 3}', "[]"):
        index.write_text(strange)
        model_of().save_pretrained(old)
        assert (old / "README.md").read_text() == "mine"
        assert (old.parent / "x.safetensors").read_text() == "mine"
        assert not index.exists()


def test_a_tokenizer_that_stands_there_stays_and_an_old_origin_goes(old: Path) -> None:
    (old / "tokenizer.json").write_text("{}")
    (old / "clearhead.json").write_text('{"origin": "of other weights"}')
    model_of().save_pretrained(old)
    assert (old / "tokenizer.json").read_text() == "{}"
    assert read_folder(old).origin is None


@pytest.mark.parametrize("locks", [True, False])
def test_what_a_dead_process_left_is_removed(
    locks: bool, old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once where a lock tells that it died, else after a day."""
    if not locks:
        monkeypatch.setattr(replacing, "_lock", lambda *_: False)
    stale, fresh = old / ".saving-dead", old / ".saving-busy"
    for left in (stale, fresh):
        left.mkdir()
        (left / "model.safetensors").write_bytes(b"half")
    past = time.time() - 25 * 3600
    os.utime(stale, (past, past))
    model = model_of()
    model.save_pretrained(old)
    assert (stale.exists(), fresh.exists()) == (False, not locks)
    assert_holds(old, model)


def test_a_tokenizer_that_changes_goes_in_with_the_weights(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At no moment do the old weights stand beside the new tokenizer."""
    words = TextTokenizer.wrap(tiny.byte_level())
    model, rename, seen = model_of(), Path.replace, []
    vars(model).update(clearhead_tokenizer=words)
    (old / "tokenizer.json").write_text("{}")

    def watched(self: Path, target: Path) -> Path:
        result = rename(self, target)
        seen.append((old / "config.json").is_file())
        return result

    monkeypatch.setattr(Path, "replace", watched)
    model.save_pretrained(old)
    assert seen[-1]
    assert not any(seen[:-1])
    seen.clear()
    model.save_pretrained(old)  # nothing but numbers differs
    assert all(seen)


def test_too_little_room_is_said_before_anything_is_written(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "free")  # noqa: PYI024  (two lines of a stand-in)
    monkeypatch.setattr(saving.shutil, "disk_usage", lambda _: usage(1000))
    before = contents(old)
    with pytest.raises(CheckpointError) as caught:
        model_of().save_pretrained(old)
    need = sum(4 * parameter.numel() for parameter in model_of().parameters())
    assert str(caught.value) == (f"{old} needs {need / 1e3:.0f} kB, and only 1 kB are free there")
    assert contents(old) == before


def test_a_file_system_without_second_names(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", refused)
    model = model_of()
    model.save_pretrained(old)
    assert_holds(old, model)


def test_a_relative_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = model_of()
    for name in ("model", ".", Path("a") / "b"):
        model.save_pretrained(name)
        assert_holds(tmp_path / name, model)
    shutil.rmtree("a")
