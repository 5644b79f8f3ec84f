"""What a row may not see does not matter to it, bit for bit, whatever stands there."""

import itertools
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from clearhead.pipeline import fused
from clearhead.pipeline.attention import attention
from clearhead.pipeline.result import AttentionResult
from clearhead.positions.bias import AlibiBias
from tests.accuracy import assert_double
from tests.laws.calls import MASKS, Drawn, draw, t5_bias, with_entry

NO_NUMBERS = [torch.nan, torch.inf, -torch.inf]
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
#: More than one block of the kernel; with 256 and more the masks are cut into blocks too.
SIZES = [7, 70, 270]


@dataclass(frozen=True, eq=False)
class _Rows:
    """Everything that has rows, dense."""

    context: Tensor
    logsumexp: Tensor
    scores: Tensor
    weights: Tensor
    product: Tensor
    entropy: Tensor

    @classmethod
    def of(cls, result: AttentionResult, vectors: Tensor) -> "_Rows":
        return cls(
            context=result.context,
            logsumexp=result.logsumexp,
            scores=result.scores.to_dense(),
            weights=result.weights.to_dense(),
            product=result.weights.matvec(vectors),
            entropy=result.weights.entropy(),
        )

    def assert_same(self, other: "_Rows", rows: Tensor) -> None:
        for name, mine in vars(self).items():
            assert torch.equal(mine[rows], getattr(other, name)[rows]), name


def _rule(kind: str, n: int, generator: torch.Generator) -> dict[str, object]:
    """A rule with rows that see some of the keys; the last five are no masks of positions."""
    if kind == "bias":
        bias = torch.randn(4, n, n, generator=generator)
        hidden = torch.rand(4, n, n, generator=generator) < 0.4
        return {"bias": bias.masked_fill(hidden, -torch.inf)}
    if kind == "ALiBi":
        return {"mask": MASKS["causal"](n), "bias": AlibiBias(4)}
    if kind == "T5":
        table = torch.randn(32, 4, generator=generator)
        table[3] = -torch.inf  # keys three positions back are not seen
        return {"bias": t5_bias(table)}
    if kind == "soft-cap":
        return {"mask": MASKS["causal"](n), "softcap": 3.0}
    if kind == "sinks":
        return {"mask": MASKS["causal"](n), "sinks": torch.randn(4, generator=generator)}
    return {"mask": MASKS[kind](n)}


KINDS = [*(kind for kind in MASKS if kind != "none"), "bias", "ALiBi", "T5", "soft-cap", "sinks"]


def _broken(dtype: torch.dtype) -> list[float]:
    """No numbers, and numbers so large that a product with them is none."""
    if dtype != torch.float32:
        return [torch.nan, torch.finfo(dtype).max]
    return [*NO_NUMBERS, torch.finfo(dtype).max, torch.finfo(dtype).min]


def _break(call: Drawn, vectors: Tensor, column: int, value: float) -> list[tuple[Drawn, Tensor]]:
    """The call with one key of one batch row broken, with one value broken, and A · X likewise."""
    row = vectors.clone()
    row[0, 0, column, 1] = value
    return [
        (with_entry(call, "key", (0, 1, column, 3), value), vectors),
        (with_entry(call, "value", (0, 1, column, 3), value), row),
    ]


def _sees(base: _Rows, column: int) -> Tensor:
    """Which rows see a column of batch row 0, key head 1 (or, for A · X, query head 0)."""
    sees = base.scores[..., column] != -torch.inf
    sees[1] = False
    sees[:, 1] = False
    return sees


def _call(dtype: torch.dtype, n: int, generator: torch.Generator) -> tuple[Drawn, Tensor]:
    call = draw(generator, n=n, d_k=16, d_v=8, dtype=dtype)
    vectors = torch.randn(2, 4, n, 3, generator=generator)
    return call, vectors.double() if dtype == torch.float64 else vectors


CALLS = [*itertools.product(("auto", "tiles"), KINDS)]
CALLS += [("reference", kind) for kind in ("causal", "padding", "bias", "T5", "sinks")]


@pytest.mark.parametrize(("impl", "kind"), CALLS)
def test_what_a_row_may_not_see_does_not_matter_to_it(
    impl: str, kind: str, generator: torch.Generator
) -> None:
    for dtype in DTYPES if impl == "auto" else DTYPES[:1]:
        sizes = SIZES if (dtype, impl) == (torch.float32, "auto") else SIZES[:2]
        n = sizes[int(torch.randint(len(sizes), (), generator=generator))]
        call, vectors = _call(dtype, n, generator)
        rule = _rule(kind, n, generator)
        base = _Rows.of(attention(*call.tensors, impl=impl, **rule), vectors)
        column = int(torch.randint(n, (), generator=generator))
        unseeing = ~_sees(base, column)
        for value in _broken(dtype):
            for broken, others in _break(call, vectors, column, value):
                result = attention(*broken.tensors, impl=impl, **rule)
                _Rows.of(result, others).assert_same(base, unseeing)


@pytest.mark.parametrize("kind", ["causal", "padding", "tree", "bias", "T5", "sinks"])
def test_nor_where_kernels_keep_l_to_themselves(
    kind: str, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused, "gives_logsumexp", lambda _device: False)
    test_what_a_row_may_not_see_does_not_matter_to_it("auto", kind, generator)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("impl", ["auto", "tiles"])
def test_a_row_that_sees_what_is_broken_gets_what_the_reference_gives(
    impl: str, kind: str, generator: torch.Generator
) -> None:
    n = SIZES[int(torch.randint(3, (), generator=generator))]
    call, vectors = _call(torch.float64, n, generator)
    rule = _rule(kind, n, generator)
    for value in NO_NUMBERS:
        column = int(torch.randint(n, (), generator=generator))
        for broken, _ in _break(call, vectors, column, value):
            ours = attention(*broken.tensors, impl=impl, **rule)
            truth = attention(*broken.tensors, impl="reference", **rule)
            assert_double(ours.context, truth.context, name="C")
            assert_double(ours.logsumexp, truth.logsumexp, name="logsumexp")
            assert_double(ours.weights.to_dense(), truth.weights.to_dense(), name="A")


@pytest.mark.parametrize("impl", ["auto", "tiles", "reference"])
def test_a_broken_query_breaks_its_own_row_alone(impl: str, generator: torch.Generator) -> None:
    call, vectors = _call(torch.float32, 70, generator)
    base = _Rows.of(attention(*call.tensors, mask=MASKS["causal"](70), impl=impl), vectors)
    for value in NO_NUMBERS:
        broken = with_entry(call, "query", (0, 1, 40, 3), value)
        result = attention(*broken.tensors, mask=MASKS["causal"](70), impl=impl)
        others = torch.ones(2, 4, 70, dtype=torch.bool)
        others[0, 1, 40] = False
        _Rows.of(result, vectors).assert_same(base, others)
        assert not torch.isfinite(result.context[0, 1, 40]).any()


def test_a_padded_prompt_may_hold_anything(generator: torch.Generator) -> None:
    """Memory that nobody has written yet stands where padding is."""
    call, vectors = _call(torch.float32, 300, generator)
    mask = MASKS["causal and padding"](300)
    base = _Rows.of(attention(*call.tensors, mask=mask), vectors)
    wild = with_entry(call, "key", (1, slice(None), slice(0, 100)), torch.nan)
    wild = with_entry(wild, "value", (1, slice(None), slice(0, 100)), torch.inf)
    everything = torch.ones(2, 4, 300, dtype=torch.bool)
    _Rows.of(attention(*wild.tensors, mask=mask), vectors).assert_same(base, everything)


@pytest.mark.parametrize("value", [*NO_NUMBERS, 3e38])
@pytest.mark.parametrize("which", ["key", "value"])
@pytest.mark.parametrize("kind", ["causal", "padding"])
def test_nor_does_it_matter_to_the_gradients_of_a_kernel(
    kind: str, which: str, value: float, generator: torch.Generator
) -> None:
    call = draw(generator, n=9)
    mask, column = MASKS[kind](9), {"causal": 8, "padding": 1}[kind]
    rows = slice(0, 8) if kind == "causal" else slice(None)

    def gradients(call: Drawn) -> list[Tensor]:
        leaves = call.leaves()
        result = attention(*leaves.tensors, mask=mask)
        seen = result.context[1, :, rows].sum() + result.logsumexp[1, :, rows].sin().sum()
        return list(torch.autograd.grad(seen, leaves.tensors))

    broken = gradients(with_entry(call, which, (1, 0, column, 2), value))
    for mine, calm in zip(broken, gradients(call), strict=True):
        assert torch.equal(mine, calm)


@pytest.mark.parametrize("value", [*NO_NUMBERS, 3e38])
@pytest.mark.parametrize("which", ["key", "value"])
@pytest.mark.parametrize("rule", [{}, {"softcap": 3.0}], ids=["plain", "soft-cap"])
@pytest.mark.parametrize("kind", ["causal", "padding"])
def test_nor_to_the_gradients_of_tiles(
    kind: str, rule: dict[str, float], which: str, value: float, generator: torch.Generator
) -> None:
    """Of the rows that do not see it; one that does sends NaN to the keys, as the reference has."""
    call = draw(generator, n=9)
    mask, column = MASKS[kind](9), {"causal": 8, "padding": 1}[kind]
    rows = slice(0, 8) if kind == "causal" else slice(None)

    def gradients(call: Drawn) -> list[Tensor]:
        leaves = call.leaves()
        result = attention(*leaves.tensors, mask=mask, impl="tiles", **rule)
        read = result.weights.rows(rows)[1].square().sum()
        seen = result.context[1, :, rows].sum() + result.logsumexp[1, :, rows].sin().sum() + read
        d_query, *others = torch.autograd.grad(seen, leaves.tensors)
        return [d_query[:, :, rows], *(others if kind == "padding" else [])]

    broken = gradients(with_entry(call, which, (1, 0, column, 2), value))
    for mine, calm in zip(broken, gradients(call), strict=True):
        assert torch.equal(mine, calm)
