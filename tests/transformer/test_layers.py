"""Norm, feed-forward and attention: formulas by hand, laws, and the bits of the released models."""

import math

import pytest
import torch

from clearhead.masks import causal_mask
from clearhead.pipeline.rule import ScoreRule
from clearhead.pipeline.tap import Site, Tap, tapping
from clearhead.positions.rotary import RotaryEmbedding
from clearhead.transformer.layers import FeedForward, MultiHeadAttention, RMSNorm


def test_a_normed_vector_by_hand():
    norm = RMSNorm(2, epsilon=0.0)
    norm.weight.data = torch.tensor([1.0, 10.0])
    # Root mean square of (3, 4) is √12.5.
    expected = torch.tensor([3.0, 40.0]) / math.sqrt(12.5)
    torch.testing.assert_close(norm(torch.tensor([3.0, 4.0])), expected)
    assert norm(torch.zeros(2)).isnan().all()
    assert torch.equal(RMSNorm(2, epsilon=1e-6)(torch.zeros(2)), torch.zeros(2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_norm_and_feed_forward_are_bit_for_bit_those_of_llama(dtype, generator):
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm

    x = torch.randn(2, 5, 32, generator=generator).to(dtype)
    theirs = LlamaRMSNorm(32, eps=1e-5).to(dtype)
    theirs.weight.data = torch.randn(32, generator=generator).to(dtype)
    ours = RMSNorm(32, epsilon=1e-5).to(dtype)
    ours.weight.data = theirs.weight.data
    assert torch.equal(ours(x), theirs(x))

    mlp = LlamaMLP(LlamaConfig(hidden_size=32, intermediate_size=48, mlp_bias=True)).to(dtype)
    feed_forward = FeedForward(32, 48, bias=True).to(dtype)
    feed_forward.load_state_dict({k.replace("_proj", ""): v for k, v in mlp.state_dict().items()})
    assert torch.equal(feed_forward(x), mlp(x))


def attention_layer(**sizes: int) -> MultiHeadAttention:
    return MultiHeadAttention(12, heads=4, d_k=6, **sizes).double()


def by_hand(layer: MultiHeadAttention, x: torch.Tensor, *, d_k: int, d_v: int) -> torch.Tensor:
    """The formula with a loop over query heads; query head h reads key head h // group."""
    q, k, v = layer.to_query(x), layer.to_key(x), layer.to_value(x)
    group = layer.heads // layer.kv_heads
    contexts = []
    for head in range(layer.heads):
        shared = head // group
        mine = slice(head * d_k, (head + 1) * d_k)
        keys = k[..., shared * d_k : (shared + 1) * d_k]
        values = v[..., shared * d_v : (shared + 1) * d_v]
        scores = q[..., mine] @ keys.transpose(-1, -2) / math.sqrt(d_k)
        contexts.append(torch.softmax(scores, dim=-1) @ values)
    return layer.to_output(torch.cat(contexts, dim=-1))


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("d_v", [6, 3, 9])
def test_attention_by_hand(kv_heads, d_v, seeded_weights):
    layer = attention_layer(kv_heads=kv_heads, d_v=d_v)
    x = torch.randn(2, 7, 12, dtype=torch.float64)
    expected = by_hand(layer, x, d_k=6, d_v=d_v)
    got = layer(x, rule=ScoreRule())
    assert got.shape == (2, 7, 12)
    assert (got - expected).abs().max() <= 1e-12 * expected.abs().max()


def test_without_positions_permuting_tokens_permutes_outputs(seeded_weights):
    layer = attention_layer(kv_heads=2)
    x, order = torch.randn(1, 9, 12, dtype=torch.float64), torch.randperm(9)
    straight, permuted = layer(x, rule=ScoreRule()), layer(x[:, order], rule=ScoreRule())
    assert (permuted - straight[:, order]).abs().max() <= 1e-12 * straight.abs().max()


def test_positions_tell_the_order(seeded_weights):
    layer = attention_layer()
    x = torch.randn(1, 9, 12, dtype=torch.float64)
    phases = RotaryEmbedding(6).phases(torch.arange(9)[None], dtype=x.dtype)
    straight = layer(x, rule=ScoreRule(), phases=phases)
    turned = layer(x.flip(1), rule=ScoreRule(), phases=phases).flip(1)
    assert (straight - turned).abs().max() > 1e-3 * straight.abs().max()


class Recorder(Tap):
    """Notes what passes, in order."""

    def __init__(self) -> None:
        self.seen: list[tuple[Site, str, tuple[int, ...]]] = []

    def visit(self, site: Site, quantity: str, value: torch.Tensor) -> torch.Tensor:
        self.seen.append((site, quantity, tuple(value.shape)))
        return value


class Replacing(Tap):
    """Doubles one quantity."""

    def __init__(self, quantity: str) -> None:
        self.quantity = quantity

    def visit(self, site: Site, quantity: str, value: torch.Tensor) -> torch.Tensor:
        del site
        return value * 2 if quantity == self.quantity else value


def test_every_quantity_passes_the_tap_once_and_reading_changes_no_bit(seeded_weights):
    site = Site(layer=3, kind="self", name="layers.3.attention")
    layer = MultiHeadAttention(12, heads=4, kv_heads=2, d_k=6, d_v=5, site=site)
    x, rule, recorder = torch.randn(2, 7, 12), ScoreRule(mask=causal_mask()), Recorder()
    with tapping(recorder):
        traced = layer(x, rule=rule)
    assert torch.equal(traced, layer(x, rule=rule))
    assert recorder.seen == [
        (site, "attention_input", (2, 7, 12)),
        (site, "query", (2, 4, 7, 6)),
        (site, "key", (2, 2, 7, 6)),
        (site, "value", (2, 2, 7, 5)),
        (site, "logsumexp", (2, 4, 7)),
        (site, "context", (2, 4, 7, 5)),
        (site, "output", (2, 7, 12)),
    ]


@pytest.mark.parametrize(
    "quantity", ["attention_input", "query", "key", "value", "context", "output"]
)
def test_what_is_replaced_at_the_tap_reaches_the_output(quantity, seeded_weights):
    layer = MultiHeadAttention(12, heads=4, d_k=6, bias=True)
    x, rule = torch.randn(2, 7, 12), ScoreRule(mask=causal_mask())
    with tapping(Replacing(quantity)):
        replaced = layer(x, rule=rule)
    assert not torch.equal(replaced, layer(x, rule=rule))


def test_the_output_projection_gives_each_head_its_slice(seeded_weights):
    layer = MultiHeadAttention(12, heads=4, d_k=6, d_v=5, bias=True)
    weight, bias = layer.output_projection()
    assert weight.shape == (12, 20)
    assert bias is layer.to_output.bias
    assert MultiHeadAttention(12, heads=4, d_k=6).output_projection()[1] is None


@pytest.mark.parametrize("shape", [(0, 5, 12), (2, 0, 12)])
def test_nothing_in_gives_nothing_out(shape):
    layer = MultiHeadAttention(12, heads=4, kv_heads=2, d_k=6)
    assert layer(torch.zeros(shape), rule=ScoreRule(mask=causal_mask())).shape == shape
