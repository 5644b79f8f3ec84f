"""Look at one text through a model: trace it, and show where a token drew from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clearhead.errors import InputError
from clearhead.report.asked import TWO_TEXTS, check_asked
from clearhead.report.build import build_report
from clearhead.report.fragment import render_fragment
from clearhead.report.parts import LookReport, Measure
from clearhead.report.terminal import Terminal
from clearhead.report.text import render_text

__all__ = ["Look", "look"]


@dataclass(frozen=True, slots=True)
class Look:
    """What ``look`` saw: shows itself in a notebook, prints as text elsewhere.

    Attributes:
        report: the tree of parts, every number included.
    """

    report: LookReport

    def to_json(self) -> str:
        """Write the report as one line of JSON."""
        return self.report.to_json()

    def __str__(self) -> str:
        # Its reader may be a file or a log: no colours, and a width that follows the terminal's.
        return render_text(self.report, Terminal.of(None)).rstrip("\n")

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return render_fragment(self.report)


def look(
    model: Any,
    text: Any,
    *,
    token: int | str = -1,
    by: Measure = "contribution",
    layers: Sequence[int] | None = None,
    top: int = 8,
    tokenizer: Any = None,
) -> Look:
    """Trace a text and show where one of its tokens drew from.

    Args:
        model: what ``trace`` takes, or a name for ``from_pretrained``.
        text: one text, one list of chat messages or one sequence of ids.
        token: the chosen token: a position, or a word of the text (its last occurrence).
        by: what the shares follow, ``"contribution"`` or ``"attention"``.
        layers: the layers to trace and to sum over; all by default.
        top: how many of the strongest links to list.
        tokenizer: the tokenizer, where the model does not bring one.

    Returns:
        A Look; print it, or let a notebook show it.

    Raises:
        InputError: an argument cannot be served, ``text`` is a batch, or the model an
            encoder-decoder.
        TokenError: the text is empty or too long, or the token is not in it.
        CheckpointError: the model that was named cannot be loaded.
        TraceError: the model cannot be traced, or its shares are not finite.
        NotKeptError: ``by`` is ``"contribution"``, and the model's W_O is not known.

    Cost: one traced forward pass (memory linear in the text), then one row of A for each layer and
    head, twice.
    """
    check_asked(by, top)
    from clearhead import from_pretrained, trace
    from clearhead.tracing.models import is_encoder_decoder

    loaded = from_pretrained(model) if isinstance(model, str) else model
    if is_encoder_decoder(loaded):
        raise InputError(TWO_TEXTS)
    traced = trace(loaded, text, layers=layers, tokenizer=tokenizer)
    if isinstance(traced, list):
        raise InputError(
            f"text: expected one sequence; got a batch of {len(traced)}; look at each on its own"
        )
    return Look(build_report(traced, token=token, by=by, layers=layers, top=top))
