"""Every family: its keys are read, its tensors have places here, and nothing goes unnoticed."""

import copy
import json
import math
import subprocess
import sys
from contextlib import suppress
from typing import Any

import pytest
import torch
import transformers
from safetensors import safe_open

from clearhead.errors import CheckpointError
from clearhead.transformer.families.known import FAMILIES, family_of, from_hugging_face
from clearhead.transformer.families.spelling import means
from clearhead.transformer.model import Transformer
from clearhead.transformer.weights import Undrawn
from tests.transformer.released_families import RELEASED, made


def defaults(model_type: str) -> dict[str, Any]:
    """What transformers writes for a family's default model."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    return CONFIG_MAPPING[model_type]().to_dict()


def refused(keys: dict[str, Any]) -> str:
    with pytest.raises(CheckpointError) as caught:
        from_hugging_face(keys)
    return str(caught.value)


def test_the_families_that_are_read():
    assert list(FAMILIES) == [
        *("llama", "mistral", "qwen2", "qwen3", "phi3", "gemma2", "gemma3_text", "llama4_text"),
        *("gpt2", "gpt_neox", "bert", "roberta", "distilbert", "t5", "bart"),
    ]


# --------------------------------------------------------------------------------------- tensors


@pytest.mark.parametrize("variant", RELEASED)
def test_every_tensor_of_a_model_has_a_place_and_its_shape(variant, seeded_weights, tmp_path):
    theirs = made(variant)
    theirs.save_pretrained(tmp_path)
    keys = json.loads((tmp_path / "config.json").read_text())
    config, family = from_hugging_face(keys), FAMILIES[keys["model_type"]]
    with torch.device("meta"), Undrawn():
        shapes = {name: p.shape for name, p in Transformer(config).named_parameters()}
    stored = family.stored(shapes, gated=config.gated)
    assert sorted(name for one in stored for name in one.ours) == sorted(shapes)
    found = {one.theirs: one.layout.shape([shapes[name] for name in one.ours]) for one in stored}
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        there = {name: torch.Size(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118  it is no dictionary
    prefix = "" if config.predicts else family.prefix
    assert found == {prefix + name: shape for name, shape in there.items()}


# ------------------------------------------------------------------------------------------ keys


@pytest.mark.parametrize("model_type", FAMILIES)
def test_every_key_that_transformers_writes_is_understood(model_type):
    keys = defaults(model_type)
    config = from_hugging_face(keys)
    assert config.vocabulary_size == keys["vocab_size"]
    width = [keys[name] for name in ("hidden_size", "n_embd", "dim", "d_model") if name in keys]
    assert config.d_model == width[0]


#: Phi-3's is always there; missing, it is 4,096 to transformers, whatever the group beside it says.
ALWAYS_THERE = {"model_type", "original_max_position_embeddings"}


@pytest.mark.parametrize("null", [False, True])
@pytest.mark.parametrize("variant", RELEASED)
def test_a_key_that_is_missing_or_null_means_what_it_means_to_transformers(variant, null):
    kind = getattr(transformers, RELEASED[variant][0]).config_class
    keys = kind(**copy.deepcopy(RELEASED[variant][1])).to_dict()
    compared = 0
    for name in keys.keys() - ALWAYS_THERE:
        given = {key: value for key, value in keys.items() if key != name}
        given |= {name: None} if null else {}
        theirs = None
        with suppress(Exception):  # what transformers cannot read means nothing to it
            theirs = kind.from_dict(copy.deepcopy(given)).to_dict()
        if theirs is not None:
            compared += 1
            assert same(given, theirs), name
    assert compared > len(keys) / 4


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two config.json describe the same model, or the first is refused."""
    try:
        config = from_hugging_face(one)
    except CheckpointError:
        return True
    return means(other, config)


@pytest.mark.parametrize("model_type", FAMILIES)
def test_a_key_that_nobody_knows_is_refused_by_name(model_type):
    said = refused({**defaults(model_type), "attn_cap": 3, "quantization_config": {"bits": 4}})
    assert said == (
        f"the config of this {model_type} model, 2 faults:\n"
        "  - attn_cap is not known here, got 3\n"
        "  - quantization_config is not known here, got {'bits': 4}"
    )


@pytest.mark.parametrize("model_type", FAMILIES)
@pytest.mark.parametrize("name", ["is_decoder", "add_cross_attention", "tie_encoder_decoder"])
def test_a_setting_that_must_be_off_is_refused_where_it_is_on(name, model_type):
    assert refused({**defaults(model_type), name: True}) == (
        f"the config of this {model_type} model: {name} is True, only False is known"
    )


@pytest.mark.parametrize("model_type", FAMILIES)
def test_whether_there_is_an_encoder_is_no_choice(model_type):
    both = model_type in ("t5", "bart")
    assert refused({**defaults(model_type), "is_encoder_decoder": not both}) == (
        f"the config of this {model_type} model: is_encoder_decoder is {not both}, only {both} is "
        "known"
    )


TURNING = [name for name in FAMILIES if "rope_parameters" in defaults(name)]


@pytest.mark.parametrize("model_type", TURNING)
def test_an_unknown_scaling_is_refused_by_name(model_type):
    keys, group = defaults(model_type), {"rope_type": "ntk-alpha", "alpha": 2.0}
    place = "rope_parameters"
    if model_type == "gemma3_text":
        keys[place] = {**keys[place], "full_attention": group}
        place = "full_attention"
    else:
        keys[place] = group
    known = "default, linear, dynamic, yarn, longrope, su, llama3"
    assert refused(keys) == (
        f"the config of this {model_type} model, 2 faults:\n"
        f"  - {place}.rope_type is 'ntk-alpha', only {known} are known\n"
        f"  - {place}.alpha is not known here, got 2.0"
    )


WRONG = [None, 0, -1, 1, 3, True, 0.5, -0.5, 1e308, 5e-324, math.nan, math.inf, "x", "", [], [1],
    ["x"], [[1]], {}, {"a": 1}, {"rope_type": "longrope", "factor": 10**400}, 10**400]  # fmt: skip
LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "num_decoder_layers",
    "encoder_layers", "decoder_layers")  # fmt: skip


@pytest.mark.parametrize("model_type", FAMILIES)
def test_any_value_of_any_key_is_read_or_refused_and_nothing_else(model_type):
    keys = defaults(model_type)
    for name in keys:
        for value in WRONG:
            if name in LAYERS and value == 10**400:
                continue  # as many layers as there are tensors, at most: a folder is looked over
            with suppress(CheckpointError):
                from_hugging_face({**keys, name: value})


# ------------------------------------------------------------------------------ classes, families


@pytest.mark.parametrize("model_type", FAMILIES)
def test_a_class_that_is_not_read_is_refused_with_those_that_are(model_type):
    listed = ", ".join(FAMILIES[model_type].architectures)
    assert refused({**defaults(model_type), "architectures": ["ForSequenceClassification"]}) == (
        f"this is ForSequenceClassification, and of {model_type} this Transformer reads {listed}; "
        'engine="transformers" may load the model'
    )


@pytest.mark.parametrize("model_type", FAMILIES)
def test_each_class_that_is_read_makes_a_model(model_type):
    family = FAMILIES[model_type]
    for place, name in enumerate(family.architectures):
        config = from_hugging_face({**defaults(model_type), "architectures": [name]})
        assert config.predicts == (place == 0)
        if place == 0:
            for unnamed in (None, []):
                keys = {**defaults(model_type), "architectures": unnamed}
                assert from_hugging_face(keys) == config


@pytest.mark.parametrize("model_type", ["mamba", None, 3, "LLAMA", ["llama"]])
def test_another_family_is_refused_with_those_that_are_read(model_type):
    with pytest.raises(CheckpointError) as caught:
        family_of({"model_type": model_type})
    assert str(caught.value) == (
        f"model_type is {model_type!r}, this Transformer reads {', '.join(FAMILIES)}; "
        'engine="transformers" may load the model'
    )


def test_a_config_is_read_without_torch():
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    keys = {"model_type": "llama", "vocab_size": 99, "num_attention_heads": 4, **sizes}
    code = (
        "import sys; from clearhead.transformer.families.known import from_hugging_face; "
        f"print(from_hugging_face({keys!r}).d_k, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["8", "False"]
