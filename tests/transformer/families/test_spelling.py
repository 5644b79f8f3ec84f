"""Which family tells a configuration, and what differs where none does."""

from dataclasses import replace
from typing import Any

import pytest

from clearhead.errors import CheckpointError
from clearhead.positions.kinds import Learned, Rotary, T5Buckets
from clearhead.transformer.config import LayerKind, TransformerConfig
from clearhead.transformer.families.known import FAMILIES, from_hugging_face
from clearhead.transformer.families.own import OWN, own_keys
from clearhead.transformer.families.spelling import described, means, spelling_of

SIZES: dict[str, Any] = {
    "vocabulary_size": 30,
    "context_length": 64,
    "d_model": 32,
    "d_ff": 48,
    "layers": 2,
    "heads": 4,
}
LLAMA = TransformerConfig(**SIZES)


def test_the_first_family_that_says_exactly_this() -> None:
    told = spelling_of(LLAMA)
    assert told.difference is None
    assert told.keys is not None
    assert (told.keys["model_type"], told.keys["architectures"]) == ("llama", ["LlamaForCausalLM"])
    assert from_hugging_face(told.keys) == LLAMA


def test_a_model_without_a_head_is_another_class_of_the_family() -> None:
    told = spelling_of(replace(LLAMA, predicts=False))
    assert told.keys is not None
    assert told.keys["architectures"] == ["LlamaModel"]


@pytest.mark.parametrize(
    ("changed", "family", "lines"),
    [
        ({"softcap": 3.0}, "llama (LlamaForCausalLM)", ["softcap: 3.0 here, None there"]),
        ({"sinks": True}, "llama (LlamaForCausalLM)", ["sinks: True here, False there"]),
        (
            {"context_length": None},
            "llama (LlamaForCausalLM)",
            ["context_length: None here, 2048 there"],
        ),
        (
            {"positions": Learned(), "norm": "layer", "gated": False, "input_bias": True},
            "gpt2 (GPT2LMHeadModel)",
            ["output_bias: False here, True there", "feed_forward_bias: False here, True there"],
        ),
    ],
)
def test_what_differs_in_the_nearest_is_told(
    changed: dict[str, Any], family: str, lines: list[str]
) -> None:
    told = spelling_of(replace(LLAMA, **changed))
    summary = f"no released family has this shape; the nearest, {family}, differs in"
    expected = (
        f"{summary}: {lines[0]}"
        if len(lines) == 1
        else "\n".join([f"{summary}, {len(lines)} faults:", *(f"  - {line}" for line in lines)])
    )
    assert told.keys is None
    assert told.difference == expected


def test_what_differs_in_an_encoder_is_told_as_its() -> None:
    stack: dict[str, Any] = {**SIZES, "context_length": None, "positions": T5Buckets()}
    stack |= {"scale": 1.0, "activation": "relu", "gated": False, "logits_scale": 32**-0.5}
    encoder = TransformerConfig(
        **{**stack, "d_ff": 40, "logits_scale": 1.0}, kind="encoder", predicts=False
    )
    told = spelling_of(TransformerConfig(**stack, encoder=encoder, tied_embeddings=True))
    assert told.difference == (
        "no released family has this shape; the nearest, t5 (T5ForConditionalGeneration), differs "
        "in: encoder.d_ff: 40 here, 48 there"
    )


def test_what_no_family_is_near_to() -> None:
    encoder = TransformerConfig(**SIZES, kind="encoder", predicts=False)
    wide = {**SIZES, "positions": None, "context_length": None}
    told = spelling_of(TransformerConfig(**wide, encoder=encoder))
    assert told.keys is None
    assert told.difference is not None
    assert told.difference.startswith("no released family has this shape; the nearest, ")


def test_either_spelling_is_read() -> None:
    keys = spelling_of(LLAMA).keys
    assert keys is not None
    assert described(keys).family is FAMILIES["llama"]
    assert described(own_keys(LLAMA)).family is OWN
    assert described(keys).config == described(own_keys(LLAMA)).config == LLAMA
    with pytest.raises(CheckpointError, match="model_type is 'mamba'"):
        described({"model_type": "mamba"})


def test_keys_mean_a_model_however_its_pattern_is_written() -> None:
    keys = spelling_of(LLAMA).keys
    assert keys is not None
    twice = replace(LLAMA, pattern=(LayerKind(), LayerKind(rotary=Rotary())))
    assert means(keys, LLAMA)
    assert means(keys, twice)
    assert not means(keys, replace(LLAMA, layers=3))
    assert not means(keys | {"novelty": 1}, LLAMA)
