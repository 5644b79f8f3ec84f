"""Which layers, tokens and quantities a person means by what they gave."""

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from operator import index
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from clearhead.errors import InputError

__all__ = ["chosen_layers", "chosen_queries", "integer", "integers", "wanted"]

#: What ``layers=`` and ``queries=`` may be.
Choice = slice | Collection[int] | Tensor


def integer(given: object) -> int | None:
    """Read one integer.

    Args:
        given: whatever a person gave.

    Returns:
        The integer; None for a truth value, a float or anything else that is no integer.
    """
    if isinstance(given, bool | np.bool_) or getattr(given, "dtype", None) == torch.bool:
        return None
    try:
        return index(cast("Any", given))
    except (TypeError, ValueError, RuntimeError):  # PyTorch's own words for what is no integer
        return None


def integers(given: object, *, of: Sequence[int], name: str) -> list[int]:
    """Read a collection of integers, or a slice.

    Args:
        given: whatever a person gave.
        of: what a slice is taken of.
        name: the argument's name, for the error.

    Returns:
        The integers, in the order given.

    Raises:
        InputError: it is no collection, or holds something else.
    """
    if isinstance(given, slice):
        try:
            return list(of[given])
        except TypeError as error:
            raise InputError(f"{name} must be a slice of integers, got {given}") from error
    entries = _entries(given)
    if entries is None:
        alone = integer(given)
        advice = "" if alone is None else f"; give {name}=[{alone}] for that one alone"
        raise InputError(
            f"{name} must be a slice or a collection of integers, got {given!r}{advice}"
        )
    if str(getattr(given, "dtype", "")).removeprefix("torch.") == "bool":
        places = "nonzero().flatten()" if isinstance(given, Tensor) else "nonzero()[0]"
        raise InputError(
            f"{name} must hold integers, got truth values: give the places where they are True, "
            f"by .{places}"
        )
    found = [integer(entry) for entry in entries]
    if None in found:
        raise InputError(f"{name} must hold integers, got {given!r}")
    return [entry for entry in found if entry is not None]


def _entries(given: object) -> list[object] | None:
    if not isinstance(given, Collection) or isinstance(given, str | bytes):
        return None
    try:
        return list(cast("Collection[object]", given))
    except TypeError:  # an array without axes
        return None


def chosen_queries(queries: Choice, count: int) -> list[int]:
    """The tokens whose Q and L are kept.

    Args:
        queries: a slice or indices; negative ones count from the end.
        count: how many tokens there are.

    Returns:
        Places among the tokens, at least one, in the order given.

    Raises:
        InputError: none is chosen, one lies outside, or they are no indices.
    """
    chosen = integers(queries, of=range(count), name="queries")
    if not chosen or not all(-count <= place < count for place in chosen):
        raise InputError(f"queries must choose some of the {count} tokens, got {queries}")
    return [place % count for place in chosen]


def chosen_layers(
    layers: Choice | None, stacks: Mapping[str, Sequence[int]]
) -> dict[str, set[int]]:
    """The layers that are kept of each stack: one, or those of an encoder and a decoder.

    Args:
        layers: a slice, taken of each stack, or layers by number, each kept where there is one of
            that number; None is all.
        stacks: the numbers of each stack's layers, by its name; one that stands alone needs none.

    Returns:
        The numbers of the chosen layers, at least one in all.

    Raises:
        InputError: none is chosen, one is not there, or they are no numbers.
    """
    if layers is None:
        return {name: set(known) for name, known in stacks.items()}
    asked = {name: set(integers(layers, of=of, name="layers")) for name, of in stacks.items()}
    chosen = {name: asked[name] & set(known) for name, known in stacks.items()}
    beyond = sorted(set(chain(*asked.values())) - set(chain(*stacks.values())))
    if beyond or not any(chosen.values()):
        there = " or ".join(
            f"{len(known)} {f'{name} layers'.strip()} (0 to {max(known)})"
            for name, known in stacks.items()
        )
        raise InputError(f"layers must choose some of the model's {there}, got {beyond or layers}")
    return chosen


def wanted(keep: Collection[str], keepable: Sequence[str]) -> frozenset[str]:
    """The quantities that are kept beside those that always are.

    Args:
        keep: their names.
        keepable: the names there are.

    Returns:
        The names.

    Raises:
        InputError: a name is none of those, or no collection of names was given.
    """
    names = _entries(keep)
    if names is None:
        raise InputError(
            f"keep must be a collection of names, some of {', '.join(keepable)}; got {keep!r}"
        )
    unknown = [name for name in names if name not in keepable]
    if unknown:
        raise InputError(
            f"keep must name some of {', '.join(keepable)}; got {', '.join(map(str, unknown))}"
        )
    return frozenset(keep)
