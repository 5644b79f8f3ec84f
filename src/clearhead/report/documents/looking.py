"""A prompt, its answer, the answer's trace, and where its tokens drew from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clearhead.errors import InputError, TokenError
from clearhead.report.documents.asking import Question
from clearhead.report.documents.parts import Answer, Documents
from clearhead.report.terminal import status

if TYPE_CHECKING:  # these bring torch, which the command line imports only when it has to
    from clearhead.report.documents.answering import ModelAnswer
    from clearhead.report.documents.prompt import GivenAnswer, Prompt
    from clearhead.tokens.tokenizer import TextTokenizer
    from clearhead.tracing.survey import Survey
    from clearhead.tracing.traced import Trace

__all__ = ["LookedAtAnswer", "look_at_answer"]


@dataclass(frozen=True, eq=False)
class LookedAtAnswer:
    """What was seen of an answer.

    Attributes:
        trace: of its rows.
        surveyed: all heads, for each of its tokens.
        documents: where they drew from.
        plain: names of control tokens that were read as plain text, by segment; ``None`` is the
            answer.
    """

    trace: "Trace"
    surveyed: "Survey"
    documents: Documents
    plain: dict[str | None, list[str]]

    def check_token(self, token: int | str) -> None:
        """Refuse to look from a token that is none of the answer's.

        Args:
            token: a position, or a word of the text.

        Raises:
            TokenError: it is none of them, or not in the text at all.
        """
        position, answer = self.trace.find(token), self.documents.answer
        if not answer.start <= position < answer.stop:
            place = "" if token == position else f" token {position},"
            raise TokenError(
                f"token {token!r:.60} is{place} in the prompt: an answer is looked from its own "
                f"tokens, {answer.start} to {answer.stop - 1}"
            )


def look_at_answer(
    model: Any, asked: Question, *, layers: Sequence[int] | None, tokenizer: Any
) -> LookedAtAnswer:
    """Have a model answer, or take the answer that is given, and trace the answer's tokens.

    Args:
        model: what ``trace`` takes.
        asked: prompt and answer.
        layers: the layers to trace and to sum over; None is all.
        tokenizer: the tokenizer, where the model does not bring one.

    Returns:
        The trace and the shares.

    Raises:
        InputError: no tokenizer, nothing to stand an answer after, or the answer is empty.
        TokenError: the prompt does not fit, or its parts cannot be told apart.
        TraceError: the model cannot be traced, or its shares are not finite.
        UnsupportedError: the model predicts no next token.

    Cost: the prompt is read once where the model is ours and forgets no key, else twice; memory is
    the KV cache, and in the trace once more.
    """
    from clearhead.report.documents.answering import check_answers, traced, write_answer
    from clearhead.report.documents.fitting import check_bytes, check_fits
    from clearhead.report.documents.prompt import with_answer
    from clearhead.report.documents.shares import documents_of
    from clearhead.report.page.values import SURVEYED_LINKS
    from clearhead.tracing.choosing import chosen_layers
    from clearhead.tracing.models import traceable
    from clearhead.tracing.survey import survey

    adapter = traceable(model)
    check_answers(model, adapter.name)
    chosen_layers(layers, {"": [site.layer for site in adapter.sites()]})
    words = _words(adapter.tokenizer if tokenizer is None else tokenizer)
    check_bytes(asked.texts, most=adapter.context_length, model=adapter.name)
    prompt = _prompt(words, asked)
    given = None if asked.answer is None else with_answer(words, prompt, asked.answer)
    check_fits(
        prompt,
        answer=asked.longest_answer if given is None else len(given.ids),
        most=adapter.context_length,
        model=adapter.name,
        given=given is not None,
    )
    told = given
    if told is None:
        told = write_answer(model, prompt.ids, words, most=asked.longest_answer)
    with status("tracing the answer …"):
        found = traced(model, prompt.ids, told.ids, cache=told.cache, layers=layers, words=words)
        seen = survey(found, links=SURVEYED_LINKS)
    documents = documents_of(
        seen, segments=prompt.segments, answer=_answer(prompt, told), question=prompt.question
    )
    return LookedAtAnswer(found, seen, documents, _plain_names(prompt, given))


def _answer(prompt: "Prompt", told: "GivenAnswer | ModelAnswer") -> Answer:
    start = len(prompt.ids)
    generated = told.ended_by is not None
    return Answer(told.text, start, start + len(told.ids), generated, told.ended_by)


def _plain_names(prompt: "Prompt", given: "GivenAnswer | None") -> dict[str | None, list[str]]:
    own = {None: list(given.plain)} if given is not None and given.plain else {}
    return {**prompt.plain_names(), **own}


def _words(tokenizer: Any) -> "TextTokenizer":
    from clearhead.tokens.tokenizer import TextTokenizer

    if tokenizer is None:
        raise InputError("this model brings no tokenizer: give tokenizer=")
    return TextTokenizer.wrap(tokenizer)


def _prompt(words: "TextTokenizer", asked: Question) -> "Prompt":
    from clearhead.report.documents.prompt import messages_prompt, question_prompt, text_prompt
    from clearhead.tracing.inputs import are_messages

    if asked.question is not None:
        return question_prompt(words, asked.named, asked.question)
    if are_messages(asked.text):
        return messages_prompt(words, asked.text)
    return text_prompt(words, asked.text)
