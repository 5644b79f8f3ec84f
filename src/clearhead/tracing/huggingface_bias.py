"""T5's bias as transformers' layers hand it on, without the n×m numbers they would write out.

The first layer of a stack makes the bias and hands it to the others untouched, so that any object
reaches our attention function: while a model is watched that is a :class:`T5RelativeBias` with the
layer's own table. Cross-attention, which has none, would hand on n×m zeros.
"""

import inspect
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, cast

from torch import Tensor, nn

from clearhead.positions.bias import T5RelativeBias
from clearhead.positions.position_bias import PositionBias
from clearhead.tracing.huggingface_sites import asks_interface

__all__ = ["bias_of", "lazy_biases"]


class _NoBias:
    """Stands where a layer would otherwise make a bias of zeros."""


_NO_BIAS = _NoBias()


def bias_of(module: nn.Module, handed: object) -> Tensor | PositionBias | None:
    """What a layer adds to its scores.

    Args:
        module: the attention module.
        handed: what it handed to our function as ``position_bias``.

    Returns:
        The bias; None where it is none, or zeros that the layer wrote out for want of one.
    """
    own = cast("Any", module)
    alone = hasattr(own, "has_relative_attention_bias") and not _takes_bias(module)
    if isinstance(handed, _NoBias) or (alone and not own.has_relative_attention_bias):
        return None
    return cast("Tensor | PositionBias | None", handed)


@contextmanager
def lazy_biases(model: nn.Module) -> Generator[None]:
    """Let a model's layers hand on biases that are made a tile at a time; all is put back.

    Args:
        model: a transformers model; nothing is done to one without such layers.
    """
    with ExitStack() as undo:
        for module in _with_buckets(model):
            if module.has_relative_attention_bias:
                module.compute_bias = partial(_given, _table(module))
                undo.callback(module.__dict__.pop, "compute_bias")
            elif _takes_bias(module):
                hook = module.register_forward_pre_hook(_without_zeros, with_kwargs=True)
                undo.callback(hook.remove)
        yield


def _with_buckets(model: nn.Module) -> Iterator[Any]:
    """T5's attention modules and those of its kin that hand their bias to the interface."""
    for module in model.modules():
        own = cast("Any", module)
        has_both = hasattr(own, "compute_bias") and hasattr(own, "has_relative_attention_bias")
        if has_both and asks_interface(module):
            yield own


def _takes_bias(module: nn.Module) -> bool:
    """Whether a layer is handed the bias of the layer before it, as T5's are and UMT5's are not."""
    return "position_bias" in inspect.signature(module.forward).parameters


def _table(module: Any) -> T5RelativeBias:
    weight = module.relative_attention_bias.weight
    bias = T5RelativeBias(
        weight.shape[1],
        buckets=module.relative_attention_num_buckets,
        max_distance=module.relative_attention_max_distance,
        bidirectional=not module.is_decoder,
    )
    bias.weight = weight
    return bias


def _given(bias: T5RelativeBias, *_lengths: object, **_places: object) -> T5RelativeBias:
    return bias


def _without_zeros(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if kwargs.get("position_bias") is not None:
        return None
    return args, {**kwargs, "position_bias": _NO_BIAS}
