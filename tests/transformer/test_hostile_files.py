"""Whatever stands in a model's files, it is read or refused by name, soon, and in little memory.

Every truncation, every flipped bit of a header, paths that lead elsewhere, names that stand there
twice, nesting, and numbers larger than any model (cases 52 to 54).
"""

import json
import os
import random
import resource
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gguf import GGUFWriter
from safetensors.torch import save_file
from torch import nn

from clearhead.errors import CheckpointError, ClearheadError
from clearhead.transformer.config import TransformerConfig
from clearhead.transformer.gguf.header import read_header
from clearhead.transformer.gguf.kept import folder_of
from clearhead.transformer.model import Transformer
from clearhead.transformer.model_folder import read_folder
from clearhead.transformer.released import load_released
from clearhead.transformer.weights import read_weights

SECONDS = 10  # what hostile numbers ask for takes hours
KILOBYTES = 400_000  # and more memory than there is


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """No test here makes the process grow by much, in all its tries together."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < KILOBYTES


def load(folder: Path) -> Transformer:
    return load_released(read_folder(folder), dtype=torch.float32, device="cpu")


def outcome(folder: Path) -> str | None:
    """What is said of a folder; None where it is read. Any other error is a failure."""
    started = time.process_time()
    try:
        load(folder)
    except ClearheadError as fault:
        return str(fault)
    finally:
        assert time.process_time() - started < SECONDS
    return None


def flipped(content: bytes, bit: int) -> bytes:
    damaged = bytearray(content)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


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


@pytest.mark.parametrize("size", [2**62, 10**30])
def test_sizes_whose_product_is_no_number_of_63_bits(size: int, folder: Path) -> None:
    file = folder / "config.json"
    config = json.loads(file.read_text())
    for stack in (config["transformer"], config["transformer"]["encoder"]):
        stack["vocabulary_size"] = size
    file.write_text(json.dumps(config))
    said = outcome(folder)
    assert said is not None
    assert said.startswith(f"{file} describes tensors that cannot be: ")


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


# ------------------------------------------------------------------------------------------- GGUF


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A GGUF file of three thousand bytes, with a tokenizer of a few tokens."""
    monkeypatch.setenv("CLEARHEAD_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "tiny.gguf"
    writer = GGUFWriter(file, "llama")
    writer.add_block_count(1)
    writer.add_context_length(8)
    writer.add_embedding_length(4)
    writer.add_feed_forward_length(2)
    writer.add_head_count(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(["a", "b", "ab", "<s>"])
    writer.add_token_merges(["a b"])
    writer.add_token_types([1, 1, 1, 3])
    writer.add_bos_token_id(3)
    shapes = {"token_embd": (4, 4), "output_norm": (4,), "blk.0.attn_norm": (4,)}
    shapes |= {f"blk.0.attn_{part}": (4, 4) for part in ("q", "k", "v", "output")}
    shapes |= {"blk.0.ffn_norm": (4,), "blk.0.ffn_gate": (2, 4), "blk.0.ffn_up": (2, 4)}
    for name, shape in (shapes | {"blk.0.ffn_down": (4, 2)}).items():
        writer.add_tensor(f"{name}.weight", np.ones(shape, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def converted(file: Path) -> str | None:
    """What is said of a file; None where it is converted, and then read."""
    models = file.parent / "cache" / "models"
    started = time.process_time()
    try:
        folder = folder_of(file)
    except ClearheadError as fault:
        assert not models.exists() or not list(models.iterdir())  # nothing half-written
        return str(fault)
    finally:
        assert time.process_time() - started < SECONDS
    said = outcome(folder)
    shutil.rmtree(models)
    return said


def test_the_file_itself_is_read(tiny: Path) -> None:
    assert converted(tiny) is None


def test_every_truncation_of_a_gguf_file_is_refused(tiny: Path) -> None:
    whole = tiny.read_bytes()
    for length in range(len(whole)):
        tiny.write_bytes(whole[:length])
        with pytest.raises(CheckpointError) as caught:
            read_header(tiny)
        assert str(caught.value).startswith(f"{tiny} cannot be read as GGUF: ")
    for length in range(0, len(whole), 50):
        tiny.write_bytes(whole[:length])
        said = converted(tiny)
        assert said is not None
        assert said.startswith(f"{tiny} cannot be read")


def test_flipped_bits_of_a_gguf_header_are_read_or_refused(tiny: Path, seed: int) -> None:
    chance = random.Random(seed)
    whole = tiny.read_bytes()
    header = min(tensor.start for tensor in read_header(tiny).tensors.values())
    refusals = 0
    for bit in chance.sample(range(8 * header), 300):
        tiny.write_bytes(flipped(whole, bit))
        said = converted(tiny)
        assert said is None or str(tiny) in said or "cache" in said
        refusals += said is not None
    assert refusals


def test_settings_of_a_gguf_file_are_read_or_refused(tiny: Path, seed: int) -> None:
    """Numbers of the header are exchanged for others, which its bits alone would hardly give."""
    chance = random.Random(seed)
    whole = tiny.read_bytes()
    names = ["block_count", "context_length", "embedding_length", "feed_forward_length"]
    names += ["attention.head_count", "attention.layer_norm_rms_epsilon"]
    for name in names:
        at = whole.index(f"llama.{name}".encode()) + len(f"llama.{name}") + 4
        for number in (0, 1, 3, 7, 2**16, 2**31 - 1, 2**31, 2**32 - 1, chance.randrange(2**32)):
            tiny.write_bytes(whole[:at] + number.to_bytes(4, "little") + whole[at + 4 :])
            said = converted(tiny)
            assert said is None or str(tiny) in said
