"""What does not fit into a model's context, by name and length, before the model is run."""

from collections.abc import Iterator

from clearhead.errors import TokenError
from clearhead.report.documents.prompt import Prompt
from clearhead.report.figures import counted

__all__ = ["check_fits"]


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
