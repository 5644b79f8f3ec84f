"""A trace of the end of a text whose beginning a model has read: how much a cache spares it."""

import inspect
from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Int
from torch import Tensor

from clearhead.errors import InputError, gathered
from clearhead.tracing.models import SelfTapped

__all__ = ["HeldText", "held_tokens"]


@runtime_checkable
class HeldText(Protocol):
    """Keys and values of what a model has read, as clearhead's KVCache holds them."""

    lengths: tuple[int, ...]
    capacity: int

    def losses(self, end: int) -> Iterator[str]:
        """Say why the keys of all tokens would not be there, as they were made, at a length."""
        ...


def held_tokens(cache: object, *, model: object, ids: Int[Tensor, "batch n"]) -> int:
    """How many of a text's first tokens need not be read.

    Args:
        cache: what was read before, or None.
        model: the model that is to read the rest.
        ids: the whole text.

    Returns:
        The number; 0 without a cache.

    Raises:
        InputError: the model cannot go on from there; all faults at once.
    """
    if cache is None:
        return 0
    if not isinstance(cache, HeldText):
        raise InputError(f"cache must be a clearhead KVCache, got {type(cache).__name__}")
    faults = list(_faults(cache, model, ids))
    if faults:
        raise InputError(gathered("cache: this text cannot be traced from where it ends", faults))
    return cache.lengths[0]


def _faults(cache: HeldText, model: object, ids: Tensor) -> Iterator[str]:
    rows, tokens = ids.shape
    if not _continues(model):
        yield f"{type(model).__name__} reads no KVCache: trace it without cache="
        return
    if rows != 1 or len(cache.lengths) != 1:
        yield f"one sequence is traced, got {rows} of ids and {len(cache.lengths)} of the cache"
        return
    held = cache.lengths[0]
    if held >= tokens:
        yield (
            f"ids must be the whole text, that of the cache included, and at least one token more "
            f"than the {held} it holds, got {tokens}; cache.crop(length) forgets some"
        )
        return
    if tokens > cache.capacity:
        yield (
            f"it holds at most {cache.capacity} tokens, and the text has {tokens}: make it with a "
            "larger capacity"
        )
    yield from (f"{loss}: trace without cache=" for loss in cache.losses(tokens))


def _continues(model: object) -> bool:
    """Whether a model sends its quantities through the tap itself and reads on from a cache."""
    if not isinstance(model, SelfTapped):
        return False
    forward: Any = getattr(model, "forward", model)
    return "cache" in inspect.signature(forward).parameters
