"""Whatever stands in a model's folder, it is read or refused by name, soon, and in little memory.

Every truncation, every flipped bit of a header, paths that lead elsewhere, names that stand there
twice, nesting, and numbers larger than any model (cases 52 to 54).
"""

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from clearhead.errors import CheckpointError
from clearhead.transformer.config import TransformerConfig
from clearhead.transformer.model import Transformer
from clearhead.transformer.weights import read_weights
from tests.transformer.hostile import bounded, flipped, outcome

__all__ = ["bounded"]  # a fixture for every test here

# ------------------------------------------------------------------------------------ safetensors


WANTED = {"a": torch.Size([2, 3]), "b": torch.Size([4])}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    file = tmp_path / "small.safetensors"
    save_file({name: torch.ones(shape) for name, shape in WANTED.items()}, file)
    return file


def read(file: Path) -> str | None:
    try:
        got = read_weights([file], WANTED, twins={}, dtype=torch.float32, device="cpu")
    except CheckpointError as fault:
        return str(fault)
    assert {name: tensor.shape for name, tensor in got.items()} == WANTED
    return None


def test_every_truncation_of_a_safetensors_file_is_refused(small: Path) -> None:
    whole = small.read_bytes()
    for length in range(len(whole)):
        small.write_bytes(whole[:length])
        said = read(small)
        assert said is not None
        assert said.startswith(f"{small} cannot be read as safetensors: ")


def test_every_flipped_bit_of_a_safetensors_header_is_read_or_refused(small: Path) -> None:
    whole = small.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    refusals = 0
    for bit in range(8 * header):
        small.write_bytes(flipped(whole, bit))
        said = read(small)
        assert said is None or str(small) in said or str(small.parent) in said
        refusals += said is not None
    # what is read had the length of the padding or the letters of a note changed, nothing else
    assert refusals > 8 * (header - 60)


def test_any_bytes_at_all_are_refused(small: Path, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(300):
        length = chance.randrange(60)
        small.write_bytes(length.to_bytes(8, "little") + chance.randbytes(chance.randrange(80)))
        assert read(small) is not None


# ------------------------------------------------------------------------------------ model folders


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small model in our own spelling, whose configuration has something of everything."""
    sizes: dict[str, Any] = {"vocabulary_size": 9, "d_model": 8, "d_ff": 6, "heads": 2}
    encoder = TransformerConfig(**sizes, context_length=8, layers=1, kind="encoder", predicts=False)
    config = TransformerConfig(**sizes, context_length=8, layers=1, encoder=encoder)
    Transformer(config).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_flipped_bits_of_a_folder_are_read_or_refused(name: str, folder: Path, seed: int) -> None:
    chance = random.Random(seed)
    whole = (folder / name).read_bytes()
    end = len(whole) if name == "config.json" else 8 + int.from_bytes(whole[:8], "little")
    for bit in chance.sample(range(8 * end), 300):
        (folder / name).write_bytes(flipped(whole, bit))
        said = outcome(folder)
        assert said is None or "model" in said


def test_values_of_a_configuration_are_read_or_refused(folder: Path, seed: int) -> None:
    chance = random.Random(seed)
    whole = json.loads((folder / "config.json").read_text())
    strange = [None, True, -1, 0, 2**31, 2**63, 10**30, 1e400, -0.0, "", "x", [], {}, [[]], [None]]
    for _ in range(300):
        config = json.loads(json.dumps(whole))
        place: Any = config
        while True:
            key = chance.choice(list(place) if isinstance(place, dict) else range(len(place)))
            if not isinstance(place[key], dict | list) or not place[key] or chance.random() < 0.1:
                break
            place = place[key]
        place[key] = chance.choice(strange)
        (folder / "config.json").write_text(json.dumps(config))
        outcome(folder)


LAYERS = {
    "llama": "num_hidden_layers",
    "gpt2": "n_layer",
    "distilbert": "n_layers",
    "t5": "num_layers",
    "bart": "encoder_layers",
}


@pytest.mark.parametrize("family", LAYERS)
@pytest.mark.parametrize("layers", [10**9, 2**63 - 1, 10**40])
def test_layers_without_end_are_refused_before_one_is_made(
    family: str, layers: int, tmp_path: Path
) -> None:
    save_file({"a": torch.ones(2)}, tmp_path / "model.safetensors")
    config = {"model_type": family, LAYERS[family]: layers}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert outcome(tmp_path) == (
        f"{tmp_path / 'config.json'} says {LAYERS[family]} is {layers:,}, and the weights are "
        "1 tensors: that cannot be"
    )


def test_layers_without_end_in_our_own_spelling(folder: Path) -> None:
    file = folder / "config.json"
    config = json.loads(file.read_text())
    config["transformer"]["encoder"]["layers"] = 10**12
    file.write_text(json.dumps(config))
    tensors = len(Transformer.state_dict(load_small(folder)))
    assert outcome(folder) == (
        f"{file} says there are {10**12 + 1:,} layers, and the weights are {tensors} tensors: "
        "that cannot be"
    )


def load_small(folder: Path) -> nn.Module:
    """What the folder held before its configuration was changed, without its numbers twice."""
    from safetensors import safe_open

    module = nn.Module()
    with safe_open(folder / "model.safetensors", framework="pt") as opened:
        for n, name in enumerate(opened.keys()):
            module.register_buffer(f"b{n}", opened.get_tensor(name))
    return module


@pytest.mark.parametrize(
    ("size", "fault"),
    [
        (2**62, "/config.json describes tensors that cannot be: "),
        (10**30, ": vocabulary_size must be at most 2**62, got 1000000000000000000000000000000"),
    ],
)
def test_sizes_whose_product_is_no_number_of_63_bits(size: int, fault: str, folder: Path) -> None:
    file = folder / "config.json"
    config = json.loads(file.read_text())
    for stack in (config["transformer"], config["transformer"]["encoder"]):
        stack["vocabulary_size"] = size
    file.write_text(json.dumps(config))
    said = outcome(folder)
    assert said is not None
    assert fault in said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[" * 900 + b"]" * 900, "expected a JSON object"),
        (b'{"a":' * 200 + b"1" + b"}" * 200, "it is nested more than 32 deep"),
        (b'{"a":' * 100_000, "maximum recursion depth exceeded"),
        (b'{"a": 1, "b": 2, "a": 3}', "the name 'a' stands there twice"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "Exceeds the limit (4300 digits)"),
        (b'{"a": \xff}', "'utf-8' codec can't decode byte 0xff"),
        (b"\0" * 100, "Expecting value: line 1 column 1"),
    ],
)
@pytest.mark.parametrize("name", ["config.json", "model.safetensors.index.json", "clearhead.json"])
def test_json_that_is_none(name: str, content: bytes, said: str, folder: Path) -> None:
    if name == "model.safetensors.index.json":
        (folder / "model.safetensors").rename(folder / "a.safetensors")
    (folder / name).write_bytes(content)
    told = outcome(folder)
    assert told is not None
    assert told.startswith(f"{folder / name} cannot be read: {said}")


@pytest.mark.parametrize(
    "name",
    [
        "../x.safetensors",
        "a/../../x.safetensors",
        "/etc/passwd",
        "C:\\x.safetensors",
        "C:x.safetensors",
        "..\\x.safetensors",
        "\\\\host\\share\\x.safetensors",
        "//host/x.safetensors",
        "",
        ".",
        "x\0.safetensors",
        "x" * 5000,
        None,
        3,
        ["a.safetensors"],
        {"a": "a.safetensors"},
    ],
)
def test_an_index_leads_nowhere_out_of_its_folder(name: Any, folder: Path) -> None:
    (folder / "model.safetensors").rename(folder.parent / "x.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": name}}))
    said = outcome(folder)
    assert said is not None
    assert said.startswith(f"{index} cannot be followed: ")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_pipe_is_not_waited_for(name: str, folder: Path) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)
    said = outcome(folder)
    assert said is not None
    assert str(folder) in said


def test_a_huge_file_of_json_is_not_read(folder: Path) -> None:
    with (folder / "config.json").open("wb") as opened:  # a hole: the disk holds none of it
        opened.truncate(10**11)
    assert outcome(folder) == (
        f"{folder / 'config.json'} cannot be read: it has 100,000,000,000 bytes, "
        "at most 100,000,000 are readable"
    )


def test_a_tensor_in_two_files_is_refused(folder: Path) -> None:
    for name in "ab":
        shutil.copy(folder / "model.safetensors", folder / f"{name}.safetensors")
    (folder / "model.safetensors").unlink()
    names = {"a": "a.safetensors", "b": "b.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    said = outcome(folder)
    assert said is not None
    assert "token_embedding.weight is in several files" in said
