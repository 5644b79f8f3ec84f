"""Traces of an encoder-decoder: its encoder, its decoder, and how the one looks at the other."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Never

from clearhead.errors import InputError
from clearhead.tokens.pieces import Piece
from clearhead.tracing.layer_trace import LayerTrace
from clearhead.tracing.traced import Trace
from clearhead.tracing.traced_layers import TracedLayers, labels, listed

__all__ = ["CrossTrace", "EncoderDecoderTrace"]


@dataclass(frozen=True, eq=False, repr=False)
class CrossTrace(TracedLayers):
    """Cross-attention: how each token of the target looked at the tokens of the source.

    ``cross[5]`` is the cross-attention of decoder layer 5. Rows of S and A are the target's n
    tokens, columns the source's m; K and V are made of what the encoder gave. ``sources(token)``
    says from which *source* tokens a token of the target drew.

    Attributes:
        source_pieces: the source's tokens as shown: the columns.
    """

    source_pieces: tuple[Piece, ...]

    @property
    def columns(self) -> tuple[Piece, ...]:
        """The source's tokens."""
        return self.source_pieces

    @property
    def source_tokens(self) -> tuple[str, ...]:
        """The source's tokens as shown; ``tokens`` are the target's."""
        return labels(self.source_pieces)

    def __repr__(self) -> str:
        return (
            f"CrossTrace({self.model_name!r}, {len(self)} target by {len(self.columns)} source "
            f"tokens, {listed(self.layers)}, {self.nbytes:,} bytes)"
        )


@dataclass(frozen=True, eq=False, repr=False)
class EncoderDecoderTrace:
    """One source and one target, as an encoder-decoder's attention saw them.

    ``t.encoder[0]``, ``t.decoder[0]`` and ``t.cross[0]`` are the three attentions of number 0.

    Attributes:
        encoder: the source, as its own tokens looked at each other.
        decoder: the target, likewise; its ``next_tokens()`` are what may follow.
        cross: the target, as it looked at the source.
    """

    encoder: Trace
    decoder: Trace
    cross: CrossTrace

    @property
    def nbytes(self) -> int:
        """Bytes that the three hold."""
        return self.encoder.nbytes + self.decoder.nbytes + self.cross.nbytes

    @property
    def dense_nbytes(self) -> int:
        """Bytes that A alone would take for all traced layers, stored whole in the run's dtype."""
        return self.encoder.dense_nbytes + self.decoder.dense_nbytes + self.cross.dense_nbytes

    @property
    def seconds(self) -> float:
        """How long the model ran, encoder and decoder."""
        return self.decoder.seconds

    def __getitem__(self, layer: object) -> LayerTrace:
        raise InputError(
            f"an encoder-decoder has three layers of one number: ask for .encoder[{layer!r}] (the "
            f"source looking at itself), .decoder[{layer!r}] (the target looking at itself) or "
            f".cross[{layer!r}] (the target looking at the source)"
        )

    def __iter__(self) -> Iterator[Never]:
        raise InputError(
            "an encoder-decoder's layers are of three kinds: go through .encoder, .decoder or "
            ".cross"
        )

    def __getattr__(self, name: str) -> Never:
        three = [part for part in ("encoder", "decoder", "cross") if _has(part, name)]
        ask = f": ask for {_either([f'.{part}.{name}' for part in three])}" if three else ""
        raise AttributeError(f"an encoder-decoder's trace has no {name!r} of its own{ask}")

    def __repr__(self) -> str:
        encoder, decoder = self.encoder, self.decoder
        return (
            f"EncoderDecoderTrace({encoder.model_name!r}, .encoder: {len(encoder)} tokens, "
            f"{listed(encoder.layers)}; .decoder and .cross: {len(decoder)} tokens, "
            f"{listed(decoder.layers)}; {self.nbytes:,} bytes)"
        )


def _has(part: str, name: str) -> bool:
    kind = CrossTrace if part == "cross" else Trace
    return not name.startswith("_") and (hasattr(kind, name) or name in kind.__dataclass_fields__)


def _either(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else names[0]
