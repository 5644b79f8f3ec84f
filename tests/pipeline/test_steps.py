"""A small attention is printed as its five steps; a large one in a line."""

import pytest
import torch

from clearhead.masks import causal_mask
from clearhead.pipeline.attention import attention
from clearhead.pipeline.steps import five_steps
from clearhead.positions.bias import AlibiBias
from tests.laws.calls import draw

BY_HAND = """\
1. raw scores   0.7071 · Q Kᵀ
      1.414    0.707
2. scores       S   (nothing capped, biased or masked)
      1.414    0.707
3. logsumexp    L = log Σⱼ exp(Sᵢⱼ)
      1.815
4. weights      A = exp(S − L)
      0.670    0.330
5. context      C = A · V
      6.698    3.981"""


def by_hand(**parts):
    query = torch.tensor([[1.0, 1.0]])
    key, value = torch.tensor([[1.0, 1.0], [1.0, 0.0]]), torch.tensor([[10.0, 2.0], [0.0, 8.0]])
    return attention(query, key, value, **parts)


@pytest.mark.parametrize("impl", ["fused", "tiles", "reference"])
def test_the_example_that_is_done_by_hand(impl):
    assert repr(by_hand(impl=impl)) == BY_HAND


def test_what_was_done_to_the_scores_is_named():
    lines = repr(
        by_hand(
            mask=causal_mask(),
            query_start=0,
            softcap=1.0,
            bias=torch.tensor([[2.0, 0.0]]),
            scale=1.0,
            impl="tiles",
        )
    ).splitlines()
    assert lines[:6] == [
        "1. raw scores   1 · Q Kᵀ",
        "      2.000    1.000",
        "2. scores       S   (soft-capped, biased, masked)",
        "      2.964     −inf",  # tanh(2) + 2
        "3. logsumexp    L = log Σⱼ exp(Sᵢⱼ)",
        "      2.964",
    ]
    assert lines[-3:] == [
        "      1.000    0.000",
        "5. context      C = A · V",
        "     10.000    2.000",
    ]


def test_a_position_bias_is_written_out_where_it_is_small():
    lines = repr(by_hand(query_start=1, bias=AlibiBias(1))).splitlines()
    assert lines[2:4] == [
        "2. scores       S   (biased)",
        "      1.410    0.707",  # one position back, at a slope of 2^−8
    ]


def test_numbers_have_their_sign_and_room():
    text = repr(by_hand(bias=torch.tensor([[-2.0, 3e6]])))
    assert text.splitlines()[3] == "     −0.586  3.0e+06"
    assert "-" not in text


@pytest.mark.parametrize(("batch", "heads"), [(1, 2), (2, 1)])
def test_every_head_and_batch_row_has_its_own_block(generator, batch, heads):
    call = draw(generator, batch=batch, heads=heads, kv_heads=1, n=3, d_v=2)
    result = attention(*call.tensors, mask=causal_mask())
    blocks = repr(result).split("\n\n")
    title = "batch row" if batch > 1 else "head"
    assert [block.splitlines()[0] for block in blocks] == [f"{title} 0", f"{title} 1"]
    for number, block in enumerate(blocks):
        at = (number, 0) if batch > 1 else (0, number)
        shown = [line.replace("−", "-").split() for line in block.splitlines()[-3:]]
        expected = [[f"{x:.3f}" for x in row] for row in result.context[at].tolist()]
        assert shown == expected
        alone = attention(
            call.query[at], call.key[at[0], 0], call.value[at[0], 0], mask=causal_mask()
        )
        assert repr(alone) == "\n".join(block.splitlines()[1:])


@pytest.mark.parametrize(
    "sizes", [{"n": 9, "m": 2}, {"n": 2, "m": 9}, {"heads": 3, "kv_heads": 1}, {"batch": 2}]
)
def test_a_larger_one_is_one_line(generator, sizes):
    call = draw(generator, **{"batch": 1, "heads": 2, "n": 2, "d_v": 3, **sizes})
    result = attention(*call.tensors)
    steps = five_steps(result.weights, result.scores, result.raw_scores, context=result.context)
    assert steps is None
    context, level = tuple(result.context.shape), tuple(result.logsumexp.shape)
    assert repr(result) == (
        f"AttentionResult(context={context}, logsumexp={level}, "
        f"weights={result.weights.shape} never formed, implementation='fused')"
    )


def test_nothing_at_all_is_one_line_and_a_graph_is_no_hindrance(generator):
    nothing = draw(generator, batch=1, heads=1, kv_heads=1, n=2, m=0)
    assert repr(attention(*nothing.tensors)).startswith("AttentionResult(context=(1, 1, 2, 8), ")
    small = draw(generator, batch=1, heads=1, kv_heads=1, n=2)
    with_graph, without = attention(*small.leaves().tensors), attention(*small.tensors)
    assert with_graph.context.requires_grad
    assert repr(with_graph) == repr(without)


def test_a_sink_is_shown_where_it_counts():
    lines = repr(by_hand(sinks=torch.tensor([-0.5]))).splitlines()
    assert lines[4:8] == [
        "3. logsumexp    L = log(Σⱼ exp(Sᵢⱼ) + exp(sink))   (sink −0.500)",
        "      1.909",  # log(e^1.414 + e^0.707 + e^−0.5)
        "4. weights      A = exp(S − L)",
        "      0.610    0.301",
    ]
