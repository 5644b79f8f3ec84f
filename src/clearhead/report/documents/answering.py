"""The answer: written by the model, most probable token by token, or given; and its trace."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clearhead.errors import InputError, UnsupportedError
from clearhead.report.terminal import status

if TYPE_CHECKING:  # these bring torch, which the command line imports only when it has to
    from clearhead.tokens.tokenizer import TextTokenizer
    from clearhead.tracing.traced import Trace
    from clearhead.transformer.cache import KVCache

__all__ = ["ModelAnswer", "check_answers", "traced", "write_answer"]


@dataclass(frozen=True, eq=False)
class ModelAnswer:
    """What a model wrote after a prompt.

    Attributes:
        ids: its tokens, without the one that ended it.
        text: what they say.
        ended_by: ``"end_token"`` or ``"max_new_tokens"``.
        cache: keys and values of all that was read, or None where none were kept.
    """

    ids: tuple[int, ...]
    text: str
    ended_by: str
    cache: "KVCache | None"


def check_answers(model: Any, name: str) -> None:
    """Refuse a model that predicts no next token.

    Args:
        model: a clearhead Transformer or a transformers model.
        name: its name.

    Raises:
        UnsupportedError: it does not.
    """
    from clearhead.transformer.model import Transformer

    if isinstance(model, Transformer):
        answers = model.config.kind == "decoder" and model.config.predicts
    else:
        can = getattr(model, "can_generate", None)
        answers = bool(can is not None and can())
    if not answers:
        raise UnsupportedError(
            f"{name} predicts no next token, so that it gives no answer to look at; a model that "
            "does is needed, such as from_pretrained('smollm2')"
        )


def write_answer(
    model: Any, prompt: Sequence[int], words: "TextTokenizer", *, most: int
) -> ModelAnswer:
    """Have a model answer, each time with its most probable token.

    Args:
        model: a clearhead Transformer or a transformers model.
        prompt: the tokens before the answer.
        words: the tokenizer.
        most: most tokens of the answer.

    Raises:
        InputError: the answer is empty, or there is not enough memory.
    """
    from clearhead.transformer.model import Transformer

    ours = isinstance(model, Transformer)
    made = (_by_ours if ours else _by_theirs)(model, prompt, words, most=most)
    if not made.ids:
        raise InputError(
            "the model's answer is empty: it ended as soon as it began; give an answer to look at, "
            "or ask otherwise"
        )
    return made


def traced(
    model: Any,
    prompt: Sequence[int],
    answer: Sequence[int],
    *,
    cache: "KVCache | None",
    layers: Sequence[int] | None,
    words: "TextTokenizer",
) -> "Trace":
    """Trace the answer's tokens: from the cache where it holds the whole prompt, else all anew.

    Args:
        model: the model.
        prompt: the tokens before the answer.
        answer: its tokens.
        cache: what was kept while the answer was written, or None.
        layers: the layers to keep; None is all.
        words: the tokenizer.

    Raises:
        TraceError: the model cannot be traced, or later tokens reach earlier ones.
    """
    from clearhead.errors import TraceError
    from clearhead.tracing.trace import trace

    ids, start = [*prompt, *answer], len(prompt)
    if cache is not None and _goes_on(cache, start, len(ids)):
        found = trace(model, ids, cache=cache, layers=layers, tokenizer=words)
    else:
        found = trace(model, ids, queries=slice(start, None), layers=layers, tokenizer=words)
    assert not isinstance(found, list)  # one row of ids is one trace
    made: Any = found
    if not made.causal:
        raise TraceError(
            f"{made.model_name} lets tokens look at later ones, so that what its answer drew from "
            "the prompt is not what it drew while it was written"
        )
    return made


def _goes_on(cache: "KVCache", start: int, end: int) -> bool:
    """Take a cache back to the end of the prompt, if a text can be traced from there."""
    if min(cache.lengths) < start or end > cache.capacity:
        return False
    try:
        cache.crop(start)
    except InputError:  # a window has moved on, or angles have changed
        return False
    return not any(True for _ in cache.losses(end))


def _by_ours(
    model: Any, prompt: Sequence[int], words: "TextTokenizer", *, most: int
) -> ModelAnswer:
    from clearhead.transformer.generation.asking import Asked, prepare
    from clearhead.transformer.generation.settings import Sampling

    writing, _ = prepare(
        model, list(prompt), Asked(Sampling(), max_new_tokens=most, tokenizer=words)
    )
    cache, steps = writing.cache, writing.steps()
    with status("reading the prompt …"):
        next(steps)
    with status("answering …"):
        for _ in steps:
            pass
    (made,) = writing.generated()
    ended = made.stopped_by == "end_token"
    ids = made.token_ids[:-1] if ended else made.token_ids
    return ModelAnswer(ids, made.text or "", "end_token" if ended else "max_new_tokens", cache)


def _by_theirs(
    model: Any, prompt: Sequence[int], words: "TextTokenizer", *, most: int
) -> ModelAnswer:
    import torch
    from transformers import GenerationConfig

    from clearhead.transformer.generation.wording import Wording

    ids = torch.tensor([list(prompt)], device=next(model.parameters()).device)
    end = _end_tokens(model, words)
    greedy = GenerationConfig(
        max_new_tokens=most,
        do_sample=False,
        num_beams=1,
        eos_token_id=end or None,
        pad_token_id=end[0] if end else 0,
    )
    with status("reading the prompt and answering …"), torch.no_grad(), _led_by(model, greedy):
        made = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=greedy)
    tokens: list[int] = made[0, len(prompt) :].tolist()
    ended = bool(tokens) and tokens[-1] in end
    kept = tokens[:-1] if ended else tokens
    wording = Wording(words, follows=prompt[-1])
    text = "".join([*map(wording.add, kept), wording.finish()])
    return ModelAnswer(tuple(kept), text, "end_token" if ended else "max_new_tokens", None)


@contextmanager
def _led_by(model: Any, settings: Any) -> Generator[None]:
    """Have a model of transformers write by these settings alone.

    It fills what they leave open from its own: penalties and forced or suppressed tokens, with
    which the answer would not be the most probable one.
    """
    own = model.generation_config
    model.generation_config = settings
    try:
        yield
    finally:
        model.generation_config = own


def _end_tokens(model: Any, words: "TextTokenizer") -> list[int]:
    """What ends the texts of a transformers model."""
    named: Any = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    if named is None:
        named = words.special_id("eos_token")
    if named is None:
        return []
    return [named] if isinstance(named, int) else list(named)
