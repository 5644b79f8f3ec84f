"""One released model twice, ours beside transformers', and the ways in which a text can be read.

What transformers makes of a row *alone*, whole, without padding and without a cache, is the truth;
ours reads many rows at once, padded and piece by piece, and must say the same of every real token.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor
from transformers import PreTrainedModel

from clearhead.transformer.cache import KVCache
from clearhead.transformer.calls import Encoded
from clearhead.transformer.model import Transformer
from tests.transformer.doubled import Doubled
from tests.transformer.released_families import TEXT, VOCABULARY

__all__ = ["MODES", "PADDINGS", "Alone", "Rows", "Said", "padded", "rows", "whole"]

PADDINGS = ("none", "left", "right")
_LENGTHS = {"none": (TEXT, TEXT, TEXT), "left": (TEXT, 8, 5), "right": (7, TEXT, 5)}
_SOURCES = {"none": (7, 7, 7), "left": (9, 3, 6), "right": (4, 9, 7)}


@dataclass(frozen=True, eq=False)
class Rows:
    """Texts of a batch, the texts their encoder reads, and the side on which rows are filled up."""

    texts: list[Tensor]
    sources: list[Tensor]
    side: str


def rows(generator: torch.Generator, padding: str) -> Rows:
    """Random texts whose lengths call for this padding."""
    texts, sources = (
        [torch.randint(3, VOCABULARY, (n,), generator=generator) for n in lengths[padding]]
        for lengths in (_LENGTHS, _SOURCES)
    )
    return Rows(texts, sources, "right" if padding == "none" else padding)


def padded(texts: Sequence[Tensor], *, side: str) -> tuple[Tensor, Tensor]:
    """Several texts as one batch, filled up with tokens that mean something; and which are real."""
    width = max(map(len, texts))
    ids = torch.full((len(texts), width), 50)
    real = torch.zeros_like(ids)
    for row, text in enumerate(texts):
        place = slice(width - len(text), width) if side == "left" else slice(len(text))
        ids[row, place], real[row, place] = text, 1
    return ids, real


# ---------------------------------------------------------------------------------------- theirs


@dataclass(eq=False)
class Alone:
    """What a transformers model says of one text at a time; each is run once.

    One in float64 is run in float64 throughout.
    """

    model: PreTrainedModel
    _known: dict[tuple[int, ...], Mapping[str, Tensor]] = field(default_factory=dict)

    def of(self, text: Tensor, source: Tensor) -> Mapping[str, Tensor]:
        """Its outputs for a text, by name."""
        key = (*text.tolist(), -1, *source.tolist())
        if key not in self._known:
            given: dict[str, Tensor] = {"input_ids": text[None]}
            if self.model.config.is_encoder_decoder:
                given = {"input_ids": source[None], "decoder_input_ids": text[None]}
            with Doubled() if self.model.dtype == torch.float64 else nullcontext():
                self._known[key] = self.model(**given)
        return self._known[key]

    def vectors(self, said: "Said") -> Tensor:
        """Its vectors where ours said something: those of a text that ended where the call did."""
        text = said.text if self._by_place() else said.text[: said.end]
        output = self.of(text, said.source)
        name = "logits" if "logits" in output else "last_hidden_state"
        return output[name][0, said.begin : said.end]

    def _by_place(self) -> bool:
        """Whether tokens to come change nothing, so that the whole text may be run at once."""
        parameters = getattr(self.model.config, "rope_parameters", None) or {}
        return parameters.get("rope_type") != "longrope"


# ------------------------------------------------------------------------------------------ ours


@dataclass(frozen=True, eq=False)
class Said:
    """What ours said of one row in one call, of tokens begin … end − 1 of its text.

    ``vectors`` are their logits, or the last vectors of a model without.
    """

    text: Tensor
    source: Tensor
    begin: int
    end: int
    vectors: Tensor


class Reader:
    """Our model reading several rows into one cache."""

    def __init__(self, model: Transformer, given: Rows) -> None:
        self.model = model
        self.texts, self.sources, self.side = list(given.texts), list(given.sources), given.side
        dtype = next(model.parameters()).dtype
        self.cache = KVCache(model.config, batch=len(self.texts), capacity=TEXT + 4, dtype=dtype)
        self.encoded = encoded(model, given)
        self.said: list[Said] = []

    def read(self, ends: Sequence[int], *, texts: Sequence[Tensor] | None = None) -> None:
        """Read on until each row holds so many tokens of its text, or of another one."""
        begins = self.cache.lengths
        bounds = list(zip(texts or self.texts, begins, ends, strict=True))
        ids, real = padded([text[begin:end] for text, begin, end in bounds], side=self.side)
        mask = None if real.all() else real
        out = self.model(ids, attention_mask=mask, source=self.encoded, cache=self.cache)
        assert self.cache.lengths == tuple(ends)
        for row, (text, begin, end) in enumerate(bounds):
            if begin < end:
                vectors = out.logits[row, real[row].bool()]
                self.said.append(Said(text, self.sources[row], begin, end, vectors))

    def read_part(self, part: float) -> None:
        """Read on until each row holds a part of its text."""
        self.read([math.ceil(part * len(text)) for text in self.texts])

    def reorder(self, chosen: list[int], generator: torch.Generator) -> None:
        """Make each row another one's copy, that goes on differently."""
        self.cache.reorder(chosen)
        self.sources = [self.sources[row] for row in chosen]
        texts = [self.texts[row].clone() for row in chosen]
        for text, held in zip(texts, self.cache.lengths, strict=True):
            text[held:] = torch.randint(3, VOCABULARY, (len(text) - held,), generator=generator)
        self.texts = texts
        if self.encoded is not None:
            real = self.encoded.real
            self.encoded = Encoded(
                self.encoded.hidden[chosen], None if real is None else real[chosen]
            )


def encoded(model: Transformer, given: Rows) -> Encoded | None:
    """The sources as the decoder sees them, or None where there is no encoder."""
    if model.encoder is None:
        return None
    ids, real = padded(given.sources, side=given.side)
    return model.encode(ids, attention_mask=real)


def whole(model: Transformer, given: Rows, generator: torch.Generator) -> list[Said]:
    """Read everything at once, without a cache."""
    ids, real = padded(given.texts, side=given.side)
    out = model(ids, attention_mask=real, source=encoded(model, given))
    vectors = out.hidden if out.logits is None else out.logits
    return [
        Said(text, given.sources[row], 0, len(text), vectors[row, real[row].bool()])
        for row, text in enumerate(given.texts)
    ]


def _one_at_a_time(model: Transformer, given: Rows, generator: torch.Generator) -> list[Said]:
    reader = Reader(model, given)
    lengths, width = [len(text) for text in given.texts], max(map(len, given.texts))
    for column in range(1, width + 1):
        late = [width - length if given.side == "left" else 0 for length in lengths]
        reader.read([min(max(column - b, 0), n) for b, n in zip(late, lengths, strict=True)])
    return reader.said


def _chunks(model: Transformer, given: Rows, generator: torch.Generator) -> list[Said]:
    reader = Reader(model, given)
    for part in (0.4, 0.5, 0.75, 1.0):
        reader.read_part(part)
    return reader.said


def _after_crop(model: Transformer, given: Rows, generator: torch.Generator) -> list[Said]:
    reader = Reader(model, given)
    reader.read_part(0.6)
    held = reader.cache.lengths
    wrong = torch.randint(3, VOCABULARY, (3,), generator=generator)
    others = [torch.cat((t[:n], wrong)) for t, n in zip(given.texts, held, strict=True)]
    reader.read([n + 3 for n in held], texts=others)
    reader.cache.crop(-3)
    assert reader.cache.lengths == held
    reader.read_part(0.9)
    reader.cache.crop(4)
    assert reader.cache.lengths == (4, 4, 4)
    reader.read_part(1.0)
    reader.cache.crop(0)
    reader.read_part(1.0)
    return reader.said


def _after_reorder(model: Transformer, given: Rows, generator: torch.Generator) -> list[Said]:
    reader = Reader(model, given)
    for part, chosen in ((0.4, [2, 0, 0, 1]), (0.7, [3, 1, 1])):
        reader.read_part(part)
        reader.reorder(chosen, generator)
    reader.read_part(1.0)
    return reader.said


#: Ways to read, by name.
MODES: Mapping[str, Callable[[Transformer, Rows, torch.Generator], list[Said]]] = {
    "full pass": whole,
    "one token at a time": _one_at_a_time,
    "chunks": _chunks,
    "after crop": _after_crop,
    "after reorder": _after_reorder,
}
