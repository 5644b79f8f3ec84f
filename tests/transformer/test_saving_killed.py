"""A save that is killed leaves the old model, the new one, or an error that says so."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from clearhead.errors import CheckpointError
from clearhead.transformer.checkpoint import from_pretrained
from clearhead.transformer.config import TransformerConfig
from clearhead.transformer.model import Transformer
from clearhead.transformer.replacing import replacing

#: In a process of its own, whose forks are killed: before the n-th rename, or in the n-th file.
KILLED = """
import json, os, signal, sys
from pathlib import Path
from clearhead.transformer import shards
from clearhead.transformer.config import TransformerConfig
from clearhead.transformer.model import Transformer

def killing(work, at):
    count = [0]
    def counted(*given):
        count[0] += 1
        if count[0] == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return work(*given)
    return counted

config, jobs = json.loads(sys.argv[1])
model = Transformer(TransformerConfig(**config))
for folder, options, kind, at in jobs:
    child = os.fork()
    if not child:
        if kind == "rename":
            Path.replace = killing(Path.replace, at)
        else:
            shards.write_file = killing(shards.write_file, at)
        model.save_pretrained(folder, **options)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print(os.WIFSIGNALED(status))
"""
SIZES = {"vocabulary_size": 30, "context_length": 64, "d_model": 16, "heads": 2, "d_ff": 24}
OLD, NEW = {**SIZES, "layers": 2}, {**SIZES, "layers": 3}
MOMENTS = [("file", 1), ("file", 3), *(("rename", at) for at in (1, 2, 3, 5, 8, 12, 99))]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows neither forks nor locks")


def old_model(kind: str, folder: Path) -> int:
    """Save what stands in the folder before; returns its number of layers, or 0."""
    if kind == "none":
        return 0
    size = {"one file": "1GB", "several files": 3000}[kind]
    Transformer(TransformerConfig(**OLD)).save_pretrained(folder, max_shard_size=size)
    return OLD["layers"]


def layers(folder: Path) -> int | str:
    """The layers of the model in a folder that is loaded whole, or what is said of it."""
    try:
        model = from_pretrained(folder)
    except CheckpointError as fault:
        return str(fault)
    assert all(torch.isfinite(one).all() for one in model.parameters())
    return model.config.layers


def test_old_or_new_or_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    jobs: list[tuple[str, dict[str, int], str, int]] = []
    stood: dict[str, int] = {}
    for before in ("none", "one file", "several files"):
        for options in ({"max_shard_size": 2000}, {}):
            for kind, at in MOMENTS:
                folder = tmp_path / f"{len(jobs)}"
                stood[str(folder)] = old_model(before, folder)
                jobs.append((str(folder), options, kind, at))
    command = [sys.executable, "-c", KILLED, json.dumps([NEW, jobs])]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    killed = [line == "True" for line in ran.stdout.split()]
    assert len(killed) == len(jobs)
    seen = [
        found(Path(job[0]), stood[job[0]], died=died)
        for job, died in zip(jobs, killed, strict=True)
    ]
    assert {"told", OLD["layers"], NEW["layers"]} == set(seen)
    again = Transformer(TransformerConfig(**{**SIZES, "layers": 1}))
    for name, options, _, _ in jobs:
        told = again.save_pretrained(name, **options)
        assert layers(Path(name)) == 1
        assert {one.name for one in Path(name).iterdir()} == set(told.files)


def found(folder: Path, stood: int, *, died: bool) -> int | str:
    """What a save left: the layers of a whole model, or ``"told"``."""
    said, left = layers(folder), [one.name for one in folder.glob(".saving-*")]
    assert len(left) == died
    if not died:
        assert said == NEW["layers"]
    elif isinstance(said, int):
        assert said == stood
    else:
        assert said == (
            f"{folder} holds no config.json: a save into it was cut off, or is still running, "
            f"and left {left[0]}; save the model again, which removes that"
        )
        return "told"
    return said


def test_a_save_waits_for_one_that_runs_and_leaves_its_files(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Locks of one process keep its threads apart as they do processes."""
    model = Transformer(TransformerConfig(**OLD))
    with replacing(tmp_path) as files:
        (files.new / "a").write_text("new")
        second = threading.Thread(target=model.save_pretrained, args=(tmp_path,))
        second.start()
        second.join(timeout=1)
        assert second.is_alive()
        assert (files.new / "a").read_text() == "new"
        assert "holds no config.json: a save into it was cut off, or is still running" in str(
            layers(tmp_path)
        )
        files.place(away=[], names=["a"])
    second.join(timeout=60)
    assert layers(tmp_path) == OLD["layers"]
    assert (tmp_path / "a").read_text() == "new"
    said = capfd.readouterr().err
    assert said == f"clearhead: another save into {tmp_path} is running; waiting for it\n"


def test_a_folder_that_the_first_save_took_away_is_made_again(tmp_path: Path) -> None:
    model, folder = Transformer(TransformerConfig(**OLD)), tmp_path / "model"
    with replacing(folder):  # it places nothing, so the folder goes
        second = threading.Thread(target=model.save_pretrained, args=(folder,))
        second.start()
        second.join(timeout=1)
        assert second.is_alive()
    second.join(timeout=60)
    assert layers(folder) == OLD["layers"]
