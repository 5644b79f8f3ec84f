"""A model folder is looked over before anything in it is trusted."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from clearhead.errors import CheckpointError
from clearhead.transformer.model_folder import read_folder


def folder(path: Path, **config: Any) -> Path:
    """A folder with a configuration and no weights yet."""
    path.mkdir(exist_ok=True)
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"]} | config
    (path / "config.json").write_text(json.dumps(config))
    return path


def weights(file: Path, **tensors: np.ndarray) -> None:
    save_file(tensors or {"a": np.ones(2, np.float32)}, file)


def refused(path: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        read_folder(path)
    return str(caught.value)


def test_what_a_folder_holds(tmp_path: Path) -> None:
    weights(
        folder(tmp_path) / "model.safetensors",
        a=np.ones(2, np.float16),
        b=np.ones(2, np.float32),
        places=np.arange(3),
    )
    read = read_folder(tmp_path)
    assert (read.family, read.architecture) == ("llama", "LlamaForCausalLM")
    assert read.files == (tmp_path / "model.safetensors",)
    assert read.stored_as == ("float16", "float32")
    assert read.origin is None
    (tmp_path / "clearhead.json").write_text('{"origin": "from here"}')
    assert read_folder(tmp_path).origin == "from here"


def test_bytes_in_memory_are_those_of_a_dtype_for_fractions_alone(tmp_path: Path) -> None:
    weights(
        folder(tmp_path) / "model.safetensors",
        a=np.ones((2, 3), np.float16),
        b=np.ones(5, np.float64),
        places=np.arange(3, dtype=np.int64),
    )
    read = read_folder(tmp_path)
    assert read.tensors["a"].shape == (2, 3)
    found = [read.bytes_as(name) for name in ("float64", "float32", "bfloat16", "float16")]
    assert found == [8 * 11 + 24, 4 * 11 + 24, 2 * 11 + 24, 2 * 11 + 24]
    assert read.bytes_as("float32", apart_from=["b", "not there"]) == 4 * 6 + 24


@pytest.mark.parametrize("architectures", [None, [], "LlamaForCausalLM", [3]])
def test_an_architecture_that_is_not_told(architectures: Any, tmp_path: Path) -> None:
    weights(folder(tmp_path, architectures=architectures) / "model.safetensors")
    assert read_folder(tmp_path).architecture is None


def test_more_layers_than_tensors_are_refused_before_they_are_built(tmp_path: Path) -> None:
    weights(folder(tmp_path, num_hidden_layers=1_000_000_000) / "model.safetensors")
    assert refused(tmp_path) == (
        f"{tmp_path / 'config.json'} says num_hidden_layers is 1,000,000,000, and the weights are "
        "1 tensors: that cannot be"
    )


def indexed(path: Path, names: Any) -> Path:
    folder(path)
    (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    return path / "model.safetensors.index.json"


def test_weights_in_several_files(tmp_path: Path) -> None:
    names = {"a": "one.safetensors", "b": "inner/two.safetensors", "c": "one.safetensors"}
    indexed(tmp_path, names)
    (tmp_path / "inner").mkdir()
    for name in set(names.values()):
        weights(tmp_path / name)
    assert read_folder(tmp_path).files == (
        tmp_path / "one.safetensors",
        tmp_path / "inner/two.safetensors",
    )


@pytest.mark.parametrize(
    "name",
    [
        "../x.safetensors",
        "inner/../../x.safetensors",
        "/x.safetensors",
        "C:\\x.safetensors",
        "C:x.safetensors",
        "..\\x.safetensors",
        "\\\\host\\x.safetensors",
        "",
        7,
        None,
    ],
)
def test_an_index_that_leads_out_of_the_folder_is_not_followed(name: Any, tmp_path: Path) -> None:
    weights(tmp_path / "x.safetensors")  # it is there, and would be read
    index = indexed(tmp_path / "model", {"a": name})
    assert refused(tmp_path / "model") == (
        f"{index} cannot be followed: {name!r} is no name of a file in the folder, "
        "and is not followed"
    )


def test_missing_files_of_an_index_are_listed(tmp_path: Path) -> None:
    index = indexed(tmp_path, {"a": "one.safetensors", "b": "two.safetensors"})
    assert refused(tmp_path) == (
        f"{index} cannot be followed, 2 faults:\n"
        "  - one.safetensors is missing\n"
        "  - two.safetensors is missing"
    )


@pytest.mark.parametrize("names", [None, {}, ["one.safetensors"]])
def test_an_index_without_names(names: Any, tmp_path: Path) -> None:
    index = indexed(tmp_path, names)
    assert refused(tmp_path) == f"{index} cannot be read: expected a 'weight_map' with names"


def test_weights_that_are_programs_are_refused(tmp_path: Path) -> None:
    for name in ("pytorch_model.bin", "model.ckpt"):
        (folder(tmp_path) / name).write_bytes(b"cos\nsystem\n")
    assert refused(tmp_path) == (
        f"{tmp_path} holds its weights only as model.ckpt, pytorch_model.bin, which can run any "
        "program when it is read, and is refused; expected model.safetensors: where you trust it, "
        'give weights="pickle", which reads tensors alone'
    )
    weights(tmp_path / "model.safetensors")  # beside these they are not read
    assert read_folder(tmp_path).files == (tmp_path / "model.safetensors",)


def test_a_folder_without_weights_or_configuration(tmp_path: Path) -> None:
    assert refused(tmp_path) == (
        f"{tmp_path} holds no config.json: expected a model folder, with config.json, "
        "model.safetensors and tokenizer.json"
    )
    assert refused(folder(tmp_path)) == (
        f"{tmp_path} holds no weights: expected model.safetensors or model.safetensors.index.json"
    )


@pytest.mark.parametrize("damage", [b"{", b"\xff", b"[" * 100_000])
def test_a_damaged_configuration_is_named(damage: bytes, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(damage)
    assert refused(tmp_path).startswith(f"{tmp_path / 'config.json'} cannot be read: ")
    (tmp_path / "config.json").write_text("[]")
    assert refused(tmp_path) == f"{tmp_path / 'config.json'} cannot be read: expected a JSON object"


def test_damaged_weights_are_named(tmp_path: Path) -> None:
    file = folder(tmp_path) / "model.safetensors"
    weights(file)
    whole = file.read_bytes()
    for damage in (b"", whole[:4], whole[:-1], b"\xff" * 8 + whole[8:], whole[:9] + whole[10:]):
        file.write_bytes(damage)
        assert refused(tmp_path).startswith(f"{file} cannot be read as safetensors: ")


@pytest.mark.parametrize("lacking", ["config.json", "weights"])
def test_what_a_save_that_was_cut_off_left_is_why_a_folder_is_not_whole(
    lacking: str, tmp_path: Path
) -> None:
    if lacking == "weights":
        folder(tmp_path)
    (tmp_path / ".saving-12ab34cd").mkdir()
    assert refused(tmp_path) == (
        f"{tmp_path} holds no {lacking}: a save into it was cut off, or is still running, and left "
        ".saving-12ab34cd; save the model again, which removes that"
    )
