"""Judging the numbers that say how positions work; imports no torch.

Each judge takes a name and a value and gives no line or one: lines of several judges are joined
with ``+``, and :func:`refuse` makes one error of them.
"""

import math
from collections.abc import Sequence

from clearhead.errors import InputError, gathered

__all__ = ["positive", "refuse", "whole"]


def positive(name: str, value: object) -> list[str]:
    """Say so if a value is not a positive finite number.

    Args:
        name: what the value is called where it was given.
        value: what was given.

    Returns:
        No line, or one.
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf:
        return []
    return [f"{name} must be a positive finite number, got {value!r}"]


def whole(name: str, value: object, *, least: int = 1) -> list[str]:
    """Say so if a value is not a whole number, or too small.

    Args:
        name: what the value is called where it was given.
        value: what was given.
        least: the smallest number that will do.

    Returns:
        No line, or one.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return []
    expected = "a positive whole number" if least == 1 else f"a whole number, at least {least}"
    return [f"{name} must be {expected}, got {value!r}"]


def refuse(owner: object, faults: Sequence[str]) -> None:
    """Raise one error that holds all faults; without faults do nothing.

    Args:
        owner: the value they are faults of; its class is named.
        faults: one line a fault.

    Raises:
        InputError: there is a fault.
    """
    if faults:
        raise InputError(gathered(type(owner).__name__, faults))
