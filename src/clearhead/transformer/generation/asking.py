"""From what was asked for to rows that are ready to be written."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from torch import Tensor, nn

from clearhead.errors import InputError, UnsupportedError, gathered
from clearhead.tokens.tokenizer import TextTokenizer
from clearhead.transformer.available_memory import available_bytes, check_memory
from clearhead.transformer.cache_cost import cache_bytes
from clearhead.transformer.config import TransformerConfig
from clearhead.transformer.generation.endings import Endings, endings_of
from clearhead.transformer.generation.limits import (
    Limit,
    check_sources,
    longest_cached,
    new_tokens,
)
from clearhead.transformer.generation.prompts import Prompt, Prompts, read_prompts
from clearhead.transformer.generation.reading import CachedReader, Reader, Rows
from clearhead.transformer.generation.rereading import OutgrowingReader
from clearhead.transformer.generation.sampling import Sampler
from clearhead.transformer.generation.settings import Sampling, length_faults, stop_faults
from clearhead.transformer.generation.wording import Wording
from clearhead.transformer.generation.writing import Row, Writing
from clearhead.transformer.model import Transformer

__all__ = ["Asked", "prepare"]

_One = TypeVar("_One")


@dataclass(frozen=True, eq=False)
class Asked:
    """What was asked for besides model and prompt, as :func:`clearhead.generate` takes it.

    Attributes:
        sampling: how tokens are chosen.
        max_new_tokens: most new tokens, or None.
        stop: strings before which a text ends.
        end_tokens: ids that end a text, or None.
        start_tokens: ids that the decoder of a model with an encoder begins with, or None.
        attention_mask: which ids of a padded batch are real, or None.
        tokenizer: for a model that brings none, or None.
        one_text: whether only one prompt will do, and one with text.
    """

    sampling: Sampling
    max_new_tokens: int | None = None
    stop: str | Sequence[str] = ()
    end_tokens: int | Collection[int] | None = None
    start_tokens: int | Sequence[int] | None = None
    attention_mask: Tensor | None = None
    tokenizer: object = None
    one_text: bool = False


def prepare(model: nn.Module, prompt: Prompt, asked: Asked) -> tuple[Writing, bool]:
    """Check everything and make room; the model is not run yet.

    Args:
        model: the model.
        prompt: what it continues.
        asked: how.

    Returns:
        The rows on their way, and whether several answers are due.

    Raises:
        TokenError, InputError, UnsupportedError: as for :func:`clearhead.generate`.
    """
    ours = _ours(model)
    words = _words(ours, asked)
    stops = _stops(asked.stop)
    _check(ours.config, asked, stops, words)
    prompts = _prompts(ours, prompt, asked, words)
    endings = endings_of(ours, words)
    has_encoder = ours.config.encoder is not None
    sources = prompts.rows if has_encoder else None
    texts = _starts(prompts.rows, asked, endings) if has_encoder else prompts.rows
    limits = new_tokens(ours.config, texts, asked.max_new_tokens)
    reader = _reader(ours, texts, limits=limits, sources=sources)
    end = endings.end if asked.end_tokens is None else _ids(asked.end_tokens)
    end += tuple(token for stop in stops for token in _control(stop, words))
    rows = [
        Row(
            row,
            limit,
            sampler=Sampler(asked.sampling, row=number),
            wording=None
            if words is None
            else Wording(words, follows=None if has_encoder else row[-1], stops=stops),
            end=end,
        )
        for number, (row, limit) in enumerate(zip(prompts.rows, limits, strict=True))
    ]
    return Writing(reader, rows), prompts.several


def _ours(model: nn.Module) -> Transformer:
    """The model, if it is one of ours that predicts tokens."""
    if not isinstance(model, Transformer):
        if type(model).__module__.startswith("transformers."):
            raise UnsupportedError(
                f"generate: {type(model).__name__} is transformers' own model: call its "
                'model.generate(...), or load it with engine="clearhead" where that reads it'
            )
        raise InputError(f"model: expected a clearhead Transformer, got {type(model).__name__}")
    if model.config.kind != "decoder" or not model.config.predicts:
        what = "an encoder" if model.config.kind == "encoder" else "a decoder without logits"
        raise UnsupportedError(
            f"generate: this model is {what}, and predicts no next token; a decoder that predicts "
            "is needed, such as from_pretrained('smollm2')"
        )
    return model


def _words(model: Transformer, asked: Asked) -> TextTokenizer | None:
    if asked.tokenizer is not None:
        return TextTokenizer.wrap(asked.tokenizer)
    return cast("TextTokenizer | None", vars(model).get("clearhead_tokenizer"))


def _check(
    config: TransformerConfig, asked: Asked, stops: Sequence[str], words: TextTokenizer | None
) -> None:
    """Refuse values that mean nothing, all at once."""
    faults = [*length_faults(asked.max_new_tokens), *asked.sampling.faults(), *stop_faults(stops)]
    if words is None and stops:
        faults.append("stop: this model brings no tokenizer to find a text with: give tokenizer=")
    if words is None and asked.one_text:
        faults.append("stream: this model brings no tokenizer to make text with: give tokenizer=")
    for name in ("end_tokens", "start_tokens"):
        ids = _ids(getattr(asked, name))
        if not all(_is_token(token, config.vocabulary_size) for token in ids):
            faults.append(
                f"{name} must be token ids from 0 to {config.vocabulary_size - 1}, got {list(ids)}"
            )
    if asked.start_tokens is not None and config.encoder is None:
        faults.append("start_tokens: this model has no encoder; what it begins with is the prompt")
    if faults:
        raise InputError(gathered("cannot generate", faults))


def _is_token(value: object, vocabulary: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < vocabulary


def _prompts(
    model: Transformer, prompt: Prompt, asked: Asked, words: TextTokenizer | None
) -> Prompts:
    reads = model.config if model.config.encoder is None else model.config.encoder
    prompts = read_prompts(
        prompt, words, attention_mask=asked.attention_mask, vocabulary=reads.vocabulary_size
    )
    if asked.one_text and prompts.several:
        raise InputError(
            f"stream: expected one prompt, got a list of {len(prompts.rows)}; "
            "generate continues several"
        )
    if model.config.encoder is not None:
        check_sources(model.config.encoder, prompts.rows)
    return prompts


def _starts(rows: Rows, asked: Asked, endings: Endings) -> Rows:
    """What the decoder of a model with an encoder begins with, in every row."""
    start = endings.start if asked.start_tokens is None else _ids(asked.start_tokens)
    if not start:
        raise InputError(
            "start_tokens: this model writes with a decoder of its own, and nothing says which "
            "token that begins with: give its id"
        )
    return (start,) * len(rows)


def _reader(
    model: Transformer, texts: Rows, *, limits: Sequence[Limit], sources: Rows | None
) -> Reader:
    """What will read these texts, once there is memory for it."""
    capacity = max(len(text) + limit.tokens for text, limit in zip(texts, limits, strict=True))
    held = longest_cached(model.config)
    outgrows = held is not None and capacity > held
    capacity = min(capacity, held) if held is not None else capacity
    _check_memory(model, batch=len(texts), capacity=capacity, sources=sources or [()])
    if outgrows:
        return OutgrowingReader(model, texts, limit=capacity, sources=sources)
    return CachedReader(model, texts, capacity=capacity, sources=sources)


def _check_memory(model: Transformer, *, batch: int, capacity: int, sources: Rows) -> None:
    weight = model.token_embedding.weight
    if weight.device.type != "cpu":
        return
    size = cache_bytes(
        model.config,
        batch=batch,
        capacity=capacity,
        dtype=str(weight.dtype).removeprefix("torch."),
        source_length=max(map(len, sources)),
    )
    check_memory({f"a cache of {batch} × {capacity:,} tokens": size}, available_bytes())


def _stops(stop: str | Sequence[str]) -> tuple[str, ...]:
    return (stop,) if isinstance(stop, str) else _listed(stop)


def _ids(given: int | Collection[int] | None) -> tuple[int, ...]:
    if given is None:
        return ()
    return (given,) if isinstance(given, int) else _listed(given)


def _listed(given: Collection[_One]) -> tuple[_One, ...]:
    """Several; what is none counts as one, and is then refused as such."""
    return tuple(given) if _can_be_listed(given) else (cast("_One", given),)


def _can_be_listed(given: object) -> bool:
    return isinstance(given, Iterable)


def _control(stop: str, words: TextTokenizer | None) -> list[int]:
    """The control token that a stop string is the name of: it has no text to be found in."""
    ids = [] if words is None else words.encode(stop, special=False)
    is_control = words is not None and [piece.special for piece in words.pieces(ids)] == [True]
    return ids if is_control else []
