"""Look at one text through a model: trace it, and show where a token drew from."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from clearhead.errors import InputError, gathered
from clearhead.report.asked import TWO_TEXTS, asked_faults
from clearhead.report.build import build_report
from clearhead.report.documents.asking import Question, question_faults
from clearhead.report.documents.looking import look_at_answer
from clearhead.report.fragment import render_fragment
from clearhead.report.notes import notes_for_answer
from clearhead.report.page import PageValues, write_report
from clearhead.report.page.values import MOST_ROWS
from clearhead.report.parts import LookReport, Measure
from clearhead.report.terminal import Terminal
from clearhead.report.text import render_text

if TYPE_CHECKING:  # these bring torch, which the command line imports only when it has to
    from clearhead.tracing.survey import Survey
    from clearhead.tracing.traced import Trace

__all__ = ["Look", "look"]


@dataclass(frozen=True, slots=True)
class Look:
    """What ``look`` saw: shows itself in a notebook, prints as text elsewhere.

    Attributes:
        report: the tree of parts, every number included.
        trace: what it was made of.
        surveyed: of an answer: all heads, for each of its tokens; else None.
    """

    report: LookReport
    trace: "Trace" = field(repr=False)
    surveyed: "Survey | None" = field(default=None, repr=False)

    def to_json(self) -> str:
        """Write the report as one line of JSON."""
        return self.report.to_json()

    def save(self, path: str | os.PathLike[str], *, command: str = "") -> PageValues:
        """Write the report as a page: one file, which needs neither the model nor a network.

        Args:
            path: where to.
            command: what would make the page again.

        Returns:
            The values that stand in it.

        Raises:
            InputError: it cannot be written there.
        """
        seen = self.surveyed  # of a longer answer the page chooses the rows near the token
        if seen is not None and len(seen.rows) > MOST_ROWS:
            seen = None
        return write_report(self.trace, self.report, path, surveyed=seen, command=command)

    def __str__(self) -> str:
        # Its reader may be a file or a log: no colours, and a width that follows the terminal's.
        return render_text(self.report, Terminal.of(None)).rstrip("\n")

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return render_fragment(self.report)


def look(
    model: Any,
    text: Any = None,
    *,
    passages: Mapping[str, str] | Sequence[str] | None = None,
    question: str | None = None,
    answer: str | None = None,
    max_new_tokens: int | None = None,
    token: int | str | None = None,
    by: Measure = "contribution",
    layers: Sequence[int] | None = None,
    top: int = 8,
    tokenizer: Any = None,
) -> Look:
    """Trace a text and show where one of its tokens drew from; or where an answer drew from.

    With ``passages``, ``question``, ``answer`` or ``max_new_tokens`` an answer is looked at: shares
    of its tokens by passage, or by message, and by depth in the prompt.

    Args:
        model: what ``trace`` takes, or a name for ``from_pretrained``.
        text: one text, one list of chat messages or one sequence of ids.
        passages: texts by name, or a list of texts, that the question is about.
        question: what is asked of the model, after the passages, as one message.
        answer: what is looked at; None has the model write it, most probable token by token.
        max_new_tokens: most tokens of the model's own answer; 64 where nothing is said.
        token: the chosen token: a position, or a word of the text (its last occurrence). None is
            the last token; of an answer, its first.
        by: what the shares follow, ``"contribution"`` or ``"attention"``.
        layers: the layers to trace and to sum over; all by default.
        top: how many of the strongest links to list.
        tokenizer: the tokenizer, where the model does not bring one.

    Returns:
        A Look; print it, or let a notebook show it.

    Raises:
        InputError: an argument cannot be served, a batch, or an encoder-decoder.
        TokenError: the text is empty or too long, or the token is not in it or not in the answer.
        CheckpointError: the model that was named cannot be loaded.
        TraceError: the model cannot be traced, or its shares are not finite.
        NotKeptError: ``by`` is ``"contribution"``, and the model's W_O is not known.
        UnsupportedError: an answer is looked at, and the model predicts no next token.

    Cost: one traced forward pass (memory linear in the text), then two rows of A a layer and head;
    of an answer: :func:`~clearhead.report.documents.looking.look_at_answer`.
    """
    asked = Question(text, passages, question, answer, max_new_tokens)
    faults = [*asked_faults(by, top), *question_faults(asked)]
    if faults:
        raise InputError(gathered("cannot look", faults))
    from clearhead import from_pretrained
    from clearhead.tracing.models import is_encoder_decoder

    loaded = from_pretrained(model) if isinstance(model, str) else model
    if is_encoder_decoder(loaded):
        raise InputError(TWO_TEXTS)
    seeing = _look_at_answer if asked.is_asked else _look_at_text
    return seeing(loaded, asked, token, tokenizer=tokenizer, by=by, layers=layers, top=top)


def _look_at_text(
    model: Any, asked: Question, token: int | str | None, *, tokenizer: Any, **how: Any
) -> Look:
    from clearhead import trace

    traced = trace(model, asked.text, layers=how["layers"], tokenizer=tokenizer)
    if isinstance(traced, list):
        raise InputError(
            f"text: expected one sequence; got a batch of {len(traced)}; look at each on its own"
        )
    report = build_report(traced, token=-1 if token is None else token, **how)
    return Look(report, traced)  # pyright: ignore[reportArgumentType]  encoder-decoders are refused


def _look_at_answer(
    model: Any, asked: Question, token: int | str | None, *, tokenizer: Any, **how: Any
) -> Look:
    seen = look_at_answer(model, asked, layers=how["layers"], tokenizer=tokenizer)
    answer = seen.documents.answer
    chosen = answer.start if token is None else token
    seen.check_token(chosen)
    report = build_report(seen.trace, token=chosen, **how)
    notes = (*notes_for_answer(seen.documents, seen.plain), *report.notes)
    return Look(replace(report, documents=seen.documents, notes=notes), seen.trace, seen.surveyed)
