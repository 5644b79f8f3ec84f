"""One graph, whatever is asked of it: C and L, every feature, every length, gradients."""

import pytest
import torch
from torch import Tensor

from clearhead.masks import causal_mask, padding_mask
from clearhead.pipeline import fused
from clearhead.pipeline.attention import attention
from clearhead.positions.bias import AlibiBias
from tests.accuracy import Yardstick, assert_double
from tests.laws.calls import MASKS, Drawn, draw, t5_bias, with_entry

pytestmark = pytest.mark.compiled

N = 30
ALLOWED = torch.ones(N, N).tril().bool()


@pytest.fixture(autouse=True)
def _forgotten() -> None:
    torch._dynamo.reset()


def _both(**rule: object) -> object:
    """C and L, as one tuple."""

    def made(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        result = attention(query, key, value, **rule)
        return result.context, result.logsumexp

    return made


def _compiled(made: object, **options: object) -> object:
    return torch.compile(made, fullgraph=True, backend="aot_eager", **options)


RULES = {
    "causal": {},
    "sinks": {"sinks": torch.tensor([0.5, -1.0, 2.0, 0.0])},
    "soft-cap": {"softcap": 2.0},
    "bias": {"bias": torch.linspace(-2, 2, 4 * N * N).reshape(4, N, N)},
    "one start a row": {"query_start": torch.tensor([0, 0])},
}


@pytest.mark.parametrize(
    ("part", "dtype"),
    [*((part, torch.float32) for part in RULES), ("soft-cap", torch.bfloat16)],
    ids=str,
)
def test_one_graph_is_as_accurate_as_plain_pytorch(
    part: str, dtype: torch.dtype, generator: torch.Generator
) -> None:
    call = draw(generator, n=N, d_k=16, d_v=32, dtype=dtype)
    made = _both(mask=causal_mask(), **RULES[part])
    context, logsumexp = _compiled(made)(*call.tensors)
    dense = {name: given for name, given in RULES[part].items() if name != "query_start"}
    yardstick = Yardstick(*call.tensors, allowed=ALLOWED, **dense)
    yardstick.assert_context(context)
    yardstick.assert_logsumexp(logsumexp)
    for mine, eager in zip((context, logsumexp), made(*call.tensors), strict=True):
        assert torch.equal(mine, eager)


@pytest.mark.parametrize("n", [1, 3])
def test_one_graph_serves_rows_that_see_all(n: int, generator: torch.Generator) -> None:
    call = draw(generator, n=N)
    query = call.tensors[0][..., :n, :]
    made = _both()
    context, logsumexp = _compiled(made)(query, *call.tensors[1:])
    yardstick = Yardstick(query, *call.tensors[1:])
    yardstick.assert_context(context)
    yardstick.assert_logsumexp(logsumexp)


@pytest.mark.parametrize("kind", ["prefix", "chunk", "tensor", "mask_mod"])
def test_one_graph_gives_the_same_bits_for_other_masks(
    kind: str, generator: torch.Generator
) -> None:
    call = draw(generator, n=N)
    made = _both(mask=MASKS[kind](N))
    for mine, eager in zip(_compiled(made)(*call.tensors), made(*call.tensors), strict=True):
        assert torch.equal(mine, eager)


def test_a_graph_for_any_length_serves_every_length(generator: torch.Generator) -> None:
    made = _both(mask=causal_mask())
    graph = _compiled(made, dynamic=True)
    for n in (5, 6, 257, 300):
        call = draw(generator, n=n)
        for mine, eager in zip(graph(*call.tensors), made(*call.tensors), strict=True):
            torch.testing.assert_close(mine, eager)


def test_a_mask_may_be_made_inside(generator: torch.Generator) -> None:
    call = draw(generator, n=9)
    keep = torch.tensor([[1] * 9, [0, 0, 0, 1, 1, 1, 1, 1, 1]])

    def made(keep: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        mask = causal_mask() & padding_mask(keep)
        return attention(query, key, value, mask=mask).context

    eager = made(keep, *call.tensors)
    assert torch.equal(_compiled(made)(keep, *call.tensors), eager)
    assert not eager[1, :, :3].any()


@pytest.mark.parametrize("part", ["sinks", "soft-cap", "bias"])
def test_one_graph_trains_what_is_learned(part: str, generator: torch.Generator) -> None:
    call = draw(generator, n=N)
    learned = {n: t.clone().requires_grad_() for n, t in RULES[part].items() if n != "softcap"}
    rule = {"mask": causal_mask(), **RULES[part], **learned}
    made = _both(**rule)

    def gradients(run: object, leaves: Drawn) -> tuple[Tensor, ...]:
        context, logsumexp = run(*leaves.tensors)
        loss = context.sin().sum() + logsumexp.sin().sum()
        return torch.autograd.grad(loss, (*leaves.tensors, *learned.values()))

    mine = gradients(_compiled(made), call.leaves())
    for a, b in zip(mine, gradients(made, call.leaves()), strict=True):
        torch.testing.assert_close(a, b)


def _table(generator: torch.Generator, *, holes: bool = False) -> Tensor:
    table = torch.randn(32, 4, dtype=torch.float64, generator=generator)
    return table.masked_fill(table > 1, -torch.inf) if holes else table


POSITION_BIASES = {
    "ALiBi": lambda _generator: AlibiBias(4),
    "T5": lambda generator: t5_bias(_table(generator)),
    "T5 with -inf": lambda generator: t5_bias(_table(generator, holes=True)),
}


@pytest.mark.parametrize("softcap", [None, 2.0], ids=["kernel", "tiles"])
@pytest.mark.parametrize(
    ("kind", "mask"), [("ALiBi", "causal"), ("T5", "causal and padding"), ("T5 with -inf", "none")]
)
def test_one_graph_gives_the_same_bits_with_a_position_bias(
    kind: str, mask: str, softcap: float | None, generator: torch.Generator
) -> None:
    call = draw(generator, n=N)
    bias = POSITION_BIASES[kind](generator)
    made = _both(bias=bias, mask=MASKS[mask](N), softcap=softcap)
    for mine, eager in zip(_compiled(made)(*call.tensors), made(*call.tensors), strict=True):
        assert torch.equal(mine, eager)


@pytest.mark.parametrize("softcap", [None, 2.0], ids=["kernel", "tiles"])
def test_one_graph_trains_the_table_of_a_position_bias(
    softcap: float | None, generator: torch.Generator
) -> None:
    call, table = draw(generator, n=N, dtype=torch.float64), _table(generator)

    def gradients(*, compiled: bool) -> tuple[Tensor, ...]:
        leaves, leaf = call.leaves(), table.clone().requires_grad_()
        made = _both(bias=t5_bias(leaf), mask=causal_mask(), softcap=softcap)
        context, logsumexp = (_compiled(made) if compiled else made)(*leaves.tensors)
        loss = context.sin().sum() + logsumexp.sin().sum()
        return torch.autograd.grad(loss, (*leaves.tensors, leaf))

    for mine, eager in zip(gradients(compiled=True), gradients(compiled=False), strict=True):
        assert_double(mine, eager)


@pytest.mark.parametrize("kind", ["causal", "padding"])
def test_one_graph_serves_devices_whose_kernels_keep_l(
    kind: str, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused, "gives_logsumexp", lambda _device: False)
    call = draw(generator, n=N, d_k=16, d_v=16)
    mask = MASKS[kind](N)
    context, logsumexp = _compiled(_both(mask=mask))(*call.tensors)
    allowed = mask.to_dense(queries=N, keys=N, batch=2)
    yardstick = Yardstick(*call.tensors, allowed=allowed)
    yardstick.assert_context(context)
    yardstick.assert_logsumexp(logsumexp)


@pytest.mark.parametrize("softcap", [None, 2.0], ids=["kernel", "tiles"])
@pytest.mark.parametrize("kind", ["causal", "padding"])
def test_what_a_row_may_not_see_does_not_matter_to_it(
    kind: str, softcap: float | None, generator: torch.Generator
) -> None:
    call = draw(generator, n=N)
    mask = MASKS[kind](N)
    graph = _compiled(_both(mask=mask, softcap=softcap))
    calm = graph(*call.tensors)
    column = {"causal": N - 1, "padding": 2}[kind]
    unseeing = ~mask.to_dense(queries=N, keys=N, batch=2)[..., column].expand(2, 4, N)
    for value in (torch.nan, torch.inf, -torch.inf, 3e38):
        for which in ("key", "value"):
            broken = with_entry(call, which, (slice(None), slice(None), column, 3), value)
            for mine, before in zip(graph(*broken.tensors), calm, strict=True):
                assert torch.equal(mine[unseeing], before[unseeing])
