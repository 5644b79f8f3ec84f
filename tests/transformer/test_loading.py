"""Which engine loads a folder, as which numbers, and what the model then says of itself."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from clearhead.errors import InputError, UnsupportedError
from clearhead.transformer.families.known import FAMILIES
from clearhead.transformer.loading import load
from clearhead.transformer.model import Transformer
from clearhead.transformer.model_folder import read_folder
from tests.tokens import tiny


@pytest.fixture
def saved(tiny_llama: nn.Module, tmp_path: Path) -> Path:
    tiny_llama.save_pretrained(tmp_path)
    return tmp_path


def loaded(path: Path, **options: Any) -> Any:
    options = {"engine": None, "dtype": None, "device": None, "name": "tiny"} | options
    return load(read_folder(path), **options)


def reconfigure(path: Path, **changed: Any) -> None:
    config = json.loads((path / "config.json").read_text()) | changed
    (path / "config.json").write_text(json.dumps(config))


def test_ours_loads_what_it_reads_and_both_agree(saved: Path, generator: torch.Generator) -> None:
    ours, theirs = loaded(saved), loaded(saved, engine="transformers")
    assert isinstance(ours, Transformer)
    assert type(theirs).__name__ == "LlamaForCausalLM"
    ids = torch.randint(99, (2, 9), generator=generator)
    with torch.no_grad():
        torch.testing.assert_close(ours(ids).logits, theirs(ids).logits)
    for model in (ours, theirs):
        assert not model.training
        assert all(parameter.requires_grad for parameter in model.parameters())
        assert model.clearhead_origin == "tiny float32, as stored"
        assert model.clearhead_tokenizer is None


def test_a_family_that_ours_does_not_read(seeded_weights: None, tmp_path: Path) -> None:
    from transformers import OlmoConfig, OlmoForCausalLM

    sizes = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    OlmoForCausalLM(OlmoConfig(**sizes, num_attention_heads=4)).save_pretrained(tmp_path)
    assert type(loaded(tmp_path)) is OlmoForCausalLM
    with pytest.raises(UnsupportedError) as caught:
        loaded(tmp_path, engine="clearhead")
    assert str(caught.value) == (
        "engine=\"clearhead\" cannot load tiny: model_type is 'olmo', this Transformer reads "
        f'{", ".join(FAMILIES)}; engine="transformers" may load the model'
    )


def test_weights_in_several_files_load_as_those_in_one(
    saved: Path, tiny_llama: nn.Module, tmp_path: Path
) -> None:
    shards = tmp_path / "shards"
    tiny_llama.save_pretrained(shards, max_shard_size="20KB")
    assert len(list(shards.glob("*.safetensors"))) > 1
    whole, cut = loaded(saved).state_dict(), loaded(shards).state_dict()
    assert whole.keys() == cut.keys()
    assert all(torch.equal(whole[name], cut[name]) for name in whole)


def test_a_setting_that_ours_does_not_know_goes_to_transformers(
    saved: Path, tiny_llama: nn.Module
) -> None:
    reconfigure(saved, attn_logit_cap=3.0)
    assert type(loaded(saved)) is type(tiny_llama)
    with pytest.raises(UnsupportedError) as caught:
        loaded(saved, engine="clearhead")
    assert str(caught.value) == (
        'engine="clearhead" cannot load tiny: the config of this llama model: attn_logit_cap is '
        "not known here, got 3.0"
    )


def test_a_class_that_predicts_no_tokens_goes_to_transformers(saved: Path) -> None:
    from transformers import LlamaConfig, LlamaForSequenceClassification

    config = LlamaConfig.from_pretrained(saved)
    LlamaForSequenceClassification(config).save_pretrained(saved)
    assert type(loaded(saved)) is LlamaForSequenceClassification
    with pytest.raises(UnsupportedError) as caught:
        loaded(saved, engine="clearhead")
    assert str(caught.value) == (
        'engine="clearhead" cannot load tiny: this is LlamaForSequenceClassification, and of llama '
        'this Transformer reads LlamaForCausalLM, LlamaModel; engine="transformers" may load the '
        "model"
    )


@pytest.mark.parametrize("engine", ["clearhead", "transformers"])
@pytest.mark.parametrize("dtype", ["bfloat16", torch.bfloat16, "torch.bfloat16"])
def test_other_numbers_are_said(engine: str, dtype: object, saved: Path) -> None:
    model = loaded(saved, engine=engine, dtype=dtype)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert model.clearhead_origin == "tiny float32, as stored, loaded as bfloat16"


def test_half_numbers_become_float32_and_it_is_said(tiny_llama: nn.Module, tmp_path: Path) -> None:
    tiny_llama.half().save_pretrained(tmp_path)
    model = loaded(tmp_path)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert model.clearhead_origin == "tiny float16, as stored, loaded as float32"


@pytest.mark.parametrize("dtype", ["int8", "auto", torch.int64, 32, "float"])
def test_no_such_dtype(dtype: object, saved: Path) -> None:
    with pytest.raises(InputError) as caught:
        loaded(saved, dtype=dtype)
    expected = "float32, bfloat16, float16, float64"
    assert str(caught.value) == f"dtype: expected one of {expected}, got {dtype!r}"


@pytest.mark.parametrize("device", ["gpu", "cuda:99", object()])
def test_no_such_device(device: object, saved: Path) -> None:
    with pytest.raises(InputError) as caught:
        loaded(saved, device=device)
    said = f"device: expected one of this machine, got {device!r}: "
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("engine", ["clearhead", "transformers"])
@pytest.mark.parametrize("device", ["cpu", torch.device("cpu")])
def test_a_device_by_name_or_object(engine: str, device: object, saved: Path) -> None:
    model = loaded(saved, engine=engine, device=device)
    assert {parameter.device.type for parameter in model.parameters()} == {"cpu"}


@pytest.mark.parametrize("engine", ["clearhead", "transformers"])
def test_the_tokenizer_comes_with_the_model_and_the_model_can_be_copied(
    engine: str, saved: Path
) -> None:
    tiny.saved(saved)
    model = loaded(saved, engine=engine)
    again = copy.deepcopy(model)
    for one in (model, again):
        assert one.clearhead_tokenizer.encode("he") == tiny.byte_level().encode("he").ids
    assert set(again.state_dict()) == set(model.state_dict())
