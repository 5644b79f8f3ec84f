"""What can be wrong with a score rule, all of it at once."""

import math
from numbers import Real
from typing import TYPE_CHECKING, SupportsIndex, cast

import torch
from torch import Tensor

from clearhead.masks import Mask
from clearhead.positions.position_bias import PositionBias

if TYPE_CHECKING:
    from clearhead.pipeline.rule import ScoreRule

__all__ = ["four_axes", "rule_faults"]


def rule_faults(
    rule: "ScoreRule", full: tuple[int, int, int, int], *, device: torch.device | None = None
) -> list[str]:
    """Everything about a rule that does not fit a call, but for its mask.

    Args:
        rule: the rule.
        full: (batch, heads, n, m) of the call.
        device: where the query is; None is not asked.

    Returns:
        One line a fault; none where it fits. No value of a tensor is read.
    """
    faults = _kinds(rule)
    if faults:
        return faults
    if rule.softcap is not None and not 0 < rule.softcap < math.inf:
        faults.append(f"softcap must be finite and above 0, got {rule.softcap}; None is no cap")
    if rule.scale is not None and not math.isfinite(rule.scale):
        faults.append(f"scale must be finite, got {rule.scale}")
    faults += _bias_faults(rule, full)
    if rule.sinks is not None and tuple(rule.sinks.shape) != (full[1],):
        got = tuple(rule.sinks.shape)
        faults.append(f"sinks must have one logit a head, shape ({full[1]},), got {got}")
    if rule.sinks is not None and not rule.sinks.is_floating_point():
        faults.append(f"sinks must be floating point, got {rule.sinks.dtype}")
    faults += [
        f"{name} must be on query's device, {device}, got {given.device}"
        for name, given in (("bias", rule.bias), ("sinks", rule.sinks))
        if device is not None and isinstance(given, Tensor) and given.device != device
    ]
    start = rule.query_start
    if isinstance(start, Tensor) and (
        start.is_floating_point()
        or start.dtype == torch.bool
        or tuple(start.shape) not in ((), (full[0],))
    ):
        faults.append(
            f"query_start must be an integer or integers ({full[0]},), one a batch row, "
            f"got {start.dtype} of shape {tuple(start.shape)}"
        )
    return faults


def _bias_faults(rule: "ScoreRule", full: tuple[int, int, int, int]) -> list[str]:
    faults: list[str] = []
    bias = rule.bias
    _, heads, queries, keys = full
    if isinstance(bias, PositionBias):
        if bias.heads != heads:
            faults.append(f"bias must have as many heads as query, {heads}, got {bias!r}")
        if rule.query_start is None and queries != keys:
            several = f"{queries} queries can stand at several places among {keys} keys"
            what = "the position of the first query: keys - queries where they are the last tokens"
            faults.append(f"{bias!r}: expected query_start=, because {several}; give {what}")
        return faults
    if bias is not None and not _broadcasts(bias.shape, full):
        faults.append(
            f"bias must broadcast to (batch, heads, n, m) = {full}, got {tuple(bias.shape)}"
        )
    if bias is not None and not bias.is_floating_point():
        faults.append(f"bias must be floating point, got {bias.dtype}; True is for mask=")
    return faults


def _kinds(rule: "ScoreRule") -> list[str]:
    """Values that are not of the kind their place asks for."""
    wanted: dict[str, tuple[object, str]] = {
        "scale": (Real, "a number"),
        "softcap": (Real, "a number"),
        "bias": ((Tensor, PositionBias), "a tensor or a position bias"),
        "sinks": (Tensor, "a tensor"),
        "mask": (Mask, "a clearhead mask (Mask.from_tensor makes one, where True may look)"),
        "query_start": ((SupportsIndex, Tensor), "an integer, or one a batch row"),
        "key_start": (SupportsIndex, "an integer"),
    }
    given = {name: getattr(rule, name) for name in wanted}
    return [
        f"{name} must be {wanted[name][1]}, got {type(value).__name__}"
        for name, value in given.items()
        if _is_of_another_kind(name, value, cast("type", wanted[name][0]))
    ]


def _is_of_another_kind(name: str, value: object, kind: type) -> bool:
    if value is None:
        return name == "key_start"  # it alone has a number for its default
    # True is an integer to Python, and no place of a position
    return not isinstance(value, kind) or (name.endswith("_start") and isinstance(value, bool))


def four_axes(shape: torch.Size) -> tuple[int, ...]:
    """A shape with axes of size 1 before it, four in all."""
    return (1,) * (4 - len(shape)) + tuple(shape)


def _broadcasts(shape: torch.Size, full: tuple[int, ...]) -> bool:
    fits = zip(four_axes(shape), full, strict=False)
    return len(shape) <= len(full) and all(have in (1, want) for have, want in fits)
