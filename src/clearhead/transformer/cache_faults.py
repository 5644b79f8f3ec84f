"""What can be wrong with a cache: with what it is made of, and with the model it is given to."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from clearhead.errors import InputError, gathered
from clearhead.transformer.cache_cost import size_faults, whole
from clearhead.transformer.calls import Encoded
from clearhead.transformer.config import TransformerConfig

if TYPE_CHECKING:
    from clearhead.transformer.cache import KVCache

__all__ = ["check_made", "misfits", "rows_there"]

#: What a configuration says of keys and values, beside what differs from layer to layer.
_SIZES = ("layers", "kv_heads", "d_k", "d_v")


def check_made(config: TransformerConfig, sizes: Mapping[str, object], dtype: object) -> None:
    """Refuse what no cache can be made of.

    Args:
        config: of the model.
        sizes: number of rows and of tokens, by name.
        dtype: of keys and values.

    Raises:
        InputError: something of it means nothing; all faults at once.
    """
    faults = list(size_faults(sizes, dtype))
    if not _is_config(config):
        faults.insert(0, f"config must be a TransformerConfig, got {type(config).__name__}")
    elif config.kind != "decoder":
        faults.insert(0, "a cache is for a decoder: an encoder reads its text only once")
    if faults:
        raise InputError(gathered("no such cache", faults))


def rows_there(rows: object, batch: int) -> list[int]:
    """Read the numbers of some rows, each of which must be there.

    Args:
        rows: what was given.
        batch: how many rows there are.

    Raises:
        InputError: they are no such numbers.
    """
    try:
        listed = cast("Any", rows).tolist() if isinstance(rows, Tensor) else list(cast("Any", rows))
        numbers = [whole(row) for row in cast("list[object]", listed)]
    except TypeError:  # nothing that can be listed
        listed, numbers = rows, list[int | None]()
    chosen = [row for row in numbers if row is not None and 0 <= row < batch]
    if not chosen or len(chosen) < len(numbers):
        raise InputError(
            f"reorder must name rows from 0 to {batch - 1}, at least one, got {listed!r}"
        )
    return chosen


def misfits(cache: "KVCache", config: TransformerConfig, source: Encoded | None) -> Iterator[str]:
    """Say why a model cannot read on from a cache.

    Args:
        cache: the cache.
        config: of the model.
        source: what an encoder made of the text that the model looks at.

    Cost: a source that is not the very one of the last call is compared, number by number.
    """
    if config.kind != "decoder":
        yield "cache: an encoder reads its text only once"
        return
    # the same object wherever the cache was made from model.config, as it should be
    if cache.config is not config and cache.config != config:
        differing = list(_differing(cache.config, config))
        if differing:
            yield (
                "cache must be made from this model's config, got one made from another, with "
                f"{', '.join(differing)}"
            )
            return
    if source is not None and any(cache.lengths) and not _same(cache.source, source):
        yield (
            "source must be the one that the cache's keys and values were made of, got another: "
            "reorder its rows as the cache's, or cache.crop(0) to begin anew"
        )


def _differing(held: TransformerConfig, needed: TransformerConfig) -> Iterator[str]:
    """What of a cache would not be as a model needs it."""
    for name in _SIZES:
        if getattr(held, name) != getattr(needed, name):
            yield f"{name} {getattr(held, name)} and not {getattr(needed, name)}"
    both = range(min(held.layers, needed.layers))
    for layer in both:
        got, expected = (config.layer_kind(layer).window for config in (held, needed))
        if got != expected:
            yield f"a window of {got} and not {expected} in layer {layer}"
            break
    if (held.encoder is None) != (needed.encoder is None):
        yield f"{'no' if held.encoder is None else 'an'} encoder"
    if any(held.rotary(layer) != needed.rotary(layer) for layer in both):
        yield "other rotary positions"


def _same(held: Encoded | None, given: Encoded) -> bool:
    """Whether two sources are equal; the very same tensors are not looked into."""
    if held is None or torch.compiler.is_compiling():
        return True
    return _equal(held.hidden, given.hidden) and _equal(held.real, given.real)


def _equal(a: Tensor | None, b: Tensor | None) -> bool:
    if a is None or b is None or a is b:
        return a is b
    alike = (a.shape, a.dtype, a.device) == (b.shape, b.dtype, b.device)
    # a vector that is NaN is the same vector
    return alike and torch.allclose(a, b, rtol=0.0, atol=0.0, equal_nan=True)


def _is_config(config: object) -> bool:
    return isinstance(config, TransformerConfig)
