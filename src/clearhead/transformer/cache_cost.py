"""What a KV cache takes, from a configuration alone; imports no torch."""

import operator
from collections.abc import Iterator, Mapping
from typing import SupportsIndex

from clearhead.errors import InputError, gathered
from clearhead.transformer.config import TransformerConfig

__all__ = ["BYTES", "cache_bytes", "size_faults", "slots", "whole"]

#: Bytes of one number, by the name of its dtype.
BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}

#: A window's memory is this much longer, so that it is moved along only once in so many tokens.
_SLACK = 256


def cache_bytes(
    config: TransformerConfig,
    *,
    batch: int = 1,
    capacity: int,
    dtype: str = "float32",
    source_length: int = 0,
) -> int:
    """Bytes of a KV cache.

    ``batch · bytes · (d_k + d_v) · kv_heads · (Σ slots(layer) + layers · source_length)``

    Args:
        config: of the model.
        batch: number of rows.
        capacity: most tokens a row can hold.
        dtype: of keys and values, by name or as torch's.
        source_length: tokens of the text that a decoder with an encoder looks at, padding included.

    Returns:
        What :attr:`clearhead.transformer.cache.KVCache.nbytes` becomes, to the byte.

    Raises:
        InputError: no such dtype, or a size that is no whole number; all faults at once.
    """
    faults = list(size_faults({"batch": batch, "capacity": capacity}, dtype))
    length = whole(source_length)
    if length is None or length < 0:
        faults.append(f"source_length must be a whole number of 0 or more, got {source_length!r}")
    if faults:
        raise InputError(gathered("no such cache", faults))
    held = sum(slots(config, layer, capacity) for layer in range(config.layers))
    if config.encoder is not None:
        held += config.layers * source_length
    return batch * BYTES[_name(dtype)] * (config.d_k + config.d_v) * config.kv_heads * held


def size_faults(sizes: Mapping[str, object], dtype: object) -> Iterator[str]:
    """What is wrong with the measures of a cache.

    Args:
        sizes: number of rows and of tokens, by name.
        dtype: of keys and values, by name or as torch's.
    """
    for name, size in sizes.items():
        if (whole(size) or 0) < 1:
            yield f"{name} must be a positive whole number, got {size!r}"
    if _name(dtype) not in BYTES:
        yield f"dtype: expected one of {', '.join(BYTES)}, got {dtype!r}"


def whole(value: object) -> int | None:
    """A whole number as Python's, NumPy's included; None for truth values and all else.

    Args:
        value: what was given.
    """
    truth = isinstance(value, bool) or "bool" in str(getattr(value, "dtype", ""))
    if truth or not isinstance(value, SupportsIndex):
        return None
    try:  # a tensor looks like an integer, whatever it holds
        return operator.index(value)
    except TypeError:
        return None


def slots(config: TransformerConfig, layer: int, capacity: int) -> int:
    """Keys that one layer has room for: a window's, or all.

    Args:
        config: of the model.
        layer: its number.
        capacity: most tokens a row can hold.
    """
    window = config.layer_kind(layer).window
    return capacity if window is None else min(window + _SLACK, capacity)


def _name(dtype: object) -> str:
    return str(dtype).removeprefix("torch.")
