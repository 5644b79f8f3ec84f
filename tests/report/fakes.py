"""A trace that answers as a real one does, with numbers made by hand."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from clearhead.errors import NotKeptError
from clearhead.tokens.pieces import Piece
from clearhead.tracing.finding import occurrences


@dataclass(frozen=True)
class FakeLink:
    layer: int
    head: int
    source: int
    weight: float
    contribution: float
    share: float


@dataclass(frozen=True)
class FakeSources:
    target: int
    target_occurrences: int
    by: str
    share: Tensor
    strongest: tuple[FakeLink, ...]
    first_token_attention: float
    tokens: tuple[str, ...]
    segments: dict[str, float] | None = None


@dataclass(frozen=True)
class FakeNext:
    token: str
    token_id: int
    probability: float


@dataclass(frozen=True)
class FakeTrace:
    """A text with its shares: as given, then falling with distance; later tokens get none."""

    pieces: tuple[Piece, ...]
    attention: tuple[float, ...] = ()
    contribution: tuple[float, ...] = ()
    model_name: str = "SmolLM2-135M-Instruct"
    weights_origin: str = "SmolLM2-135M-Instruct Q4_1, dequantised to float32"
    layers: tuple[int, ...] = tuple(range(30))
    heads: int = 9
    causal: bool = True
    seconds: float = 0.2125
    projection_known: bool = True
    likeliest: tuple[FakeNext, ...] = (
        FakeNext(" Paris", 7042, 0.773),
        FakeNext(" a", 253, 0.061),
        FakeNext(" located", 3807, 0.031),
        FakeNext(" the", 260, 0.0123),
        FakeNext("\n", 198, 0.0001),
    )

    @classmethod
    def of(cls, *texts: str | Piece, **fields: object) -> "FakeTrace":
        pieces = (text if isinstance(text, Piece) else Piece(text) for text in texts)
        return cls(tuple(pieces), **fields)

    @property
    def tokens(self) -> tuple[str, ...]:
        return tuple(piece.label for piece in self.pieces)

    @property
    def token_ids(self) -> tuple[int, ...]:
        return tuple(range(len(self.pieces)))

    @property
    def nbytes(self) -> int:
        return 104_440 * len(self.pieces)

    @property
    def dense_nbytes(self) -> int:
        return 4 * len(self.layers) * self.heads * len(self.pieces) ** 2

    def __len__(self) -> int:
        return len(self.pieces)

    def next_tokens(self, k: int = 5) -> tuple[FakeNext, ...]:
        return self.likeliest[:k]

    def places(self, token: int | str) -> list[int]:
        return occurrences(token, self.pieces)

    def find(self, token: int | str) -> int:
        return self.places(token)[-1]

    def sources(
        self,
        token: int | str = -1,
        *,
        by: str = "contribution",
        layers: Sequence[int] | None = None,
        top: int = 10,
    ) -> FakeSources:
        if by == "contribution" and not self.projection_known:
            raise NotKeptError("contributions need W_O, and this model's W_O is not known")
        places = self.places(token)
        share = self.share(places[-1], by)
        return FakeSources(
            target=places[-1],
            target_occurrences=len(places),
            by=by,
            share=share,
            strongest=self.links(share, layers or self.layers, top),
            first_token_attention=float(self.share(places[-1], "attention")[0]),
            tokens=self.tokens,
        )

    def share(self, target: int, by: str) -> Tensor:
        given = self.attention if by == "attention" else self.contribution
        count = len(self.pieces)
        made = [1 / (2 + abs(target - p)) for p in range(count)]
        raw = torch.tensor([*given, *made[len(given) :]], dtype=torch.float32)
        reachable = torch.arange(count) <= target if self.causal else torch.ones(count)
        raw = raw * reachable
        return raw / raw.sum()

    def links(self, share: Tensor, layers: Sequence[int], top: int) -> tuple[FakeLink, ...]:
        sources = share.argsort(descending=True, stable=True).tolist()
        triples = (
            (source, layer, head)
            for source in sources
            for layer in layers
            for head in range(0, self.heads, 4)
        )
        return tuple(
            FakeLink(
                layer=layer,
                head=head,
                source=source,
                weight=math.sqrt(float(share[source])),
                contribution=12.5 * float(share[source]) if self.projection_known else math.nan,
                share=float(share[source]) / len(layers),
            )
            for _, (source, layer, head) in zip(range(top), triples, strict=False)
        )
