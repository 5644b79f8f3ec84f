"""A model as plain objects, for generation: the same forward code, without what a module looks up.

A step reads every weight once, which leaves the processor's caches with nothing else in them. What
PyTorch then looks up to call one module (its hooks of six kinds, its parameters in a dict of their
own) takes longer than many of the products: of a step of SmolLM2 in bfloat16, 5 to 10 %.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, cast

from torch import nn

from clearhead.transformer.attention import MultiHeadAttention
from clearhead.transformer.embedding import Embedding
from clearhead.transformer.feed_forward import ExpertFeedForward, FeedForward
from clearhead.transformer.layers import Layer
from clearhead.transformer.linear import Linear
from clearhead.transformer.logits import Logits
from clearhead.transformer.model import Transformer
from clearhead.transformer.norms import RMSNorm
from clearhead.transformer.stack import Stack

__all__ = ["KINDS", "plain"]

#: What is made plain; a module of any other kind stays what it is, and is called as ever. The
#: forward code of these uses neither ``super()`` nor ``training`` nor methods of ``nn.Module``.
KINDS = (
    *(Transformer, Stack, Layer, MultiHeadAttention, FeedForward, ExpertFeedForward),
    *(Linear, RMSNorm, Embedding, Logits),
)


def plain(module: nn.Module) -> Any:
    """The same as a plain object: its attributes, parameters and parts, and its class's methods.

    Args:
        module: a model, or a part of one.

    Returns:
        What can be called as the module can, hooks apart. It shares all tensors; a parameter or
        part that is replaced in the module later stays what it was. A part that is of another kind,
        compiled, or has a forward of its own is that part itself.
    """
    return _plain(module, cache(_plain_class))


def _plain(module: nn.Module, plain_class: Callable[[type[nn.Module]], type]) -> Any:
    if type(module) is nn.ModuleList:
        return [_plain(part, plain_class) for part in module]
    own: dict[str, Any] = vars(module)
    if type(module) not in KINDS or not own.keys().isdisjoint(_OWN_CALLS):
        return module
    parts: dict[str, nn.Module | None] = own["_modules"]
    made = cast("object", object.__new__(plain_class(type(module))))
    vars(made).update(
        {name: value for name, value in own.items() if name not in _OF_EVERY_MODULE},
        **own["_parameters"],
        **own["_buffers"],
        **{
            name: None if part is None else _plain(part, plain_class)
            for name, part in parts.items()
        },
    )
    return made


_OF_EVERY_MODULE = vars(nn.Module()).keys()
#: What a single module has that is called otherwise than its class says.
_OWN_CALLS = ("forward", "_compiled_call_impl")


def _plain_class(kind: type[nn.Module]) -> type:
    """The class without ``nn.Module`` below it; calling it is its forward."""
    bases = kind.__mro__[: kind.__mro__.index(nn.Module)]
    names = {name: value for base in reversed(bases) for name, value in vars(base).items()}
    for unwanted in ("__dict__", "__weakref__", "__init__"):
        names.pop(unwanted, None)
    if "forward" in names:
        names["__call__"] = names["forward"]
    return type(kind.__name__, (), names)
