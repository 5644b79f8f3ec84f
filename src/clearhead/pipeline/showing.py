"""How values show themselves: what draws them stands above, and is found by name when asked.

Imports point downwards only. A trace that writes its page, or a matrix that a notebook shows, needs
what lies above it; it asks for that by name, at the moment a person wants to see.
"""

from importlib import import_module
from typing import Any

__all__ = ["ShowsItself", "shower"]


def shower(name: str) -> Any:
    """A module of the report, fetched now.

    Args:
        name: its name within ``clearhead.report``.
    """
    return import_module(f"clearhead.report.{name}")


class ShowsItself:
    """A value that notebooks show as HTML, and as its text where that cannot be made."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        return shower("notebook").html_of(self)
