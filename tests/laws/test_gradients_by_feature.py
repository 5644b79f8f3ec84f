"""Gradients reach query, key, value, bias and sinks through C, L, S and A, by every path."""

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from clearhead.masks import Mask, causal_mask, document_mask, padding_mask, sliding_window_mask
from clearhead.pipeline import fused
from clearhead.pipeline.attention import attention
from clearhead.pipeline.result import AttentionResult
from clearhead.positions.bias import AlibiBias
from tests.laws.calls import Drawn, draw, t5_bias
from tests.laws.features import Case, covering_array

#: Five queries, six keys, two batch rows; the second has rows that see nothing, or sees nothing.
MASKS: dict[str, Mask | None] = {
    "none": None,
    "causal": causal_mask(),
    "padding": padding_mask(torch.tensor([[0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0]])),
    "causal and padding": causal_mask() & padding_mask(torch.tensor([0, 0, 1, 1, 1, 0])),
    "window": causal_mask() & sliding_window_mask(2),
    "document": document_mask(torch.tensor([0, 0, -1, 1, 1, 1])),
    "tensor": Mask.from_tensor(torch.arange(30).reshape(5, 6) % 7 > 4),
}
PATHS = ("auto", "tiles", "reference", "kernels that keep L")
FEATURES: dict[str, tuple[object, ...]] = {
    "mask": tuple(MASKS),
    "path": PATHS,
    "softcap": (None, 2.0),
    "bias": ("none", "learned", "learned, one row for all", "with -inf", "ALiBi", "T5"),
    "sinks": ("none", "learned"),
    "kv_heads": (1, 2, 4),
    "d_v": (2, 3, 4),
}
CASES = covering_array(FEATURES)
QUANTITIES = ("context", "logsumexp", "scores", "weights")


def _named(case: Case) -> str:
    return ", ".join(f"{name}={value}" for name, value in case.items())


def _path(path: str, monkeypatch: pytest.MonkeyPatch) -> str:
    if path != "kernels that keep L":
        return path
    monkeypatch.setattr(fused, "gives_logsumexp", lambda _device: False)
    return "auto"


def _bias(kind: str, generator: torch.Generator) -> Tensor | None:
    if kind in {"none", "ALiBi"}:
        return None
    if kind == "T5":  # its table
        return torch.randn(8, 4, dtype=torch.float64, generator=generator)
    rows = 1 if "one row" in kind else 5
    bias = torch.randn(4, rows, 6, dtype=torch.float64, generator=generator)
    if kind == "with -inf":
        bias[:, 1, ::2] = -torch.inf
        bias[2, 3] = -torch.inf  # a whole row
    return bias


def _finite(quantity: Tensor) -> Tensor:
    """−inf stands where nothing is seen, and has no gradient."""
    return torch.where(torch.isfinite(quantity), quantity, 0.0)


def _quantity(result: AttentionResult, name: str) -> Tensor:
    quantity = getattr(result, name)
    return _finite(quantity if isinstance(quantity, Tensor) else quantity.to_dense())


def _call(case: Case, generator: torch.Generator) -> tuple[Drawn, dict[str, Tensor]]:
    sizes = {"n": 5, "m": 6, "d_k": 3, "d_v": case["d_v"], "kv_heads": case["kv_heads"]}
    call = draw(generator, **sizes, dtype=torch.float64)
    bias = _bias(case["bias"], generator)
    learned = {} if bias is None else {"bias": bias}
    if case["sinks"] == "learned":
        learned["sinks"] = torch.randn(4, dtype=torch.float64, generator=generator)
    return call.leaves(), {name: tensor.requires_grad_() for name, tensor in learned.items()}


@pytest.mark.parametrize("case", CASES, ids=_named)
def test_gradients_are_those_of_finite_differences(
    case: Case, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    impl = _path(case["path"], monkeypatch)
    call, learned = _call(case, generator)
    # a difference quotient of −inf is no number: a bias that masks is given, not learned
    masking = case["bias"] == "with -inf"
    given = {"bias": learned.pop("bias").detach()} if masking else {}
    if case["bias"] == "ALiBi":
        given = {"bias": AlibiBias(4)}

    def quantities(query: Tensor, key: Tensor, value: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        parts = dict(zip(learned, rest, strict=True)) | given
        if case["bias"] == "T5":
            parts["bias"] = t5_bias(parts["bias"], max_distance=5)
        rule = {"mask": MASKS[case["mask"]], "softcap": case["softcap"], "query_start": 1}
        result = attention(query, key, value, impl=impl, **rule, **parts)
        return tuple(_quantity(result, name) for name in QUANTITIES)

    assert gradcheck(quantities, (*call.tensors, *learned.values()), fast_mode=True)


@pytest.mark.parametrize("name", QUANTITIES)
@pytest.mark.parametrize("path", PATHS)
def test_gradients_are_finite_where_rows_see_nothing(
    path: str, name: str, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    impl = _path(path, monkeypatch)
    for kind, mask in MASKS.items():
        for bias in ("none", "with -inf"):
            case = {"bias": bias, "sinks": "learned", "kv_heads": 2, "d_v": 3}
            call, learned = _call(case, generator)
            leaves = (*call.tensors, *learned.values())
            result = attention(*call.tensors, mask=mask, query_start=1, impl=impl, **learned)
            summed = _quantity(result, name).sin().sum()
            for gradient in torch.autograd.grad(summed, leaves, allow_unused=True):
                assert gradient is None or torch.isfinite(gradient).all(), (kind, bias)


def _by_kernel(leaves: Drawn) -> Tensor:
    return torch.nn.functional.scaled_dot_product_attention(
        *leaves.tensors, is_causal=True, enable_gqa=True
    )


@pytest.mark.parametrize("impl", ["auto", "tiles"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_gradients_keep_the_dtype_and_come_near_those_of_float64(
    dtype: torch.dtype, impl: str, generator: torch.Generator
) -> None:
    call = draw(generator, n=40, dtype=dtype)
    exact = Drawn(*call.double).leaves()
    ours, plain = call.leaves(), call.leaves()
    keep = torch.tril(torch.ones(40, 40, dtype=torch.bool))

    def loss(context: Tensor) -> Tensor:
        return context.double().sin().sum()

    def dense(leaves: Drawn) -> Tensor:
        query, key, value = leaves.tensors
        key, value = key.repeat_interleave(2, 1), value.repeat_interleave(2, 1)
        scores = (query @ key.mT * query.shape[-1] ** -0.5).masked_fill(~keep, -torch.inf)
        return loss(scores.softmax(-1) @ value)

    mine = torch.autograd.grad(
        loss(attention(*ours.tensors, mask=causal_mask(), impl=impl).context), ours.tensors
    )
    theirs = torch.autograd.grad(dense(plain), plain.tensors)
    fast = torch.autograd.grad(loss(_by_kernel(plain)), plain.tensors)
    truth = torch.autograd.grad(dense(exact), exact.tensors)
    eps = {torch.float32: 2.0**-23, torch.bfloat16: 2.0**-7, torch.float16: 2.0**-10}[dtype]
    for a, b, c, t in zip(mine, theirs, fast, truth, strict=True):
        assert a.dtype == dtype
        plainly = max(float((b - t).abs().max()), float((c - t).abs().max()))
        bound = 1.5 * plainly + 2 * eps * float(t.abs().max())
        assert float((a - t).abs().max()) <= bound
