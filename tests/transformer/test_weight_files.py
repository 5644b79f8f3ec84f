"""Weights as pickles: read where they are asked for, and never run."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from clearhead.errors import CheckpointError, InputError
from clearhead.transformer.loading import load
from clearhead.transformer.model_folder import read_folder
from clearhead.transformer.weight_files import is_safetensors, opened


@pytest.fixture
def pickled(tiny_llama: nn.Module, tmp_path: Path) -> Path:
    """A folder with a model whose only weights are a pickle."""
    tiny_llama.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    torch.save(weights, tmp_path / "pytorch_model.bin")
    return tmp_path


class Hostile:
    """Runs a program when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.write_text, (self.target, "run"))


def refused(folder: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        read_folder(folder, weights="pickle")
    file = folder / "pytorch_model.bin"
    return str(caught.value).removeprefix(f"{file} cannot be read as a pickle of weights: ")


@pytest.mark.parametrize("engine", ["clearhead", "transformers"])
def test_a_pickle_is_read_where_it_is_asked_for(
    engine: str, pickled: Path, tiny_llama: nn.Module, generator: torch.Generator
) -> None:
    folder = read_folder(pickled, weights="pickle")
    assert folder.stored_as == ("float32",)
    model = load(folder, engine=engine, dtype=None, device=None, name="tiny")
    ids = torch.randint(99, (2, 9), generator=generator)
    with torch.no_grad():
        assert torch.equal(model(ids).logits, tiny_llama(ids).logits)


def test_otherwise_it_is_refused(pickled: Path) -> None:
    with pytest.raises(CheckpointError) as caught:
        read_folder(pickled)
    assert str(caught.value) == (
        f"{pickled} holds its weights only as pytorch_model.bin, which can run any program when "
        "it is read, and is refused; expected model.safetensors: where you trust it, give "
        'weights="pickle", which reads tensors alone'
    )


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickle_that_runs_a_program_does_not_run_it(zipped: bool, pickled: Path) -> None:
    weights = torch.load(pickled / "pytorch_model.bin") | {"more": Hostile(pickled / "ran")}
    torch.save(weights, pickled / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    assert refused(pickled).startswith("Weights only load failed.")
    assert not (pickled / "ran").exists()
    torch.load(pickled / "pytorch_model.bin", weights_only=False)
    assert (pickled / "ran").exists()  # it is hostile indeed


def test_a_bare_pickle_does_not_run_either(pickled: Path) -> None:
    (pickled / "pytorch_model.bin").write_bytes(pickle.dumps(Hostile(pickled / "ran")))
    assert "\n" not in refused(pickled)
    assert not (pickled / "ran").exists()


def test_several_pickles(pickled: Path, tiny_llama: nn.Module) -> None:
    weights = torch.load(pickled / "pytorch_model.bin")
    (pickled / "pytorch_model.bin").unlink()
    names = {name: f"part-{n % 2}.bin" for n, name in enumerate(weights)}
    for part in set(names.values()):
        held = {name: weights[name] for name, file in names.items() if file == part}
        torch.save(held, pickled / part)
    index = pickled / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": names}))
    folder = read_folder(pickled, weights="pickle")
    assert sorted(file.name for file in folder.files) == ["part-0.bin", "part-1.bin"]
    model = load(folder, engine="clearhead", dtype=None, device=None, name="tiny")
    assert torch.equal(model.to_logits.weight, tiny_llama.lm_head.weight)
    index.write_text(json.dumps({"weight_map": names | {"a": "../x.bin"}}))
    assert refused(pickled) == (
        f"{index} cannot be followed: '../x.bin' is no name of a file in the folder, "
        "and is not followed"
    )


def test_the_older_form_is_read_too(pickled: Path, tiny_llama: nn.Module) -> None:
    weights = torch.load(pickled / "pytorch_model.bin")
    torch.save(weights, pickled / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    folder = read_folder(pickled, weights="pickle")
    model = load(folder, engine="clearhead", dtype=None, device=None, name="tiny")
    assert torch.equal(model.to_logits.weight, tiny_llama.lm_head.weight)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([torch.ones(2)], "expected tensors by name, got list"),
        (
            {3: torch.ones(2)},
            "expected plain tensors by name, got a torch.strided tensor (2,) on cpu under '3'",
        ),
        ({"a": 3}, "expected plain tensors by name, got int under 'a'"),
        ({"a": {"b": torch.ones(2)}}, "expected plain tensors by name, got dict under 'a'"),
        (
            {"a": torch.ones(3).to_sparse()},
            "expected plain tensors by name, got a torch.sparse_coo tensor (3,) on cpu under 'a'",
        ),
        (
            {"a": torch.ones(1).expand(2**40)},  # four bytes that say they are four terabytes
            (
                f"expected plain tensors by name, got a torch.strided tensor ({2**40},) on cpu "
                "under 'a'"
            ),
        ),
        (
            {"a": torch.empty(2**40, device="meta")},
            (
                f"expected plain tensors by name, got a torch.strided tensor ({2**40},) on meta "
                "under 'a'"
            ),
        ),
    ],
)
def test_what_is_no_weights(content: Any, said: str, pickled: Path) -> None:
    torch.save(content, pickled / "pytorch_model.bin")
    assert refused(pickled) == said


def test_a_damaged_pickle_is_named(pickled: Path, seed: int) -> None:
    file = pickled / "pytorch_model.bin"
    whole = file.read_bytes()
    chance = torch.Generator().manual_seed(seed)
    cuts = torch.randint(len(whole), (100,), generator=chance).tolist()
    for content in (*(whole[:cut] for cut in cuts), b"", b"cos\nsystem\n", b"PK\3\4"):
        file.write_bytes(content)
        assert "\n" not in refused(pickled)


def test_no_such_form(pickled: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_folder(pickled, weights="gguf")
    assert str(caught.value) == "weights: expected 'safetensors' or 'pickle', got 'gguf'"


def test_a_folder_without_a_pickle(tiny_llama: nn.Module, tmp_path: Path) -> None:
    tiny_llama.save_pretrained(tmp_path)
    with pytest.raises(CheckpointError) as caught:
        read_folder(tmp_path, weights="pickle")
    assert str(caught.value) == (
        f"{tmp_path} holds no weights: expected pytorch_model.bin or pytorch_model.bin.index.json"
    )


def test_files_are_told_apart_by_their_names() -> None:
    assert is_safetensors(Path("model.safetensors"))
    assert is_safetensors(Path("model.part"))
    assert not is_safetensors(Path("pytorch_model.bin"))


def test_the_damaged_one_of_several_files_is_named(tiny_llama: nn.Module, tmp_path: Path) -> None:
    tiny_llama.save_pretrained(tmp_path, max_shard_size="20KB")
    files = sorted(tmp_path.glob("*.safetensors"))
    files[1].write_bytes(files[1].read_bytes()[:-1])
    with pytest.raises(CheckpointError) as caught, opened(files):
        pass
    assert str(caught.value).startswith(f"{files[1]} cannot be read as safetensors: ")
