"""The tree of parts a report is made of: plain values, and every number that a renderer shows.

    LookReport
    ├── head: HeadLine               model, weights, sizes, time
    ├── strip: Strip                 the text as tokens, each with its share
    │   ├── tokens: SourceToken …
    │   ├── stretches: Stretch …     what stands open and what is folded
    │   └── scale: Band …            what a shade means
    ├── heads: HeadTable             the strongest (layer, head, source)
    ├── first_token: FirstToken      how much rests on token 0, how much it brings
    ├── next_tokens: NextTokens      what comes next
    ├── notes: Note …                how each number is made, and what it is not
    └── documents: Documents         of an answer: where it drew from, passage by passage

Renderers add no number of their own, so ``to_json`` carries all that any of them shows.
"""

import json
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from clearhead.report.documents.parts import Documents

__all__ = [
    "MEASURES",
    "Band",
    "FirstToken",
    "HeadLine",
    "HeadRow",
    "HeadTable",
    "LikelyToken",
    "LookReport",
    "Measure",
    "NextTokens",
    "Note",
    "SourceToken",
    "Stretch",
    "Strip",
]

Measure = Literal["contribution", "attention"]
MEASURES: tuple[Measure, ...] = get_args(Measure)


@dataclass(frozen=True, slots=True)
class HeadLine:
    """What was looked at, and what it took.

    Attributes:
        model: the model's name.
        weights_origin: where its weights come from, and their precision.
        tokens: how many tokens the text has.
        layers: the layers that the shares sum over.
        heads: heads a layer.
        seconds: time of the forward pass.
        trace_bytes: what the trace holds; linear in the number of tokens.
        dense_bytes: what all weights matrices would take; quadratic in the number of tokens.
    """

    model: str
    weights_origin: str
    tokens: int
    layers: tuple[int, ...]
    heads: int
    seconds: float
    trace_bytes: int
    dense_bytes: int


@dataclass(frozen=True, slots=True)
class SourceToken:
    """One token of the text as a source of the chosen one.

    Attributes:
        position: its place in the text, from 0.
        text: what it stands for, as it is; of a character split over tokens, the whole character.
        part: which part of a split character it is, from 1.
        parts: how many tokens the character is split over; 1 for an ordinary token.
        special: whether it is a control token of the vocabulary.
        space_before: whether a space stands between it and the token before it; where that space is
            its own, ``text`` begins with it.
        reachable: false where it came later and the model is causal: it cannot be a source.
        share: its share by the chosen measure; all shares sum to 1.
        contribution_share: its share by contribution, or None where the model's W_O is not known.
        attention_share: its share by attention.
        level: its band of the scale, 0 for below the scale.
        rank: 1 for the largest share.
    """

    position: int
    text: str
    part: int
    parts: int
    special: bool
    space_before: bool
    reachable: bool
    share: float
    contribution_share: float | None
    attention_share: float
    level: int
    rank: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """Neighbouring tokens that stand open, or are folded into one mark.

    Attributes:
        start: the first position.
        stop: one past the last position.
        folded: whether a renderer of limited room shows only the sums.
        share: what the stretch's tokens bring together.
        largest: the largest share among them.
    """

    start: int
    stop: int
    folded: bool
    share: float
    largest: float


@dataclass(frozen=True, slots=True)
class Band:
    """One band of the absolute scale: shares of at least ``at_least``, up to the next band."""

    level: int
    at_least: float


@dataclass(frozen=True, slots=True)
class Strip:
    """The text as a strip of tokens, seen from the chosen one.

    Attributes:
        target: the chosen token's position.
        asked: the word the caller chose it by, or None where it was chosen by position.
        occurrences: how many places the word was found at; the last is the target.
        found_at: those places, where they could be told.
        by: the measure that ``share`` follows.
        causal: whether a later token cannot reach an earlier one.
        tokens: one for each token of the text.
        stretches: cover the text from first to last token without overlap.
        scale: the bands, weakest first; each is twice the one before.
        strongest: positions of the largest shares, largest first.
    """

    target: int
    asked: str | None
    occurrences: int
    found_at: tuple[int, ...]
    by: Measure
    causal: bool
    tokens: tuple[SourceToken, ...]
    stretches: tuple[Stretch, ...]
    scale: tuple[Band, ...]
    strongest: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HeadRow:
    """One link: a head of a layer reading one source for the chosen token.

    Attributes:
        layer: the layer, from 0.
        head: the head, from 0.
        source: the position that was read.
        text: the source token's label.
        weight: A of this head, chosen token and source.
        contribution: the length of what it brought, ‖A · v · W_O‖; None where W_O is not known.
        share: its part of the sum over the chosen layers, all heads and all sources.
    """

    layer: int
    head: int
    source: int
    text: str
    weight: float
    contribution: float | None
    share: float


@dataclass(frozen=True, slots=True)
class HeadTable:
    """The strongest links, and how many of them read the first token."""

    rows: tuple[HeadRow, ...]
    reading_first_token: int


@dataclass(frozen=True, slots=True)
class FirstToken:
    """How much of the chosen token's attention rests on token 0, beside how much that brings.

    Attributes:
        text: the first token's label.
        attention: mean weight on token 0 over the chosen layers and heads.
        contribution_share: the share of the contribution that comes from it, where it is known.
        soaks: whether it takes a quarter of the attention or more, and brings a smaller part.
    """

    text: str
    attention: float
    contribution_share: float | None
    soaks: bool


@dataclass(frozen=True, slots=True)
class LikelyToken:
    """A token that may come next, and how probable the model holds it."""

    text: str
    token_id: int
    probability: float


@dataclass(frozen=True, slots=True)
class NextTokens:
    """What comes next after position ``after``; empty for a model that predicts no next token."""

    after: int
    likeliest: tuple[LikelyToken, ...]


@dataclass(frozen=True, slots=True)
class Note:
    """One sentence or two that a reader needs in order not to be misled.

    Attributes:
        subject: what it is about, in a word or two.
        text: the note.
        source: the paper it rests on, or an empty string.
    """

    subject: str
    text: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class LookReport:
    """Where one token drew from, through which heads, and how the numbers are made."""

    head: HeadLine
    strip: Strip
    heads: HeadTable
    first_token: FirstToken
    next_tokens: NextTokens
    notes: tuple[Note, ...]
    documents: Documents | None = None

    @property
    def target(self) -> SourceToken:
        """The chosen token."""
        return self.strip.tokens[self.strip.target]

    def to_json(self) -> str:
        """Write the whole tree as one line of JSON.

        It is ASCII: tokens may hold anything, and nothing raw of theirs may reach a terminal.

        Returns:
            An object with ``"format": "clearhead-look/1"`` and one member a part.
        """
        return json.dumps({"format": "clearhead-look/1", **asdict(self)}, allow_nan=False)
