"""A model's own eager run, and what each of its attention calls made: A and C by transformers."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from families.tiny import inputs

__all__ = ["Call", "EagerRun", "eager_run"]

#: How the name of the plain attention ends in every modeling file of transformers that has one.
_NAME = "eager_attention_forward"


@dataclass(frozen=True, eq=False)
class Call:
    """What one attention call made.

    Attributes:
        weights: A, (batch, heads, n, m).
        context: C, (batch, heads, n, d_v).
    """

    weights: Tensor
    context: Tensor


@dataclass(frozen=True, eq=False)
class EagerRun:
    """A model's own run.

    Attributes:
        output: what the model gave.
        calls: what its attention calls made, in the order of its modules.
        encoder: how many of them, from the first, are an encoder's; 0 where there is none.
    """

    output: Any
    calls: tuple[Call, ...]
    encoder: int = 0

    def stack(self, name: str) -> list[Call]:
        """The calls of an attention: "encoder", "decoder" or "cross"; "all" of a model of one.

        A decoder's are told apart by what they look at: a target's own tokens, as many as rows, or
        a source's, which are more.
        """
        if name == "encoder":
            return list(self.calls[: self.encoder])
        if name == "all":
            return list(self.calls)
        rest = self.calls[self.encoder :]
        crossed = [call.weights.shape[-1] != call.weights.shape[-2] for call in rest]
        wanted = name == "cross"
        return [call for call, across in zip(rest, crossed, strict=True) if across == wanted]


def eager_run(model: PreTrainedModel, ids: Tensor, **more: Any) -> EagerRun:
    """Run a model by its eager implementation where it has several; that is how it is left.

    Args:
        model: the model.
        ids: token ids, (batch, n).
        more: further arguments of the model.

    Returns:
        What the model gave, and what each attention module made. Layers that compute attention
        themselves are not among them.

    Cost: A of every layer is formed: memory quadratic in the text.
    """
    if model._can_set_attn_implementation():  # noqa: SLF001  whether it has several
        model.set_attn_implementation("eager")
    made: dict[nn.Module, list[Call]] = {}
    with torch.no_grad(), _watched(model, made):
        output = model(**inputs(model, ids), **more)
    source = model.get_encoder() if model.config.is_encoder_decoder else None
    inside = set() if source is None else set(source.modules())
    called = [module for module in model.modules() if module in made]
    return EagerRun(
        output,
        tuple(call for module in called for call in made[module]),
        encoder=sum(len(made[module]) for module in called if module in inside),
    )


@contextmanager
def _watched(model: PreTrainedModel, made: dict[nn.Module, list[Call]]) -> Generator[None]:
    """Note what the plain attention of every modeling file that a model is made of gives."""
    classes = {base for module in model.modules() for base in type(module).__mro__}
    files = {sys.modules[each.__module__] for each in classes}
    before = [
        (file, name, plain)
        for file in files
        for name, plain in vars(file).items()
        if name.endswith(_NAME)
    ]
    for file, name, plain in before:
        setattr(file, name, _noting(plain, made))
    try:
        yield
    finally:
        for file, name, plain in before:
            setattr(file, name, plain)


def _noting(
    plain: Callable[..., tuple[Tensor, Tensor]], made: dict[nn.Module, list[Call]]
) -> Callable[..., tuple[Tensor, Tensor]]:
    def noting(
        module: nn.Module, query: Tensor, key: Tensor, value: Tensor, *more: Any, **rule: Any
    ) -> tuple[Tensor, Tensor]:
        given, weights = plain(module, query, key, value, *more, **rule)
        context = given.transpose(1, 2)
        rows = weights
        if hasattr(module, "sinks") and bool((weights.sum(-1) > 0.99).all()):
            rows = _with_sinks(weights, value, context)
        made.setdefault(module, []).append(Call(rows, context))
        return given, weights

    return noting


def _with_sinks(weights: Tensor, value: Tensor, context: Tensor) -> Tensor:
    """A as it made C, where a sink shortened C afterwards: each row shortened likewise."""
    group = weights.shape[1] // value.shape[1]
    mixed = weights.double() @ value.repeat_interleave(group, 1).double()
    share = (mixed * context.double()).sum(-1) / mixed.square().sum(-1)
    return (weights.double() * share[..., None]).to(weights.dtype)
