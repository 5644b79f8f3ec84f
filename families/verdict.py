"""What a trace of one family is worth: beside the same model's own run, or why there is none."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import PreTrainedModel

import clearhead as ch
from families.eager import EagerRun, eager_run
from families.tiny import NotMadeError, class_name, target, text, tiny_model

__all__ = ["KINDS", "TOLERANCE", "Kind", "Verdict", "parts", "trace", "verdict"]

Kind = Literal["traced", "refused", "not made", "WRONG"]
KINDS: tuple[Kind, ...] = ("WRONG", "traced", "refused", "not made")

#: How far a traced number may lie from the eager one's, in float32: rounding, and no more.
TOLERANCE = 1e-4

_STACKS = ("encoder", "decoder", "cross")


@dataclass(frozen=True)
class Verdict:
    """What came of one family.

    Attributes:
        family: its model type.
        task: "causal", "masked" or "seq2seq".
        class_name: the class of its models.
        kind: "traced", "refused", "not made", or "WRONG": traced, and not what the model made.
        layers: how many attention layers were seen.
        why: why it was refused, not made or wrong; for a traced one, what was not compared.
        error: the largest difference of a traced A, C or logit from eager's; None without one.
    """

    family: str
    task: str
    class_name: str
    kind: Kind
    layers: int = 0
    why: str = ""
    error: float | None = None


def verdict(family: str, task: str) -> Verdict:
    """Make a tiny model of a family, trace it, and compare it with its own eager run.

    Args:
        family: a model type of transformers.
        task: "causal", "masked" or "seq2seq".

    Returns:
        What came of it; no failure of a family is raised.
    """
    about = {"family": family, "task": task, "class_name": class_name(family, task)}
    try:
        model = tiny_model(family, task)
    except NotMadeError as error:
        return Verdict(**about, kind="not made", why=str(error))
    eager = eager_run(model, text())
    try:
        with torch.no_grad():
            traced = trace(model, text())
    except ch.ClearheadError as error:
        return Verdict(**about, kind="refused", why=_one_line(error))
    except Exception as error:  # noqa: BLE001  a family is refused by name, or this is a bug: WRONG
        return Verdict(**about, kind="WRONG", why=f"{type(error).__name__}: {_one_line(error)}")
    layers = sum(len(part.layers) for part, _ in parts(traced))
    error, why = _compared(traced, eager)
    kind: Kind = "traced" if error <= TOLERANCE else "WRONG"
    return Verdict(**about, kind=kind, layers=layers, why=why, error=error)


def trace(model: PreTrainedModel, ids: Tensor, **more: Any) -> Any:
    """A trace of a text, and of its target where the model has a decoder beside an encoder."""
    if model.config.is_encoder_decoder:
        more["target"] = target(ids)
    return ch.trace(model, ids, **more)


def _compared(traced: Any, eager: EagerRun) -> tuple[float, str]:
    """The largest difference, and what was not compared."""
    errors, faults = [0.0], list[str]()
    found = (traced.decoder if hasattr(traced, "cross") else traced).next_logits
    if found is None:
        faults.append("logits were not compared: its trace gives none")
    else:
        errors.append(_difference(found, eager.output.logits[0, -1]))
    for part, name in parts(traced):
        calls = eager.stack(name)
        if len(calls) != len(part.layers):
            faults.append(
                f"weights were not compared: eager attention ran {len(calls)} times for "
                f"{len(part.layers)} {name} layers"
            )
            continue
        for layer, call in zip(part.layers, calls, strict=True):
            errors.append(_difference(part[layer].weights.to_dense(), call.weights[0]))
            errors.append(_difference(part[layer].context, call.context[0]))
    return max(errors), "; ".join(faults)


def parts(traced: Any) -> Iterator[tuple[Any, str]]:
    """Traces by layer, each with its name: three of an encoder-decoder, else "all"."""
    if not hasattr(traced, "cross"):
        yield traced, "all"
        return
    for stack in _STACKS:
        yield getattr(traced, stack), stack


def _difference(ours: Tensor, theirs: Tensor) -> float:
    if ours.shape != theirs.shape or not bool(theirs.isfinite().all()):
        return torch.inf
    gap = float((ours.double() - theirs.double()).abs().max())
    return gap if gap == gap else torch.inf  # noqa: PLR0124  NaN alone differs from itself


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
