"""A prompt, its answer, the answer's trace, and where its tokens drew from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clearhead.errors import InputError, TokenError
from clearhead.report.documents.asking import Question
from clearhead.report.documents.parts import Answer, Documents
from clearhead.report.terminal import status

if TYPE_CHECKING:  # these bring torch, which the command line imports only when it has to
    from clearhead.report.documents.prompt import Prompt
    from clearhead.tokens.tokenizer import TextTokenizer
    from clearhead.tracing.survey import Survey
    from clearhead.tracing.traced import Trace

__all__ = ["LookedAtAnswer", "look_at_answer"]

#: Links of each row that a page lists.
_LINKS = 32


@dataclass(frozen=True, eq=False)
class LookedAtAnswer:
    """What was seen of an answer.

    Attributes:
        trace: of its rows.
        surveyed: all heads, for each of its tokens.
        documents: where they drew from.
        plain: names of control tokens that were read as plain text, by segment.
    """

    trace: "Trace"
    surveyed: "Survey"
    documents: Documents
    plain: dict[str, list[str]]

    def check_token(self, token: int | str) -> None:
        """Refuse to look from a token that is none of the answer's.

        Args:
            token: a position, or a word of the text.

        Raises:
            TokenError: it is none of them, or not in the text at all.
        """
        position, answer = self.trace.find(token), self.documents.answer
        if not answer.start <= position < answer.stop:
            raise TokenError(
                f"token {token!r:.60} is token {position}, in the prompt: an answer is looked from "
                f"its own tokens, {answer.start} to {answer.stop - 1}"
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
    from clearhead.report.documents.fitting import check_fits
    from clearhead.report.documents.prompt import with_answer
    from clearhead.report.documents.shares import documents_of
    from clearhead.tracing.models import traceable
    from clearhead.tracing.survey import survey

    adapter = traceable(model)
    check_answers(model, adapter.name)
    words = _words(adapter.tokenizer if tokenizer is None else tokenizer)
    prompt = _prompt(words, asked)
    given = None if asked.answer is None else with_answer(words, prompt, asked.answer)
    check_fits(
        prompt,
        answer=asked.longest_answer if given is None else len(given),
        most=adapter.context_length,
        model=adapter.name,
        given=given is not None,
    )
    written = None if given else write_answer(model, prompt.ids, words, most=asked.longest_answer)
    ids = given or (written.ids if written else ())
    answer = Answer(
        text=written.text if written else asked.answer or "",
        start=len(prompt.ids),
        stop=len(prompt.ids) + len(ids),
        generated=written is not None,
        ended_by=written.ended_by if written else None,
    )
    with status("tracing the answer …"):
        cache = written.cache if written else None
        found = traced(model, prompt.ids, ids, cache=cache, layers=layers, words=words)
        seen = survey(found, links=_LINKS)
    documents = documents_of(
        seen, segments=prompt.segments, answer=answer, question=prompt.question
    )
    return LookedAtAnswer(found, seen, documents, prompt.plain_names())


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
    if isinstance(asked.text, str):
        return text_prompt(words, asked.text)
    raise InputError(
        f"text: an answer follows a text or chat messages, got {type(asked.text).__name__}"
    )
