"""A family's table of modules says where a checkpoint keeps each parameter."""

import pytest

from clearhead.transformer.families.family import Family, Stored
from clearhead.transformer.families.layout import Alone, OneRow, Rows

FAMILY = Family(
    model_type="example",
    architectures={"Example": {}},
    fields=lambda _: {},
    modules={
        "wte": "token_embedding",
        "h.{layer}.ln": "layers.{layer}.norm",
        "h.{layer}.qk": Rows("layers.{layer}.query", "layers.{layer}.key"),
        "h.{layer}.experts": "layers.{layer}.experts",
        "ln_f": "norm",
        "bias_as_a_row": OneRow("to_logits.bias"),
        "lm_head": "to_logits",
        "wi_1": "up",
    },
    plain_modules={"wi": "up"},
)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("token_embedding.weight", "wte.weight"),
        ("norm.bias", "ln_f.bias"),
        ("layers.0.norm.weight", "h.0.ln.weight"),
        ("layers.31.norm.bias", "h.31.ln.bias"),
        # a parameter that is named itself has no leaf
        ("layers.7.experts", "h.7.experts"),
    ],
)
def test_names_of_tensors_that_stand_alone(ours, theirs):
    [stored] = FAMILY.stored([ours], gated=True)
    assert (stored.theirs, stored.ours) == (theirs, (ours,))
    assert isinstance(stored.layout, Alone)


@pytest.mark.parametrize("leaf", ["weight", "bias"])
def test_parameters_that_are_kept_together(leaf):
    # whatever order they come in
    names = [f"layers.{n}.{part}.{leaf}" for n in (12, 3) for part in ("key", "query")]
    assert FAMILY.stored(names, gated=True) == [
        Stored(
            f"h.{n}.qk.{leaf}",
            (f"layers.{n}.query.{leaf}", f"layers.{n}.key.{leaf}"),
            Rows("layers.{layer}.query", "layers.{layer}.key"),
        )
        for n in (12, 3)
    ]


def test_a_parameter_may_be_named_apart_from_its_module():
    bias, weight = FAMILY.stored(["to_logits.bias", "to_logits.weight"], gated=True)
    assert (bias.theirs, type(bias.layout)) == ("bias_as_a_row", OneRow)
    assert (weight.theirs, type(weight.layout)) == ("lm_head.weight", Alone)


def test_a_plain_feed_forward_part_may_have_other_names():
    assert [one.theirs for one in FAMILY.stored(["up.weight"], gated=True)] == ["wi_1.weight"]
    assert [one.theirs for one in FAMILY.stored(["up.weight"], gated=False)] == ["wi.weight"]


def test_a_parameter_without_a_place_is_a_fault_of_ours():
    with pytest.raises(KeyError):
        FAMILY.stored(["layers.0.router.weight"], gated=True)
