"""What a model folder alone can tell before its weights are loaded: whether a prompt fits."""

from collections.abc import Sequence

from clearhead.transformer.available_memory import available_bytes, check_memory
from clearhead.transformer.cache_cost import cache_bytes
from clearhead.transformer.config import TransformerConfig
from clearhead.transformer.generation.limits import check_sources, new_tokens
from clearhead.transformer.model_folder import ModelFolder

__all__ = ["check_fits"]


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
    needs = {"the weights": folder.bytes_as("float32"), f"a cache of {capacity:,} tokens": size}
    check_memory(needs, available_bytes())
