"""How many tokens there may be: what the model reads, and what memory holds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from clearhead.errors import TokenError, gathered
from clearhead.positions.scaling import DynamicScaling
from clearhead.transformer.config import TransformerConfig

__all__ = ["DEFAULT_NEW_TOKENS", "Limit", "check_sources", "longest_cached", "new_tokens"]

#: As many are generated where nothing is said, or fewer where the model reads no more.
DEFAULT_NEW_TOKENS = 256


@dataclass(frozen=True)
class Limit:
    """Where a row ends at the latest.

    Attributes:
        tokens: number of new ones.
        reason: what then ended it.
    """

    tokens: int
    reason: Literal["max_new_tokens", "context"]


def new_tokens(
    config: TransformerConfig, prompts: Sequence[Sequence[int]], asked: int | None
) -> tuple[Limit, ...]:
    """How many new tokens each row may have.

    A prompt and its new tokens together are at most the model's context; where dynamic scaling of
    rotary positions stretches that, at most ``factor`` times as much. What is asked for is given or
    refused; where nothing is asked for, it is 256 or as many as fit.

    Args:
        config: of the model.
        prompts: what the decoder reads before it writes, a row each.
        asked: most new tokens, 1 or more, or None.

    Returns:
        A limit a row.

    Raises:
        TokenError: a row has no room; all such rows at once.
    """
    context = _context(config)
    faults = [] if context is None else list(_too_long(context, prompts, asked))
    if faults:
        raise TokenError(gathered("this does not fit into the model's context", faults))
    return tuple(_limit(context, len(prompt), asked) for prompt in prompts)


def check_sources(config: TransformerConfig, sources: Sequence[Sequence[int]]) -> None:
    """Refuse texts that an encoder cannot read whole.

    Args:
        config: of the encoder.
        sources: the texts, a row each.

    Raises:
        TokenError: some are too long; all such rows at once.
    """
    context = config.context_length
    faults = [
        f"{_name(row, sources)} has {_tokens(len(source))}, and the encoder reads at most "
        f"{context:,}: shorten it"
        for row, source in enumerate(sources)
        if context is not None and len(source) > context
    ]
    if faults:
        raise TokenError(gathered("this does not fit into the model's context", faults))


def longest_cached(config: TransformerConfig) -> int | None:
    """Tokens of the longest text whose keys can be kept; None is any.

    Args:
        config: of the model.
    """
    return min((scaling.original_context for scaling in _dynamic(config)), default=None)


def _context(config: TransformerConfig) -> int | None:
    """Tokens of the longest text, or None for any."""
    if config.context_length is None:
        return None
    stretched = (int(scaling.factor * scaling.original_context) for scaling in _dynamic(config))
    return max(config.context_length, *stretched, 0)


def _dynamic(config: TransformerConfig) -> list[DynamicScaling]:
    rotaries = (config.rotary(layer) for layer in range(config.layers))
    scalings = (rotary.scaling for rotary in rotaries if rotary is not None)
    return [scaling for scaling in scalings if isinstance(scaling, DynamicScaling)]


def _limit(context: int | None, prompt: int, asked: int | None) -> Limit:
    if asked is not None:
        return Limit(asked, "max_new_tokens")
    room = DEFAULT_NEW_TOKENS if context is None else context - prompt
    if room < DEFAULT_NEW_TOKENS:
        return Limit(room, "context")
    return Limit(DEFAULT_NEW_TOKENS, "max_new_tokens")


def _too_long(context: int, prompts: Sequence[Sequence[int]], asked: int | None) -> Iterator[str]:
    for row, prompt in enumerate(prompts):
        name, length = _name(row, prompts), len(prompt)
        if length >= context:
            yield (
                f"{name} has {_tokens(length)}, and the model reads at most {context:,}, new ones "
                "included: shorten it"
            )
        elif asked is not None and length + asked > context:
            yield (
                f"{name} has {_tokens(length)} and max_new_tokens is {asked:,}, together "
                f"{length + asked:,}, and the model reads at most {context:,}: ask for at most "
                f"{context - length:,} new ones, or shorten it"
            )


def _tokens(count: int) -> str:
    return "1 token" if count == 1 else f"{count:,} tokens"


def _name(row: int, rows: Sequence[object]) -> str:
    return "the prompt" if len(rows) == 1 else f"prompt {row}"
