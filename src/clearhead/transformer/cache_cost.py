"""What a KV cache takes, from a configuration alone; imports no torch."""

from clearhead.errors import InputError
from clearhead.transformer.config import TransformerConfig

__all__ = ["BYTES", "cache_bytes", "slots"]

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
        dtype: of keys and values, by name.
        source_length: tokens of the text that a decoder with an encoder looks at, padding included.

    Returns:
        What :attr:`clearhead.transformer.cache.KVCache.nbytes` becomes, to the byte.

    Raises:
        InputError: no such dtype.
    """
    if dtype not in BYTES:
        raise InputError(f"dtype: expected one of {', '.join(BYTES)}, got {dtype!r}")
    held = sum(slots(config, layer, capacity) for layer in range(config.layers))
    if config.encoder is not None:
        held += config.layers * source_length
    return batch * BYTES[dtype] * (config.d_k + config.d_v) * config.kv_heads * held


def slots(config: TransformerConfig, layer: int, capacity: int) -> int:
    """Keys that one layer has room for: a window's, or all.

    Args:
        config: of the model.
        layer: its number.
        capacity: most tokens a row can hold.
    """
    window = config.layer_kind(layer).window
    return capacity if window is None else min(window + _SLACK, capacity)
