"""What does not fit into a model's context, by name and length, before the model is run."""

from collections.abc import Iterator, Mapping

from clearhead.errors import TokenError
from clearhead.report.documents.prompt import Prompt
from clearhead.report.figures import counted

__all__ = ["check_bytes", "check_fits"]

#: No text has so many bytes a token; one that has more for each position is not cut at all.
_MOST_BYTES = 256


def check_bytes(texts: Mapping[str, str], *, most: int | None, model: str) -> None:
    """Refuse texts that cannot fit, by their size, before the time is spent to cut them.

    Args:
        texts: what the model is to read, by name.
        most: tokens the model reads; None is any number.
        model: its name.

    Raises:
        TokenError: they are too large.
    """
    if most is None:
        return
    sizes = {name: len(text.encode("utf-8", "surrogatepass")) for name, text in texts.items()}
    left, named = sum(sizes.values()), list[str]()
    for name in sorted(sizes, key=lambda one: -sizes[one]):
        if left <= _MOST_BYTES * most:
            break
        left -= sizes[name]
        named.append(f"{name!r:.80} ({sizes[name]:,} bytes)")
    if named:
        raise TokenError(
            f"the prompt is too large: {model} reads {counted(most, 'token')}. What does not fit: "
            f"{'; '.join(named)}"
        )


def check_fits(prompt: Prompt, *, answer: int, most: int | None, model: str, given: bool) -> None:
    """Refuse a prompt that leaves no room for its answer.

    Passages are counted in their order: those that are beyond the room for all of them do not fit.

    Args:
        prompt: what the model is to read.
        answer: tokens of the answer, or the most it may have.
        most: tokens the model reads; None is any number.
        model: its name.
        given: whether the answer was given, and is as long as that.

    Raises:
        TokenError: prompt and answer are more than the model reads.
    """
    beyond = 0 if most is None else len(prompt.ids) + answer - most
    if beyond <= 0:
        return
    asks = f"the answer {'' if given else 'up to '}{answer:,}"
    told = (
        f"the prompt takes {counted(len(prompt.ids), 'token')} and {asks}; {model} reads {most:,}: "
        f"{beyond:,} too many"
    )
    room = answer - beyond
    if not given and room > 0:
        raise TokenError(f"{told}. Give max_new_tokens of at most {room:,}, or shorten the prompt")
    named = list(_too_much(prompt, beyond))
    if named:
        raise TokenError(f"{told}. What does not fit: {'; '.join(named)}")
    raise TokenError(f"{told}. Shorten the prompt, or the answer")


def _too_much(prompt: Prompt, beyond: int) -> Iterator[str]:
    """The passages that do not fit, in their order, and by how much."""
    passages = [one for one in prompt.segments if one.kind == "passage"]
    lengths = [one.stop - one.start for one in passages]
    room = sum(lengths) - beyond
    for passage, length in zip(passages, lengths, strict=True):
        over = min(length, length - room)
        room -= length
        if over > 0:
            much = "all of it" if over == length else f"{over:,} too many"
            yield f"{passage.name!r:.80} ({counted(length, 'token')}, {much})"
