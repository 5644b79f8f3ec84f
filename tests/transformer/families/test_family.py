"""A family's table of modules gives every tensor its name."""

import pytest

from clearhead.transformer.families.family import Family

FAMILY = Family(
    model_type="example",
    fields=lambda _: {},
    modules={"embedding": "wte", "layers.{layer}.norm": "h.{layer}.ln", "norm": "ln_f"},
)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("embedding.weight", "wte.weight"),
        ("norm.bias", "ln_f.bias"),
        ("layers.0.norm.weight", "h.0.ln.weight"),
        ("layers.31.norm.bias", "h.31.ln.bias"),
    ],
)
def test_tensor_names(ours, theirs):
    assert FAMILY.tensor_name(ours) == theirs
