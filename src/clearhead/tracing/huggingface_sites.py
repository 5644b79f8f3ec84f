"""Where a transformers model attends to text: which of its modules, and how they are numbered.

Found by what they are called, and held against what runs: a module called attention that ran and
did not reach our function is an error, and so is attention anywhere else.
"""

import inspect
import re
from collections.abc import Mapping
from typing import Any, Literal, cast

from torch import nn

from clearhead.errors import TraceError
from clearhead.pipeline.tap import Site
from clearhead.tracing.models import is_encoder_decoder

__all__ = ["asks_interface", "attention_sites"]

Kind = Literal["self", "cross", "encoder"]

_ATTENTION = re.compile(r"Attention(?!.*Output)|MLA$")
#: What mixers of tokens that make no weights over positions may be called besides attention.
_OTHER = re.compile(r"Linear|Lightning|Delta|Mamba")
#: What attention to another text is called, below its layer.
_CROSS = re.compile(r"cross|enc_?dec|encoder_att", re.IGNORECASE)


def attention_sites(model: Any) -> dict[Site, nn.Module]:
    """The modules that attend within the text a model reads, or within and between its two texts.

    Those of a model that also sees or hears are left out where its text goes through a part of its
    own: they do not run for a text.

    Args:
        model: a transformers model.

    Returns:
        The innermost modules called attention, in the model's order. A layer's number is its place
        in its stack, where no two have the same, else their order.

    Raises:
        TraceError: there are none.
    """
    if is_encoder_decoder(model):
        parts: Mapping[Kind, Any] = {"encoder": model.get_encoder(), "self": model.get_decoder()}
        found: dict[Site, nn.Module] = {}
        for kind, part in parts.items():
            own = _named(model, part)
            cross = {name: module for name, module in own.items() if _is_cross(name, module)}
            alone = {name: module for name, module in own.items() if name not in cross}
            found |= _numbered(alone, kind)
            found |= _numbered(cross, "cross")
        if missing := {"encoder", "self", "cross"} - {site.kind for site in found}:
            raise TraceError(
                f"{type(model).__name__} cannot be traced: no attention was found of the kinds "
                f"{', '.join(sorted(missing))} that an encoder-decoder has"
            )
        return found
    own = _named(model, model.get_decoder()) or _named(model, model)
    found = _numbered({name: one for name, one in own.items() if not _is_cross(name, one)}, "self")
    if not found:
        raise TraceError(
            f"{type(model).__name__} cannot be traced: none of its modules is called attention"
        )
    return found


def _named(model: nn.Module, part: nn.Module) -> dict[str, nn.Module]:
    """The innermost modules called attention (or MLA) of a part, by their names in the model."""
    inside = set(part.modules())
    modules: dict[str, nn.Module] = dict(cast("Any", model).named_modules())
    named = [
        name
        for name, module in modules.items()
        if module in inside and _ATTENTION.search(type(module).__name__)
    ]
    inner = [name for name in named if not any(other.startswith(f"{name}.") for other in named)]
    return {name: modules[name] for name in inner if not _mixes_otherwise(modules[name])}


def _mixes_otherwise(module: nn.Module) -> bool:
    """Whether a module called attention is a recurrence or the like, as hybrids have."""
    return bool(_OTHER.search(type(module).__name__)) and not asks_interface(module)


def asks_interface(module: nn.Module) -> bool:
    """Whether a module's code asks transformers' interface for its attention.

    Args:
        module: the module.
    """
    forward: Any = inspect.unwrap(cast("Any", type(module)).forward)
    code = getattr(forward, "__code__", None)
    return code is not None and "ALL_ATTENTION_FUNCTIONS" in code.co_names


def _is_cross(name: str, module: nn.Module) -> bool:
    """Whether a module attends to another text, by what it is called below its layer."""
    below = re.split(r"\.\d+\.", name)[-1]
    return bool(_CROSS.search(below) or _CROSS.search(type(module).__name__))


def _numbered(modules: Mapping[str, nn.Module], kind: Kind) -> dict[Site, nn.Module]:
    places = [re.search(r"\.(\d+)(?:\.|$)", name) for name in modules]
    numbers = [int(place[1]) for place in places if place is not None]
    if len(set(numbers)) < len(modules):
        numbers = list(range(len(modules)))
    return {
        Site(number, kind, name): module
        for number, (name, module) in zip(numbers, modules.items(), strict=True)
    }
