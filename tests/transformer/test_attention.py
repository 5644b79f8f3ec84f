"""Multi-head attention alone: formulas by hand, PyTorch's own, and laws."""

import math

import pytest
import torch
from torch import Tensor

from clearhead.masks import causal_mask, padding_mask, sliding_window_mask
from clearhead.pipeline.rule import ScoreRule
from clearhead.positions.rotary import RotaryEmbedding, rotate
from clearhead.transformer.attention import MultiHeadAttention
from tests.accuracy import assert_double
from tests.transformer.doubled import Doubled


def layer(**sizes: object) -> MultiHeadAttention:
    made = MultiHeadAttention(12, **{"heads": 4, "d_k": 6, **sizes}).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return made


def split(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(-1, (heads, -1)).transpose(-2, -3)


def by_hand(
    part: MultiHeadAttention,
    x: Tensor,
    source: Tensor | None = None,
    *,
    allowed: Tensor | None = None,
    phases: object = None,
) -> Tensor:
    """The formulas with a loop over query heads; query head h reads key head h // group."""
    source = x if source is None else source
    q, k, v = part.to_query(x), part.to_key(source), part.to_value(source)
    q, k, v = split(q, part.heads), split(k, part.kv_heads), split(v, part.kv_heads)
    if part.norms_rotated:
        q, k = _unit(rotate(q, phases)), _unit(rotate(k, phases))
    elif part.query_norm is not None:
        q = rotate(_unit(q) * part.query_norm.weight, phases)
        k = rotate(_unit(k) * part.key_norm.weight, phases)
    else:
        q, k = rotate(q, phases), rotate(k, phases)
    contexts = []
    for head in range(part.heads):
        shared = head // (part.heads // part.kv_heads)
        scale = part.rule.scale or 1 / math.sqrt(q.shape[-1])
        scores = scale * q[:, head] @ k[:, shared].mT
        if part.rule.softcap:
            scores = part.rule.softcap * torch.tanh(scores / part.rule.softcap)
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -math.inf)
        exps = scores.exp()
        total = exps.sum(-1, keepdim=True)
        if part.sinks is not None:
            total = total + part.sinks[head].exp()
        contexts.append(exps / total @ v[:, shared])
    return part.to_output(torch.cat(contexts, -1))


def _unit(x: Tensor) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()


# -------------------------------------------------------------------------------------- formulas


@pytest.mark.parametrize("kv_heads", [None, 4, 2, 1])
@pytest.mark.parametrize("d_v", [None, 3, 9])
@pytest.mark.parametrize("bias", [False, True])
def test_heads_of_every_kind_and_width_by_hand(kv_heads, d_v, bias, seeded_weights):
    part = layer(kv_heads=kv_heads, d_v=d_v, input_bias=bias, output_bias=bias)
    x = torch.randn(2, 7, 12, dtype=torch.float64)
    assert part(x).shape == (2, 7, 12)
    assert_double(part(x), by_hand(part, x))
    seen = torch.ones(7, 7, dtype=torch.bool).tril()
    assert_double(part(x, mask=causal_mask()), by_hand(part, x, allowed=seen))


def test_query_heads_0_and_1_read_key_head_0_and_2_and_3_read_key_head_1(seeded_weights):
    # axlearn's fault was to deal the heads out in turns: 0, 1, 0, 1
    part, x = layer(kv_heads=2), torch.randn(1, 5, 12, dtype=torch.float64)
    part.to_value.weight.data[:6], part.to_output.weight.data = 0.0, torch.eye(12, 24).double()
    outputs = part(x).unflatten(-1, (2, 6))  # of query heads 0 and 1: of key head 0 alone
    assert not outputs.any()
    part.to_output.weight.data = torch.eye(24).double()[12:]
    assert part(x).unflatten(-1, (2, 6)).abs().amax((0, 1, 3)).gt(0).all()


@pytest.mark.parametrize("d_source", [12, 5])
@pytest.mark.parametrize("kv_heads", [4, 1])
def test_cross_attention_reads_a_source_of_another_width_and_length(
    d_source, kv_heads, seeded_weights
):
    part = layer(kv_heads=kv_heads, d_v=5, d_source=d_source, input_bias=True)
    x = torch.randn(2, 3, 12, dtype=torch.float64)
    source = torch.randn(2, 8, d_source, dtype=torch.float64)
    assert_double(part(x, source), by_hand(part, x, source))
    real = torch.ones(2, 8, dtype=torch.bool)
    real[1, 5:] = False
    got = part(x, source, mask=padding_mask(real))
    assert_double(got, by_hand(part, x, source, allowed=real[:, None]))
    source[1, 5:] = torch.nan
    assert torch.equal(part(x, source, mask=padding_mask(real)), got)


@pytest.mark.parametrize(
    "settings",
    [
        {"scale": 0.7},
        {"softcap": 0.8},
        {"sinks": True},
        {"scale": 2.0, "softcap": 1.5, "sinks": True, "kv_heads": 2},
    ],
    ids=str,
)
def test_scale_cap_and_sinks_by_hand(settings, seeded_weights):
    part, x = layer(**settings), torch.randn(2, 7, 12, dtype=torch.float64)
    steps = torch.arange(7)
    seen = (steps[:, None] >= steps) & (steps[:, None] - steps < 3)
    got = part(x, mask=causal_mask() & sliding_window_mask(3))
    assert_double(got, by_hand(part, x, allowed=seen))


@pytest.mark.parametrize("norm", [None, "head", "rotated"])
@pytest.mark.parametrize("turning", [False, True])
def test_norms_of_queries_and_keys_by_hand(norm, turning, seeded_weights):
    with Doubled():
        part, x = layer(query_key_norm=norm, kv_heads=2), torch.randn(2, 7, 12)
        phases = RotaryEmbedding(6).phases(torch.arange(7)[None], dtype=torch.float64)
        got = part(x, phases=phases if turning else None)
        if norm == "rotated" and not turning:
            # what does not turn is not normed either
            part.norms_rotated, part.query_norm = False, None
        assert_double(got, by_hand(part, x, phases=phases if turning else None))


def test_an_offset_of_norms_is_added_to_their_weights(seeded_weights):
    plain, x = layer(query_key_norm="head"), torch.randn(2, 7, 12, dtype=torch.float64)
    offset = layer(query_key_norm="head", norm_offset=1.0)
    state = plain.state_dict()
    state |= {name: state[name] - 1.0 for name in ("query_norm.weight", "key_norm.weight")}
    offset.load_state_dict(state)
    with Doubled():  # else one multiplies in float32, as the released models do
        assert_double(offset(x), plain(x))


def test_a_temperature_is_a_factor_on_queries(seeded_weights):
    part, x = layer(), torch.randn(2, 7, 12, dtype=torch.float64)
    heat = 1 + torch.rand(2, 1, 7, 1, dtype=torch.float64)
    got = part(x, temperature=heat)
    for row in range(2):
        for place in range(7):
            part.rule = ScoreRule(scale=float(heat[row, 0, place, 0]) / math.sqrt(6))
            assert_double(got[row, place], by_hand(part, x[row : row + 1])[0, place])


@pytest.mark.parametrize("causal", [False, True])
def test_it_is_pytorchs_multi_head_attention(causal, seeded_weights):
    theirs = torch.nn.MultiheadAttention(12, 3, bias=True, batch_first=True).double()
    torch.nn.init.normal_(theirs.in_proj_bias)
    part = MultiHeadAttention(12, heads=3, input_bias=True, output_bias=True).double()
    names = ("to_query", "to_key", "to_value")
    weights = theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3)
    state = {
        f"{name}.{leaf}": value
        for leaf, values in zip(("weight", "bias"), weights, strict=True)
        for name, value in zip(names, values, strict=True)
    }
    state |= {f"to_output.{leaf}": value for leaf, value in theirs.out_proj.state_dict().items()}
    part.load_state_dict(state)
    x = torch.randn(2, 7, 12, dtype=torch.float64)
    hidden = torch.ones(7, 7, dtype=torch.bool).triu(1) if causal else None
    expected = theirs(x, x, x, attn_mask=hidden, need_weights=False)[0]
    assert_double(part(x, mask=causal_mask() if causal else None), expected)


# ------------------------------------------------------------------------------------------ laws


def test_without_positions_permuting_tokens_permutes_outputs(seeded_weights):
    part = layer(kv_heads=2, query_key_norm="head", sinks=True, softcap=2.0)
    x, order = torch.randn(1, 9, 12, dtype=torch.float64), torch.randperm(9)
    assert_double(part(x[:, order]), part(x)[:, order])


def test_positions_tell_the_order(seeded_weights):
    part, x = layer(), torch.randn(1, 9, 12, dtype=torch.float64)
    phases = RotaryEmbedding(6).phases(torch.arange(9)[None], dtype=x.dtype)
    straight = part(x, phases=phases)
    turned = part(x.flip(1), phases=phases).flip(1)
    assert (straight - turned).abs().max() > 1e-3 * straight.abs().max()


def test_a_mask_is_a_rule_with_nothing_else(seeded_weights):
    part, x = layer(softcap=2.0, sinks=True), torch.randn(2, 7, 12, dtype=torch.float64)
    rule = ScoreRule(mask=causal_mask())
    assert torch.equal(part(x, rule=rule), part(x, mask=causal_mask()))
    own = ScoreRule(scale=part.rule.scale, softcap=2.0, sinks=part.sinks)
    assert torch.equal(part(x, rule=own), part(x))


def test_what_a_rule_says_goes_before_what_the_layer_has(seeded_weights):
    part, x = layer(softcap=2.0, scale=1.0), torch.randn(2, 7, 12, dtype=torch.float64)
    got = part(x, rule=ScoreRule(softcap=0.5, scale=0.3))
    part.rule = ScoreRule(softcap=0.5, scale=0.3)
    assert_double(got, by_hand(part, x))


@pytest.mark.parametrize("shape", [(0, 5, 12), (2, 0, 12)])
def test_nothing_in_gives_nothing_out(shape):
    part = MultiHeadAttention(12, heads=4, kv_heads=2, d_k=6)
    assert part(torch.zeros(shape), mask=causal_mask()).shape == shape
