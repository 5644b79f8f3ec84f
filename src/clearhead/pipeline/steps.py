"""A small attention printed as its five steps, to be checked by hand."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from clearhead.pipeline.matrix import AttentionMatrix, ScoreMatrix

__all__ = ["five_steps"]

#: The largest attention that is printed: queries, keys, and heads over all batch rows.
ROWS, COLUMNS, HEADS = 8, 8, 2


def five_steps(
    weights: "AttentionMatrix", scores: "ScoreMatrix", raw: "ScoreMatrix", *, context: Tensor
) -> str | None:
    """Write a small attention as raw scores, scores, logsumexp, weights and context.

    Args:
        weights: A.
        scores: S.
        raw: scale · Q Kᵀ.
        context: C.

    Returns:
        The text, or None where the attention is too large to be read.
    """
    batch, heads, rows, _ = weights.query.shape
    columns = weights.bound.keys
    if not (0 < rows <= ROWS and 0 < columns <= COLUMNS and 0 < batch * heads <= HEADS):
        return None
    with torch.no_grad():
        steps = _steps(weights, scores, raw, context.reshape(batch, heads, rows, -1))
        blocks = [
            "\n".join(_block(steps, b, h, title=_title(b, h, batch, heads)))
            for b in range(batch)
            for h in range(heads)
        ]
    return "\n\n".join(blocks)


def _title(b: int, h: int, batch: int, heads: int) -> str:
    parts = [f"batch row {b}"] * (batch > 1) + [f"head {h}"] * (heads > 1)
    return ", ".join(parts)


def _steps(
    weights: "AttentionMatrix", scores: "ScoreMatrix", raw: "ScoreMatrix", context: Tensor
) -> list[tuple[str, list[str], Tensor]]:
    """Title, a note a head, and numbers of each step."""
    bound = weights.bound
    made = [
        name
        for name, there in (("soft-capped", bound.softcap), ("biased", bound.bias))
        if there is not None
    ]
    made += ["masked"] if bound.mask is not None else []
    shape = weights.query.shape[:2]
    plain = [""] * shape[1]
    level, sinks = "3. logsumexp    L = log Σⱼ exp(Sᵢⱼ)", plain
    if bound.sinks is not None:
        level = "3. logsumexp    L = log(Σⱼ exp(Sᵢⱼ) + exp(sink))"
        sinks = [f"sink {_number(float(sink)).strip()}" for sink in bound.sinks]

    def whole(matrix: "ScoreMatrix") -> Tensor:
        dense = matrix.to_dense()
        return dense.reshape(*shape, *dense.shape[-2:])

    return [
        (f"1. raw scores   {bound.scale:.4g} · Q Kᵀ", plain, whole(raw)),
        (
            "2. scores       S",
            [", ".join(made) or "nothing capped, biased or masked"] * shape[1],
            whole(scores),
        ),
        (level, sinks, weights.logsumexp.unsqueeze(-1)),
        ("4. weights      A = exp(S − L)", plain, whole(weights)),
        ("5. context      C = A · V", plain, context),
    ]


def _block(steps: list[tuple[str, list[str], Tensor]], b: int, h: int, *, title: str) -> list[str]:
    lines = [title] if title else []
    for name, notes, values in steps:
        lines.append(f"{name}   ({notes[h]})" if notes[h] else name)
        lines += ["   " + " ".join(_number(float(x)) for x in row) for row in values[b, h]]
    return lines


def _number(x: float) -> str:
    if x == -torch.inf:
        return "    −inf"
    return f"{x:8.3f}".replace("-", "−") if abs(x) < 10_000 else f"{x:8.1e}".replace("-", "−")
