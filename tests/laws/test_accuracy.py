"""Every implementation is as accurate as plain PyTorch, whatever two features meet."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from clearhead.masks import Mask
from clearhead.pipeline.attention import attention
from clearhead.pipeline.result import AttentionResult
from clearhead.positions.position_bias import PositionBias
from tests.accuracy import PlainAttention, Yardstick
from tests.laws.calls import draw, laid_out
from tests.laws.features import (
    BIASES,
    FEATURES,
    MASK_KINDS,
    Case,
    covering_array,
    pairs,
    possible,
)

CASES = covering_array(FEATURES, possible=possible)


def _named(case: Case) -> str:
    return ", ".join(f"{k}={str(v).removeprefix('torch.')}" for k, v in case.items())


def test_every_two_features_meet() -> None:
    met = set[object]().union(*(pairs(case) for case in CASES))
    names = list(FEATURES)
    wanted = {
        ((one, a), (other, b))
        for at, one in enumerate(names)
        for other in names[at + 1 :]
        for a in FEATURES[one]
        for b in FEATURES[other]
    }
    assert met == wanted
    assert all(possible(case) for case in CASES)


@dataclass(frozen=True, eq=False)
class _Call:
    """One case, drawn."""

    tensors: tuple[Tensor, ...]
    mask: Mask | None
    start: int | Tensor | None
    parts: dict[str, Tensor | PositionBias | float | None]

    @classmethod
    def of(cls, case: Case, generator: torch.Generator) -> "_Call":
        n, m, dtype = case["n"], case["m"], case["dtype"]
        sizes = {"n": n, "m": m, "d_k": 24, "d_v": case["d_v"], "kv_heads": case["kv_heads"]}
        drawn = draw(generator, **sizes, dtype=dtype)
        one = max(m - n, 0) // 2
        starts = {"none": None, "integer": one, "one a row": torch.tensor([one, m // 3])}
        bias = BIASES[case["bias"]](n, m, generator)
        sinks = torch.randn(4, generator=generator).to(dtype)
        return cls(
            tensors=tuple(laid_out(tensor, case["strides"]) for tensor in drawn.tensors),
            mask=MASK_KINDS[case["mask"]](n, m),
            start=starts[case["query_start"]],
            parts={
                "softcap": case["softcap"],
                "bias": bias.to(dtype) if isinstance(bias, Tensor) else bias,
                "sinks": None if case["sinks"] == "none" else sinks,
            },
        )

    def run(self, impl: str) -> AttentionResult:
        return attention(
            *self.tensors, mask=self.mask, query_start=self.start, impl=impl, **self.parts
        )

    def yardstick(self) -> Yardstick:
        """Plain PyTorch on the same numbers, beside the reference in float64."""
        wide = {k: p.double() if isinstance(p, Tensor) else p for k, p in self.parts.items()}
        doubled = tuple(tensor.double() for tensor in self.tensors)
        truth = _Call(doubled, self.mask, self.start, wide).run("reference")
        query, key, _ = self.tensors
        sizes = {"queries": query.shape[2], "keys": key.shape[2], "batch": 2, "heads": 4}
        allowed = self.mask and self.mask.to_dense(**sizes, query_start=self.start)
        dense = PlainAttention(
            truth.scores.to_dense(), truth.weights.to_dense(), truth.context, truth.logsumexp
        )
        parts = {**self.parts, "bias": self._dense_bias()}
        return Yardstick(*self.tensors, truth=dense, allowed=allowed, **parts)

    def _dense_bias(self) -> Tensor | None:
        bias = self.parts["bias"]
        if not isinstance(bias, PositionBias):
            return bias
        n, m = self.tensors[0].shape[2], self.tensors[1].shape[2]
        start = torch.as_tensor(0 if self.start is None else self.start)
        return bias.tile(start.reshape(-1, 1) + torch.arange(n), range(m))


@pytest.mark.parametrize("case", CASES, ids=_named)
def test_any_call_is_as_accurate_as_plain_pytorch(case: Case, generator: torch.Generator) -> None:
    call = _Call.of(case, generator)
    ours, yardstick = call.run(case["impl"]), call.yardstick()
    yardstick.assert_context(ours.context)
    yardstick.assert_logsumexp(ours.logsumexp)
