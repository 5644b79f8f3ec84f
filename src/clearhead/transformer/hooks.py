"""Whether somebody looks on: the hooks that PyTorch runs before and after a module's forward."""

from collections.abc import Callable, Iterator
from typing import Any, cast

from torch import nn

__all__ = ["hooked", "hooks_of"]


def hooked(module: nn.Module) -> bool:
    """Whether a hook looks at a module itself, its parts apart.

    Args:
        module: the module.
    """
    return any(_hooks(module))


def hooks_of(module: nn.Module) -> Callable[[], bool]:
    """What tells, at once and at any time, whether a hook looks at a module or a part of it.

    Args:
        module: the module; its parts are those it has now.

    Returns:
        A function that says whether there is one now, those on all modules included.

    Cost: one look at two dicts a part each time it is asked.
    """
    kept = [hooks for part in module.modules() for hooks in _hooks(part)]
    of_all = cast("Any", nn.modules.module)._has_any_global_hook  # noqa: SLF001  no public way
    return lambda: any(kept) or of_all()


def _hooks(module: nn.Module) -> Iterator[object]:
    """Its hooks of either kind, as PyTorch keeps them."""
    for kind in ("_forward_hooks", "_forward_pre_hooks"):
        yield vars(module)[kind]
