"""Build the tree of parts from a trace."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from clearhead.errors import InputError, NotKeptError, TraceError, gathered
from clearhead.report.asked import TWO_TEXTS, asked_faults
from clearhead.report.folding import stretches
from clearhead.report.notes import notes_for
from clearhead.report.parts import (
    FirstToken,
    HeadLine,
    HeadRow,
    HeadTable,
    LikelyToken,
    LookReport,
    Measure,
    NextTokens,
    SourceToken,
    Strip,
)
from clearhead.report.scale import SCALE, level_of
from clearhead.tokens.pieces import Piece
from clearhead.tracing.finding import occurrences

if TYPE_CHECKING:  # these bring torch, which the command line imports only when it has to
    from clearhead.tracing.encoder_decoder import EncoderDecoderTrace
    from clearhead.tracing.sources import Sources
    from clearhead.tracing.traced import Trace

__all__ = ["build_report"]

_SOAKS_FROM = 0.25
_LIKELIEST = 5

_Shares = dict[Measure, list[float] | None]


def build_report(
    trace: "Trace | EncoderDecoderTrace",
    *,
    token: int | str = -1,
    by: Measure = "contribution",
    layers: Sequence[int] | None = None,
    top: int = 8,
) -> LookReport:
    """Build the report on one token of a traced text.

    Args:
        trace: the traced text.
        token: the chosen token: a position, or a word of the text (its last occurrence).
        by: what the shares follow, ``"contribution"`` or ``"attention"``.
        layers: the layers the shares sum over; all that were traced by default.
        top: how many of the strongest links and sources to list.

    Returns:
        The tree of parts.

    Raises:
        InputError: ``by``, ``layers`` or ``top`` cannot be served, all faults in one message; or it
            is the trace of an encoder-decoder.
        TokenError: the token is not in the text.
        NotKeptError: the trace did not keep the token's row, or contributions are asked for and the
            model's W_O is not known.
        TraceError: the shares are not finite.

    Cost: two passes of one row of A over the chosen layers and heads; nothing n×n.
    """
    from clearhead.tracing.encoder_decoder import EncoderDecoderTrace  # who has a trace has torch

    if isinstance(trace, EncoderDecoderTrace):
        raise InputError(TWO_TEXTS)
    _check(trace, by, layers, top)
    chosen = trace.sources(token, by=by, layers=layers, top=top)
    shares = _shares(trace, chosen, by, layers)
    heads = _heads(trace, chosen)
    first = _first_token(trace, chosen, shares["contribution"])
    return LookReport(
        head=_head_line(trace, layers),
        strip=_strip(trace, chosen, shares, by, asked=token if isinstance(token, str) else None),
        heads=heads,
        first_token=first,
        next_tokens=_next_tokens(trace),
        notes=notes_for(by, heads, first),
    )


def _check(trace: "Trace", by: str, layers: Sequence[int] | None, top: int) -> None:
    faults = asked_faults(by, top)
    missing = sorted(set(layers or ()) - set(trace.layers))
    if missing or (layers is not None and not layers):
        got = ", ".join(map(str, missing)) or "no layer at all"
        faults.append(f"layers: expected some of {_ranges(trace.layers)}; got {got}")
    if faults:
        raise InputError(gathered("cannot look", faults))


def _ranges(layers: Sequence[int]) -> str:
    whole = list(layers) == list(range(layers[0], layers[-1] + 1))
    return f"{layers[0]}-{layers[-1]}" if whole else ", ".join(map(str, layers))


def _shares(
    trace: "Trace", chosen: "Sources", by: Measure, layers: Sequence[int] | None
) -> _Shares:
    """All shares by both measures: a page switches between them without the model."""
    own = _finite(chosen, by)
    if by == "contribution":
        beside = trace.sources(chosen.target, by="attention", layers=layers, top=1)
        return {"contribution": own, "attention": _finite(beside, "attention")}
    try:
        beside = trace.sources(chosen.target, by="contribution", layers=layers, top=1)
    except NotKeptError:  # the model's W_O is not known: its weights can be shown all the same
        return {"contribution": None, "attention": own}
    return {"contribution": _finite(beside, "contribution"), "attention": own}


def _finite(sources: "Sources", by: Measure) -> list[float]:
    shares = [float(share) for share in sources.share.numpy(force=True).tolist()]
    if not all(map(math.isfinite, shares)):
        raise TraceError(
            f"the shares by {by} of token {sources.target} are not finite: the model's queries,"
            " keys or values hold NaN or Inf; check its weights and precision"
        )
    return shares


def _head_line(trace: "Trace", layers: Sequence[int] | None) -> HeadLine:
    return HeadLine(
        model=trace.model_name,
        weights_origin=trace.weights_origin,
        tokens=len(trace.tokens),
        layers=tuple(sorted(set(layers if layers is not None else trace.layers))),
        heads=trace.heads,
        seconds=float(trace.seconds),
        trace_bytes=int(trace.nbytes),
        dense_bytes=int(trace.dense_nbytes),
    )


def _strip(
    trace: "Trace",
    chosen: "Sources",
    shares: _Shares,
    by: Measure,
    *,
    asked: str | None,
) -> Strip:
    attention, contribution = shares["attention"] or [], shares["contribution"]
    own = shares[by] or []
    words = _are_words(trace.pieces)
    order = sorted(range(len(own)), key=lambda position: -own[position])
    rank = {position: place for place, position in enumerate(order, start=1)}
    tokens = tuple(
        SourceToken(
            position=position,
            text=piece.text,
            part=piece.part,
            parts=piece.parts,
            special=piece.special,
            space_before=_space_before(piece, words=words and position > 0),
            reachable=not trace.causal or position <= chosen.target,
            share=own[position],
            contribution_share=None if contribution is None else contribution[position],
            attention_share=attention[position],
            level=level_of(own[position]),
            rank=rank[position],
        )
        for position, piece in enumerate(trace.pieces)
    )
    return Strip(
        target=chosen.target,
        asked=asked,
        occurrences=chosen.target_occurrences if asked is not None else 1,
        found_at=tuple(occurrences(chosen.target if asked is None else asked, trace.pieces)),
        by=by,
        causal=trace.causal,
        tokens=tokens,
        stretches=stretches(own, chosen.target),
        scale=SCALE,
        strongest=tuple(position for position in order[:_LIKELIEST] if own[position] > 0),
    )


def _space_before(piece: Piece, *, words: bool) -> bool:
    if words:
        return not piece.text.startswith("##")
    return piece.text.startswith(" ") and piece.text.strip(" ") != ""


def _are_words(pieces: Sequence[Piece]) -> bool:
    """Whether the vocabulary is one of words, which keeps no spaces: ``play ##ing [SEP]``."""
    if any(piece.text.isspace() or " " in piece.text for piece in pieces):
        return False
    return any(piece.text in ("[CLS]", "[SEP]") or piece.text[:2] == "##" for piece in pieces)


def _heads(trace: "Trace", chosen: "Sources") -> HeadTable:
    rows = tuple(
        HeadRow(
            layer=link.layer,
            head=link.head,
            source=link.source,
            text=trace.tokens[link.source],
            weight=float(link.weight),
            contribution=float(link.contribution) if math.isfinite(link.contribution) else None,
            share=float(link.share),
        )
        for link in chosen.strongest
    )
    # The first token reading itself is no sink: it has nothing else to read.
    reading_first = sum(row.source == 0 for row in rows) if chosen.target > 0 else 0
    return HeadTable(rows, reading_first)


def _first_token(trace: "Trace", chosen: "Sources", contribution: list[float] | None) -> FirstToken:
    attention = float(chosen.first_token_attention)
    brings = None if contribution is None else contribution[0]
    less = brings is not None and brings < attention
    soaks = attention >= _SOAKS_FROM and less and chosen.target > 0
    return FirstToken(trace.tokens[0], attention, brings, soaks)


def _next_tokens(trace: "Trace") -> NextTokens:
    likeliest = tuple(
        LikelyToken(entry.token, entry.token_id, float(entry.probability))
        for entry in trace.next_tokens(_LIKELIEST)
    )
    return NextTokens(after=len(trace.tokens) - 1, likeliest=likeliest)
