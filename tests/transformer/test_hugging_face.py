"""Loading into transformers' own classes: strictly, quietly, and nothing that runs programs."""

import json
import warnings
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from clearhead.errors import CheckpointError
from clearhead.transformer.hugging_face import load_hugging_face, wrapped_tokenizer
from clearhead.transformer.model_folder import read_folder


@pytest.fixture
def saved(tiny_llama: nn.Module, tmp_path: Path) -> Path:
    tiny_llama.save_pretrained(tmp_path)
    return tmp_path


def load(path: Path) -> nn.Module:
    return load_hugging_face(read_folder(path), dtype=torch.float32, device=torch.device("cpu"))


def edit(path: Path, edited) -> None:
    """Change the tensors of a folder."""
    tensors = load_file(path / "model.safetensors")
    edited(tensors)
    save_file(tensors, path / "model.safetensors", {"format": "pt"})


def refused(path: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        load(path)
    return str(caught.value).replace(str(path), "FOLDER")


def test_it_gives_what_was_saved(saved: Path, tiny_llama: nn.Module) -> None:
    model = load(saved)
    assert type(model) is type(tiny_llama)
    assert not model.training
    assert all(parameter.requires_grad for parameter in model.parameters())
    theirs = tiny_llama.state_dict()
    assert all(torch.equal(theirs[name], tensor) for name, tensor in model.state_dict().items())


def test_it_says_nothing_and_the_library_speaks_again(
    saved: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from transformers.utils import logging

    edit(saved, lambda tensors: tensors.pop("lm_head.weight"))
    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    refused(saved)
    assert capfd.readouterr() == ("", "")
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before


def test_every_fault_of_the_tensors_is_listed(saved: Path) -> None:
    def edited(tensors: dict[str, torch.Tensor]) -> None:
        tensors.pop("model.layers.0.self_attn.q_proj.weight")
        tensors.pop("lm_head.weight")
        tensors["model.layers.9.mlp.up_proj.weight"] = torch.ones(48, 32)
        tensors["model.norm.weight"] = torch.ones(5)

    edit(saved, edited)
    assert refused(saved) == (
        "the weights in FOLDER are no LlamaForCausalLM's, 4 faults:\n"
        "  - missing lm_head.weight\n"
        "  - missing model.layers.0.self_attn.q_proj.weight\n"
        "  - unexpected model.layers.9.mlp.up_proj.weight\n"
        "  - model.norm.weight has the shape (5,), expected (32,)"
    )


def test_names_with_a_strange_prefix_do_not_give_random_weights(
    saved: Path, tiny_llama: nn.Module
) -> None:
    """Where transformers takes such names it has to give them the right weights."""

    def edited(tensors: dict[str, torch.Tensor]) -> None:
        for name in list(tensors):
            tensors[f"strange.{name}"] = tensors.pop(name)

    edit(saved, edited)
    said = refused(saved)
    assert "missing model.layers.0.self_attn.q_proj.weight" in said
    assert "unexpected strange.model.layers.0.self_attn.q_proj.weight" in said


def test_a_folder_that_needs_its_own_code_is_refused(saved: Path) -> None:
    config = json.loads((saved / "config.json").read_text())
    config |= {"model_type": "novel", "auto_map": {"AutoConfig": "novel.Config"}}
    (saved / "config.json").write_text(json.dumps(config))
    (saved / "novel.py").write_text("raise SystemExit('it ran')")
    assert refused(saved).startswith("transformers cannot load FOLDER: ")


@pytest.mark.parametrize("architectures", [["NoSuchClass"], ["AutoModel"], ["torch"], None])
def test_without_a_class_it_is_the_family_without_a_head(
    architectures: list[str] | None, tiny_bert: nn.Module, tmp_path: Path
) -> None:
    tiny_bert.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text()) | {"architectures": architectures}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert type(load(tmp_path)) is type(tiny_bert)


def test_other_numbers(saved: Path) -> None:
    model = load_hugging_face(read_folder(saved), dtype=torch.bfloat16, device=torch.device("cpu"))
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}


def test_a_tokenizer_without_tokenizer_json(tmp_path: Path, tiny_bert: nn.Module) -> None:
    tiny_bert.save_pretrained(tmp_path)
    folder = read_folder(tmp_path)
    assert wrapped_tokenizer(folder) is None
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "walk", "##ing"]
    (tmp_path / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    tokenizer = wrapped_tokenizer(folder)
    assert tokenizer is not None
    assert [piece.label for piece in tokenizer.pieces(tokenizer.encode("walking"))] == [
        "[CLS]",
        "walk",
        "##ing",
        "[SEP]",
    ]


def test_a_tokenizer_that_needs_no_vocabulary(tmp_path: Path, tiny_bert: nn.Module) -> None:
    tiny_bert.save_pretrained(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "ByT5Tokenizer"}')
    tokenizer = wrapped_tokenizer(read_folder(tmp_path))
    assert tokenizer is not None
    assert tokenizer.encode("a", special=False) == [100]


def test_warnings_of_others_are_left_as_they_were(saved: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(saved)
        with pytest.raises(UserWarning, match="mine"):
            warnings.warn("mine", stacklevel=1)
