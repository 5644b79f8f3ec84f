"""Multi-head attention in a model: what it keeps and is told, its places at the tap, bad input."""

import math

import pytest
import torch
from torch import Tensor

from clearhead.errors import InputError, ShapeError, UnsupportedError
from clearhead.masks import causal_mask, sliding_window_mask
from clearhead.pipeline.rule import ScoreRule
from clearhead.pipeline.tap import Site, Tap, tapping
from clearhead.transformer.attention import MultiHeadAttention
from tests.accuracy import assert_double
from tests.transformer.test_attention import layer, split

# ---------------------------------------------------------------------------------------- memory


class Kept:
    """A memory that gives what it is told to, and counts how often it was given something."""

    def __init__(self, kept: tuple[Tensor, Tensor], *, start: int, complete: bool) -> None:
        self.kept, self.start, self.complete, self.given = kept, start, complete, []

    def extend(self, key: Tensor | None, value: Tensor | None) -> tuple[Tensor, Tensor]:
        self.given.append((key, value))
        if key is None or value is None:
            return self.kept
        return torch.cat((self.kept[0], key), 2), torch.cat((self.kept[1], value), 2)


def keys_and_values(part: MultiHeadAttention, x: Tensor) -> tuple[Tensor, Tensor]:
    return split(part.to_key(x), part.kv_heads), split(part.to_value(x), part.kv_heads)


def test_what_was_read_before_is_read_from_memory(seeded_weights):
    part, x = layer(kv_heads=2, d_v=5), torch.randn(2, 9, 12, dtype=torch.float64)
    memory = Kept(keys_and_values(part, x[:, :6]), start=0, complete=False)
    rule = ScoreRule(mask=causal_mask(), query_start=6)
    got = part(x[:, 6:], rule=rule, memory=memory)
    assert_double(got, part(x, mask=causal_mask())[:, 6:])
    [(key, value)] = memory.given
    assert (key.shape, value.shape) == ((2, 2, 3, 6), (2, 2, 3, 5))


def test_memory_tells_where_its_first_key_stands(seeded_weights):
    part, x = layer(), torch.randn(2, 9, 12, dtype=torch.float64)
    memory = Kept(keys_and_values(part, x[:, 4:6]), start=4, complete=False)
    mask = causal_mask() & sliding_window_mask(3)
    got = part(x[:, 6:], rule=ScoreRule(mask=mask, query_start=6), memory=memory)
    assert_double(got, part(x, mask=mask)[:, 6:])


def test_a_complete_memory_is_given_nothing(seeded_weights):
    part, x = layer(d_source=5), torch.randn(2, 3, 12, dtype=torch.float64)
    source = torch.randn(2, 8, 5, dtype=torch.float64)
    memory = Kept(keys_and_values(part, source), start=0, complete=True)
    assert torch.equal(part(x, torch.full_like(source, torch.nan), memory=memory), part(x, source))
    assert memory.given == [(None, None)]


# --------------------------------------------------------------------------------------- the tap


class Recorder(Tap):
    """Notes what passes, in order."""

    def __init__(self) -> None:
        self.seen: list[tuple[Site, str, tuple[int, ...]]] = []

    def visit(self, site: Site, quantity: str, value: Tensor) -> Tensor:
        self.seen.append((site, quantity, tuple(value.shape)))
        return value


class Replacing(Tap):
    """Doubles one quantity."""

    def __init__(self, quantity: str) -> None:
        self.quantity = quantity

    def visit(self, site: Site, quantity: str, value: Tensor) -> Tensor:
        del site
        return value * 2 if quantity == self.quantity else value


def test_every_quantity_passes_the_tap_once_and_reading_changes_no_bit(seeded_weights):
    site = Site(layer=3, kind="self", name="layers.3.attention")
    part = MultiHeadAttention(12, heads=4, kv_heads=2, d_k=6, d_v=5, d_source=8, site=site)
    x, source, recorder = torch.randn(2, 7, 12), torch.randn(2, 9, 8), Recorder()
    with tapping(recorder):
        traced = part(x, source)
    assert torch.equal(traced, part(x, source))
    assert recorder.seen == [
        (site, "attention_input", (2, 7, 12)),
        (site, "query", (2, 4, 7, 6)),
        (site, "key", (2, 2, 9, 6)),
        (site, "value", (2, 2, 9, 5)),
        (site, "logsumexp", (2, 4, 7)),
        (site, "context", (2, 4, 7, 5)),
        (site, "output", (2, 7, 12)),
    ]


@pytest.mark.parametrize(
    "quantity", ["attention_input", "query", "key", "value", "context", "output"]
)
def test_what_is_replaced_at_the_tap_reaches_the_output(quantity, seeded_weights):
    part, x = layer(), torch.randn(2, 7, 12, dtype=torch.float64)
    with tapping(Replacing(quantity)):
        replaced = part(x, mask=causal_mask())
    assert not torch.equal(replaced, part(x, mask=causal_mask()))


def test_the_output_projection_gives_each_head_its_slice(seeded_weights):
    part = layer(d_v=5, output_bias=True)
    weight, bias = part.output_projection()
    assert weight.shape == (12, 20)
    assert bias is part.to_output.bias
    assert layer().output_projection()[1] is None


# -------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("sizes", "fault"),
    [
        ({"heads": 4, "kv_heads": 3}, "heads (4) must be a multiple of kv_heads (3)"),
        ({"heads": 0}, "heads must be a positive whole number, got 0"),
        ({"heads": 2.0}, "heads must be a positive whole number, got 2.0"),
        ({"heads": 4, "scale": math.nan}, "scale must be a positive finite number, got nan"),
        ({"heads": 4, "softcap": -1}, "softcap must be a positive finite number, got -1"),
        ({"heads": 4, "norm_epsilon": -1}, "norm_epsilon must be a positive finite number, got -1"),
        ({"heads": 4, "norm_offset": -1}, "norm_offset must be a positive finite number, got -1"),
        ({"heads": 4, "kv_heads": -2}, "kv_heads must be a positive whole number, got -2"),
        ({"heads": 5}, "d_model (12) must be a multiple of heads (5), or give d_k"),
        ({"heads": 4, "d_v": 0}, "d_v must be a positive whole number, got 0"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(sizes, fault):
    with pytest.raises(InputError) as caught:
        MultiHeadAttention(12, **sizes)
    assert str(caught.value) == f"MultiHeadAttention: {fault}"


def test_all_that_does_not_fit_is_refused_at_once():
    with pytest.raises(InputError) as caught:
        MultiHeadAttention(0, heads=3, kv_heads=2, d_k=-1, d_source=0)
    assert str(caught.value) == (
        "MultiHeadAttention, 3 faults:\n"
        "  - d_model must be a positive whole number, got 0\n"
        "  - d_k must be a positive whole number, got -1\n"
        "  - d_source must be a positive whole number, got 0"
    )


def test_w_o_of_a_layer_that_does_more_is_refused():
    class Scaled(torch.nn.Linear):
        def forward(self, input):  # noqa: A002  PyTorch's name for it
            return super().forward(input) * 3

    hooked, replaced = layer(), layer()
    hooked.to_output.register_forward_hook(lambda _module, _given, made: made * 3)
    replaced.to_output = Scaled(12, 12)
    for part in (hooked, replaced):
        with pytest.raises(UnsupportedError, match="its layer has a forward or hooks of its own"):
            part.output_projection()


def test_a_norm_that_is_not_known_is_refused():
    with pytest.raises(InputError) as caught:
        MultiHeadAttention(12, heads=4, query_key_norm="heads")
    assert str(caught.value) == (
        "MultiHeadAttention: query_key_norm must be 'head', 'rotated' or None, got 'heads'"
    )


def test_a_mask_and_a_rule_are_refused_together():
    with pytest.raises(InputError) as caught:
        layer()(torch.zeros(1, 2, 12).double(), mask=causal_mask(), rule=ScoreRule())
    assert str(caught.value) == (
        "give either mask= or rule=, not both: a rule has a mask of its own"
    )


def test_tensors_of_another_width_are_refused_at_once():
    with pytest.raises(ShapeError) as caught:
        layer(d_source=5)(torch.zeros(2, 7, 11).double(), torch.zeros(2, 7, 12).double())
    assert str(caught.value) == (
        "attention cannot read this, 2 faults:\n"
        "  - x must be (batch, n, 12), got (2, 7, 11)\n"
        "  - source must be (batch, n, 5), got (2, 7, 12)"
    )


def test_a_source_that_is_needed_is_asked_for():
    with pytest.raises(InputError) as caught:
        layer(d_source=5)(torch.zeros(2, 7, 12).double())
    assert str(caught.value) == ("source: this attention reads a text of another width; give it")
