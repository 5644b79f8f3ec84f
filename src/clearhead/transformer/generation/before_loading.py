"""What a model folder alone can tell before its weights are loaded: whether a prompt fits."""

from collections.abc import Sequence

from clearhead.transformer.available_memory import available_bytes, check_memory
from clearhead.transformer.cache_cost import cache_bytes
from clearhead.transformer.config import TransformerConfig
from clearhead.transformer.generation.limits import check_sources, new_tokens
from clearhead.transformer.model_folder import ModelFolder

__all__ = ["check_fits"]

#: Bytes of a number as it is stored, in a model that is loaded as float32.
_WIDENED = {"float64": 0.5, "float32": 1, "bfloat16": 2, "float16": 2}


def check_fits(
    folder: ModelFolder, config: TransformerConfig, ids: Sequence[int], *, asked: int | None
) -> None:
    """Refuse a prompt that is too long, or for which there is no memory.

    Args:
        folder: the model's, to be loaded as float32.
        config: of the model.
        ids: the prompt.
        asked: most new tokens, or None.

    Raises:
        TokenError: the prompt, or it and the new tokens, are more than the model's context holds.
        InputError: weights and cache are more than there is memory for.
    """
    prompt, source = ids, 0
    if config.encoder is not None:
        check_sources(config.encoder, [ids])
        prompt, source = ids[:1], len(ids)
    (limit,) = new_tokens(config, [prompt], asked)
    capacity = len(prompt) + limit.tokens
    size = cache_bytes(config, capacity=capacity, source_length=source)
    needs = {"the weights": _weights(folder), f"a cache of {capacity:,} tokens": size}
    check_memory(needs, available_bytes())


def _weights(folder: ModelFolder) -> int:
    """Bytes of the weights in float32; of several kinds, as if all were of the narrowest."""
    widened = max((_WIDENED[kind] for kind in folder.stored_as), default=1)
    return int(widened * sum(file.stat().st_size for file in folder.files))
