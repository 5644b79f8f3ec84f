"""The one place that owns tolerances: an error is judged by the error plain PyTorch makes.

``E(x) = max|x − truth|`` over one (batch, head); the truth is float64 from the same rounded inputs,
and ``top = max|truth|`` there.

==========  ==========================================  ===================
dtype       context C                                   logsumexp L
==========  ==========================================  ===================
float32     E(ours) ≤ 1.5 · E(plain) + 2 · eps · top    the same
bf16, fp16  the same, and E(ours) ≤ eps · top           E(ours) ≤ 5e-5 · top
float64     E(ours) ≤ 1e-12 · top                       the same
==========  ==========================================  ===================

eps is 2⁻²³, 2⁻⁷ and 2⁻¹⁰ for float32, bfloat16 and float16. For L, top is at least 1: L is a
logarithm, and a relative error of the row's sum is an absolute error of L. What is NaN or infinite
in the truth must be the same in ours; only the finite rest has an error.

E(plain) is a sample: the same sums in another order have another error, and in float32 a correct
path fails a single draw in up to 3 of 100 small calls. So `Yardstick` runs plain PyTorch in more
orders, up to 64, before it calls a result wrong. Choose d_v of 16 or more for 16-bit inputs: with
fewer numbers in a row all of them may be small by chance, and eps · top is then below what a kernel
that rounds its weights can reach.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

__all__ = [
    "PlainAttention",
    "Yardstick",
    "assert_context_accurate",
    "assert_double",
    "assert_logsumexp_accurate",
    "plain_attention",
]

_EPS = {torch.float32: 2.0**-23, torch.bfloat16: 2.0**-7, torch.float16: 2.0**-10}
_SHOWN = 5


# ---------------------------------------------------------------------------------- the plain path


@dataclass(frozen=True, eq=False)
class PlainAttention:
    """What plain PyTorch makes of one call."""

    scores: Tensor
    weights: Tensor
    context: Tensor
    logsumexp: Tensor


@dataclass(frozen=True, eq=False)
class Call:
    """One call of attention, its rule as dense tensors; `allowed` is True where a row may look."""

    query: Tensor
    key: Tensor
    value: Tensor
    scale: float | None = None
    softcap: float | None = None
    bias: Tensor | None = None
    allowed: Tensor | None = None
    sinks: Tensor | None = None

    def double(self) -> "Call":
        """The same rounded numbers in float64."""
        return replace(
            self,
            query=self.query.double(),
            key=self.key.double(),
            value=self.value.double(),
            bias=None if self.bias is None else self.bias.double(),
            sinks=None if self.sinks is None else self.sinks.double(),
        )

    def reordered(self, order: int) -> "Call":
        """The same sums in another order: keys, and the d_k numbers of each, are shuffled."""
        generator = torch.Generator().manual_seed(order)
        keys = torch.randperm(self.key.shape[-2], generator=generator)
        inner = torch.randperm(self.key.shape[-1], generator=generator)

        def columns(dense: Tensor | None) -> Tensor | None:
            return dense if dense is None or dense.shape[-1] == 1 else dense[..., keys]

        return replace(
            self,
            query=self.query[..., inner],
            key=self.key[..., keys, :][..., inner],
            value=self.value[..., keys, :],
            bias=columns(self.bias),
            allowed=columns(self.allowed),
        )

    def run(self) -> PlainAttention:
        """The five steps as a person would write them in PyTorch, in the dtype of the inputs."""
        scale = self.query.shape[-1] ** -0.5 if self.scale is None else self.scale
        key, value = self.key, self.value
        if self.query.ndim > 2 and self.query.shape[-3] != key.shape[-3]:
            group = self.query.shape[-3] // key.shape[-3]
            key, value = key.repeat_interleave(group, -3), value.repeat_interleave(group, -3)
        scores = self.query @ key.mT * scale
        if self.softcap is not None:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        if self.bias is not None:
            scores = scores + self.bias.to(scores.dtype)
        if self.allowed is not None:
            scores = scores.masked_fill(~self.allowed, -torch.inf)
        logits = scores
        if self.sinks is not None:
            sink = self.sinks.to(scores.dtype)[:, None, None].expand(*scores.shape[:-1], 1)
            logits = torch.cat([scores, sink], -1)
        empty = torch.isneginf(logits).all(-1, keepdim=True)
        weights = logits.softmax(-1).masked_fill(empty, 0.0)[..., : scores.shape[-1]]
        return PlainAttention(scores, weights, weights @ value, logits.logsumexp(-1))


def plain_attention(query: Tensor, key: Tensor, value: Tensor, **rule: object) -> PlainAttention:
    """Attention in plain PyTorch, dense, in the dtype of the inputs: the path to be compared with.

    `rule` takes scale, softcap, bias, allowed (dense, True = may look) and sinks (heads,). Key and
    value heads are repeated where there are fewer of them than of query's.
    """
    return Call(query, key, value, **rule).run()


# ------------------------------------------------------------------------------------- judgements


def assert_context_accurate(ours: Tensor, plain: Tensor, truth: Tensor) -> None:
    """Hold a context (…, heads, n, d_v) to the rule, against one run of plain PyTorch."""
    _Judgement("context", ours, truth, dtype=ours.dtype).assert_against(plain)


def assert_logsumexp_accurate(
    ours: Tensor, plain: Tensor, truth: Tensor, *, dtype: torch.dtype
) -> None:
    """Hold a logsumexp (…, heads, n) to the rule; `dtype` is that of query, key and value."""
    _Judgement("logsumexp", ours, truth, dtype=dtype).assert_against(plain)


def assert_double(ours: Tensor, truth: Tensor, *, name: str = "result") -> None:
    """Hold any float64 tensor to 1e-12 of the largest number of the truth."""
    assert ours.dtype == torch.float64, f"{name}: expected float64, got {ours.dtype}"
    _Judgement(name, ours.flatten(), truth.flatten(), dtype=torch.float64).assert_against(truth)


class Yardstick:
    """Plain PyTorch's own error on one call, measured as often as a judgement needs it."""

    def __init__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        truth: PlainAttention | None = None,
        **rule: object,
    ) -> None:
        """Take the call; `truth` replaces plain float64 (give it where NaN or Inf are masked)."""
        self.call = Call(query.detach(), key.detach(), value.detach(), **rule)
        self.truth = self.call.double().run() if truth is None else truth
        self._runs = [self.call.run()]

    def assert_context(self, ours: Tensor) -> None:
        """Hold a context to the rule."""
        dtype = self.call.query.dtype
        assert ours.dtype == dtype, f"context: expected {dtype}, got {ours.dtype}"
        self._assert(_Judgement("context", ours, self.truth.context, dtype=dtype))

    def assert_logsumexp(self, ours: Tensor) -> None:
        """Hold a logsumexp to the rule."""
        dtype = self.call.query.dtype
        self._assert(_Judgement("logsumexp", ours, self.truth.logsumexp, dtype=dtype))

    def _assert(self, judgement: "_Judgement") -> None:
        for orders in (1, 8, 64):
            while len(self._runs) < orders:
                self._runs.append(self.call.reordered(len(self._runs)).run())
            failures = judgement.failures(*(getattr(run, judgement.name) for run in self._runs))
            if not failures:
                return
        raise AssertionError("\n".join(failures))


@dataclass(frozen=True, eq=False)
class _Judgement:
    """One result beside its truth. For a context the last two axes are one group, else the last."""

    name: str
    ours: Tensor
    truth: Tensor
    dtype: torch.dtype

    def __post_init__(self) -> None:
        expected, got = tuple(self.truth.shape), tuple(self.ours.shape)
        assert got == expected, f"{self.name}: expected shape {expected}, got {got}"
        tests = {"NaN": torch.isnan, "+inf": torch.isposinf, "-inf": torch.isneginf}
        for what, test in tests.items():
            wrong = [tuple(w) for w in (test(self.ours) != test(self.truth)).nonzero().tolist()]
            places = "; ".join(f"{w}: {self._pair(w)}" for w in wrong[:_SHOWN])
            assert not wrong, f"{self.name}: {what} wrong or missing at {len(wrong)}: {places}"

    def assert_against(self, *plain: Tensor) -> None:
        """Raise if the rule does not hold."""
        failures = self.failures(*plain)
        assert not failures, "\n".join(failures)

    def failures(self, *plain: Tensor) -> list[str]:
        """What the table at the top of this file finds wrong, given runs of plain PyTorch."""
        top = self._group_max(self.truth.detach().double().abs())
        if self.name == "logsumexp":
            top = top.clamp(min=1.0)
        if self.dtype == torch.float64:
            return self._past(1e-12 * top, "1e-12 · top")
        if self.name == "logsumexp" and self.dtype != torch.float32:
            return self._past(5e-5 * top, "5e-5 · top")
        eps = _EPS[self.dtype]
        e_plain = torch.stack([self._error(run) for run in plain]).amax(0)
        bound = 1.5 * e_plain + 2 * eps * top
        found = self._past(bound, f"1.5 · E(plain) + 2 · {eps:.1e} · top", e_plain=e_plain)
        if self.dtype != torch.float32:
            found += self._past(eps * top, f"{eps:.1e} · top")
        return found

    def _past(self, bound: Tensor, rule: str, *, e_plain: Tensor | None = None) -> list[str]:
        """A line for each group past its bound: both errors, the bound, and the worst place."""
        error = self._error(self.ours)
        wrong = [tuple(where) for where in (error > bound).nonzero().tolist()]
        if not wrong:
            return []
        kind = f"{self.name}, {self.dtype}"
        lines = [f"{kind}: {len(wrong)} of {error.numel()} (batch, head) past {rule}"]
        for group in wrong[:_SHOWN]:
            gap = self._gap(self.ours)[group]
            place = tuple(int(i) for i in torch.unravel_index(gap.argmax(), gap.shape))
            beside = "" if e_plain is None else f", E(plain) {float(e_plain[group]):.2e}"
            lines.append(
                f"  {group}: E(ours) {float(error[group]):.2e} > {float(bound[group]):.2e}"
                f"{beside}; worst at {place}: {self._pair((*group, *place))}"
            )
        return lines

    def _pair(self, where: tuple[int, ...]) -> str:
        return f"{float(self.ours[where]):.9g}, truth {float(self.truth[where]):.9g}"

    def _error(self, x: Tensor) -> Tensor:
        """E(x) for each (batch, head)."""
        return self._group_max(self._gap(x))

    def _gap(self, x: Tensor) -> Tensor:
        gap = (x.detach().double() - self.truth.detach().double()).abs()
        return torch.where(torch.isfinite(gap), gap, 0.0)

    def _group_max(self, x: Tensor) -> Tensor:
        x = torch.where(torch.isfinite(x), x, 0.0)
        flat = x.flatten(-2) if self.name == "context" else x
        return torch.nn.functional.pad(flat, (0, 1)).amax(-1)  # an empty group has no error
