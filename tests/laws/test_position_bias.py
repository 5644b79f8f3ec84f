"""A bias that depends on positions alone is what it would be written out, wherever it is asked."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck
from transformers.models.bloom.modeling_bloom import build_alibi_tensor

from clearhead.masks import Mask, causal_mask
from clearhead.pipeline import fused
from clearhead.pipeline.attention import attention
from clearhead.pipeline.observe import OBSERVABLES
from clearhead.pipeline.result import AttentionResult
from clearhead.positions.bias import AlibiBias
from clearhead.positions.position_bias import PositionBias
from tests.accuracy import assert_double
from tests.laws.calls import MASKS, Drawn, draw, t5_bias

IMPLEMENTATIONS = ("fused", "tiles", "reference")
BIASES: dict[str, Callable[[torch.Generator], PositionBias]] = {
    "ALiBi": lambda _g: AlibiBias(4),
    "T5": lambda g: t5_bias(torch.randn(32, 4, generator=g)),
    "T5, past only": lambda g: t5_bias(torch.randn(9, 4, generator=g), bidirectional=False),
    "T5 with -inf": lambda g: t5_bias(
        torch.randn(32, 4, generator=g).masked_fill(
            torch.rand(32, 4, generator=g) < 0.3, -torch.inf
        )
    ),
}
KINDS = pytest.mark.parametrize("kind", BIASES)
#: Fewer rows than one block of the kernel, and more.
SIZES = ((30, torch.float64), (300, torch.float32), (270, torch.bfloat16))
EVERY = pytest.mark.parametrize("impl", IMPLEMENTATIONS)


def _dense(bias: PositionBias, call: Drawn, start: int | Tensor = 0) -> Tensor:
    """The same bias, written out."""
    n, m = call.query.shape[2], call.key.shape[2]
    rows = torch.as_tensor(start).reshape(-1, 1) + torch.arange(n)
    dtype = torch.float64 if call.query.dtype == torch.float64 else torch.float32
    return bias.tile(rows, range(m), dtype=dtype)


def _read(result: AttentionResult) -> list[Tensor]:
    weights, scores, (n, m) = result.weights, result.scores, result.weights.shape[-2:]
    some = torch.tensor([n - 1, 0])
    return [
        *(result.context, result.logsumexp, weights.to_dense(), scores.to_dense()),
        *(result.raw_scores.to_dense(), weights[1, 3, n // 2], weights[0, :, :, m - 1]),
        *(weights[1:, [3, 1]].to_dense(), scores[1, 2].tile(some, range(0, m, 2))),
        *(weights[1, 1:3].entropy(), weights[:, 2].matvec(torch.eye(m)), result.entropy),
        *(result.received, result.top_keys.weights, result.pooled.values),
    ]


def _assert_same(ours: AttentionResult, other: AttentionResult) -> None:
    for mine, theirs in zip(_read(ours), _read(other), strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("mask", ["none", "causal", "window", "causal and padding", "tensor"])
@KINDS
@EVERY
def test_a_position_bias_gives_the_bits_of_the_same_written_out(
    impl: str, kind: str, mask: str, generator: torch.Generator
) -> None:
    bias = BIASES[kind](generator)
    n, dtype = SIZES[int(torch.randint(len(SIZES), (), generator=generator))]
    call = draw(generator, n=n, dtype=dtype)
    rule = {"mask": MASKS[mask](n), "observe": OBSERVABLES, "impl": impl}
    ours = attention(*call.tensors, bias=bias, **rule)
    _assert_same(ours, attention(*call.tensors, bias=_dense(bias, call), **rule))


@KINDS
@EVERY
def test_each_batch_row_may_start_elsewhere(
    impl: str, kind: str, generator: torch.Generator
) -> None:
    bias, start = BIASES[kind](generator), torch.tensor([270, 3])
    call = draw(generator, n=20, m=290)
    rule = {"mask": causal_mask(), "query_start": start, "observe": OBSERVABLES, "impl": impl}
    ours = attention(*call.tensors, bias=bias, **rule)
    dense = _dense(bias, call, start)
    assert dense.shape[0] == 2
    _assert_same(ours, attention(*call.tensors, bias=dense, **rule))
    for b in range(2):
        alone = (tensor[b : b + 1].double() for tensor in call.tensors)
        row = {"mask": causal_mask(), "query_start": int(start[b]), "impl": impl}
        both = attention(*call.double, bias=bias, **{**rule, "observe": ()})
        assert_double(both.context[b], attention(*alone, bias=bias, **row).context[0])


@pytest.mark.parametrize("mask", ["causal", "padding"])
@KINDS
def test_nor_does_it_matter_where_kernels_keep_l(
    kind: str, mask: str, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused, "gives_logsumexp", lambda _device: False)
    bias, call = BIASES[kind](generator), draw(generator, n=270)
    rule = {"mask": MASKS[mask](270), "observe": OBSERVABLES}
    ours = attention(*call.tensors, bias=bias, **rule)
    assert ours.implementation == "fused"
    _assert_same(ours, attention(*call.tensors, bias=_dense(bias, call), **rule))


@KINDS
@EVERY
def test_case_26_a_decode_step_is_the_last_row_of_the_full_pass(
    impl: str, kind: str, generator: torch.Generator
) -> None:
    """Case 26: a bias made from the query's length is 0 at every step; positions are absolute."""
    bias, call = BIASES[kind](generator), draw(generator, n=50, dtype=torch.float64)
    full = attention(*call.tensors, mask=causal_mask(), bias=bias, impl=impl)
    step = attention(
        call.query[:, :, -1:], call.key, call.value, bias=bias, query_start=49, impl=impl
    )
    assert_double(step.context, full.context[:, :, -1:])
    assert_double(step.weights.to_dense(), full.weights[:, :, -1:])
    without = attention(call.query[:, :, -1:], call.key, call.value, query_start=49)
    assert not torch.allclose(step.context, without.context)


@pytest.mark.parametrize("heads", [1, 4, 6, 12])
def test_alibi_gives_the_weights_of_a_released_model(
    heads: int, generator: torch.Generator
) -> None:
    call = draw(generator, heads=heads, kv_heads=1, n=40)
    ours = attention(*call.tensors, mask=causal_mask(), bias=AlibiBias(heads))
    theirs = build_alibi_tensor(torch.ones(2, 40), heads, torch.float32).view(2, heads, 1, 40)
    bloom = attention(*call.tensors, mask=causal_mask(), bias=theirs)
    torch.testing.assert_close(ours.weights.to_dense(), bloom.weights.to_dense())
    torch.testing.assert_close(ours.context, bloom.context)
    slopes = torch.tensor(AlibiBias(heads).slopes)[:, None]
    torch.testing.assert_close(ours.logsumexp, bloom.logsumexp - slopes * torch.arange(40))


def test_rows_that_the_bias_leaves_nothing_are_empty(generator: torch.Generator) -> None:
    table = torch.randn(8, 4, generator=generator)
    table[0] = -torch.inf  # itself and everything later
    bias = t5_bias(table, max_distance=9, bidirectional=False)
    call = draw(generator, n=6)
    for impl in IMPLEMENTATIONS:
        result = attention(*call.tensors, bias=bias, impl=impl)
        assert not result.context[:, :, 0].any()
        assert torch.isneginf(result.logsumexp[:, :, 0]).all()
        assert torch.isfinite(result.logsumexp[:, :, 1:]).all()


@pytest.mark.parametrize("mask", ["none", "causal", "window"])
@KINDS
def test_a_part_of_one_batch_row_has_the_scores_of_that_part(
    kind: str, mask: str, generator: torch.Generator
) -> None:
    from clearhead.pipeline.rule import ScoreRule
    from clearhead.pipeline.tiles import score_tile

    bias, call = BIASES[kind](generator), draw(generator, n=12, m=20, kv_heads=4)
    for start in (5, torch.tensor([8, 3])):
        rule = ScoreRule(bias=bias, mask=MASKS[mask](12), query_start=start)
        bound = rule.bind(call.query, call.key)
        everything = {"rows": range(12), "columns": range(20)}
        whole = score_tile(call.query, call.key, bound, **everything)
        for rows, columns in (
            (torch.tensor([3, 4, 5]), torch.arange(4, 20)),
            (torch.tensor([9, 1]), torch.tensor([2, 3, 17])),
            (torch.arange(0), None),
            (None, None),
        ):
            r = torch.arange(12) if rows is None else rows
            c = torch.arange(20) if columns is None else columns
            part = bound.narrowed(1, rows=rows, columns=columns)
            query, key = call.query[1:, :, r], call.key[1:, :, c]
            for where in (range(len(r)), torch.arange(len(r)).flip(0)):
                found = score_tile(query, key, part, rows=where, columns=range(len(c)))
                order = torch.as_tensor(list(where), dtype=torch.int64)
                torch.testing.assert_close(found, whole[1:, :, r][..., c][:, :, order])
            one = part.choose(heads=torch.tensor([2]))
            found = score_tile(
                query[:, 2:3], key[:, 2:3], one, rows=range(len(r)), columns=range(len(c))
            )
            torch.testing.assert_close(found, whole[1:, 2:3, r][..., c])


# ------------------------------------------------------------------------------------- gradients

PATHS = ("fused", "tiles", "reference", "kernels that keep L")
QUANTITIES = ("context", "logsumexp", "scores", "weights")


@pytest.mark.parametrize("name", QUANTITIES)
@pytest.mark.parametrize("path", PATHS)
def test_gradients_reach_the_table(
    path: str, name: str, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path == "kernels that keep L":
        monkeypatch.setattr(fused, "gives_logsumexp", lambda _device: False)
    impl = "fused" if path == "kernels that keep L" else path
    leaves = draw(generator, n=5, m=7, d_k=3, d_v=2, dtype=torch.float64).leaves()
    table = torch.randn(8, 4, dtype=torch.float64, generator=generator, requires_grad=True)
    start = torch.tensor([2, 0])

    def made(query: Tensor, key: Tensor, value: Tensor, table: Tensor) -> Tensor:
        rule = {"bias": t5_bias(table, max_distance=5), "mask": causal_mask(), "impl": impl}
        found = getattr(attention(query, key, value, query_start=start, **rule), name)
        found = found if isinstance(found, Tensor) else found.to_dense()
        return torch.where(torch.isfinite(found), found, 0.0)

    assert gradcheck(made, (*leaves.tensors, table), fast_mode=True)


@pytest.mark.parametrize("mask", ["none", "causal", "causal and padding"])
def test_a_table_learns_what_it_would_written_out(mask: str, generator: torch.Generator) -> None:
    call = draw(generator, n=300, dtype=torch.float64)
    table = torch.randn(32, 4, dtype=torch.float64, generator=generator)

    def gradients(of: Callable[[PositionBias], object]) -> tuple[Tensor, ...]:
        leaves, leaf = call.leaves(), table.clone().requires_grad_()
        rule = {"mask": MASKS[mask](300), "bias": of(t5_bias(leaf))}
        result = attention(*leaves.tensors, **rule)
        loss = result.context.sin().sum() + result.logsumexp.sin().sum()
        return torch.autograd.grad(loss, (*leaves.tensors, leaf))

    written = gradients(lambda bias: _dense(bias, call))
    for mine, theirs in zip(gradients(lambda bias: bias), written, strict=True):
        assert_double(mine, theirs)


@pytest.mark.parametrize("kind", ["ALiBi", "T5"])
def test_a_bias_that_does_not_learn_lets_the_same_gradients_through(
    kind: str, generator: torch.Generator
) -> None:
    bias, call = BIASES[kind](generator), draw(generator, n=300)

    def gradients(bias: PositionBias | Tensor, leaves: Drawn) -> tuple[Tensor, ...]:
        result = attention(*leaves.tensors, mask=causal_mask(), bias=bias)
        loss = result.context.sin().sum() + result.logsumexp.sin().sum()
        return torch.autograd.grad(loss, leaves.tensors)

    written = gradients(_dense(bias, call), call.leaves())
    for mine, theirs in zip(gradients(bias, call.leaves()), written, strict=True):
        assert torch.equal(mine, theirs)


def test_a_mask_with_a_bias_is_still_the_mask_s_to_judge(generator: torch.Generator) -> None:
    call = draw(generator, n=6)
    nothing = Mask.from_tensor(torch.zeros(6, 6, dtype=torch.bool))
    result = attention(*call.tensors, mask=nothing, bias=AlibiBias(4))
    assert not result.context.any()
