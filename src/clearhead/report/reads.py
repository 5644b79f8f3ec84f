"""What a report reads of a trace, and nothing more: the seam between tracing and showing.

Protocols rather than the classes themselves, so that this folder starts without torch and a report
can be built from anything that answers to these names.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from clearhead.report.parts import Measure
from clearhead.tokens.pieces import Piece

__all__ = [
    "ReadableLink",
    "ReadableNextToken",
    "ReadableShares",
    "ReadableSources",
    "ReadableTrace",
]


@runtime_checkable
class ReadableShares(Protocol):
    """A vector of numbers, such as a tensor."""

    def tolist(self) -> list[float]:
        """The numbers as Python floats."""
        ...


@runtime_checkable
class ReadableLink(Protocol):
    """One (layer, head, source) that the chosen token read."""

    @property
    def layer(self) -> int:
        """The layer, from 0."""
        ...

    @property
    def head(self) -> int:
        """The head, from 0."""
        ...

    @property
    def source(self) -> int:
        """The position that was read."""
        ...

    @property
    def weight(self) -> float:
        """A of this head, row and column."""
        ...

    @property
    def contribution(self) -> float:
        """‖A · v · W_O‖."""
        ...

    @property
    def share(self) -> float:
        """Its part of the sum over all links."""
        ...


@runtime_checkable
class ReadableSources(Protocol):
    """Where the chosen token drew from, by one measure."""

    @property
    def target(self) -> int:
        """The chosen token's position."""
        ...

    @property
    def target_occurrences(self) -> int:
        """How many places the word that was asked for stands at."""
        ...

    @property
    def share(self) -> ReadableShares:
        """All shares; they sum to 1."""
        ...

    @property
    def strongest(self) -> Sequence[ReadableLink]:
        """The strongest links, strongest first."""
        ...

    @property
    def first_token_attention(self) -> float:
        """Mean weight on token 0 over the chosen layers and heads."""
        ...


@runtime_checkable
class ReadableNextToken(Protocol):
    """A token that may come next."""

    @property
    def token(self) -> str:
        """Its text."""
        ...

    @property
    def token_id(self) -> int:
        """Its id."""
        ...

    @property
    def probability(self) -> float:
        """Its probability."""
        ...


@runtime_checkable
class ReadableTrace(Protocol):
    """A traced sequence."""

    @property
    def model_name(self) -> str:
        """The model's name."""
        ...

    @property
    def weights_origin(self) -> str:
        """Where the weights come from, and their precision."""
        ...

    @property
    def tokens(self) -> Sequence[str]:
        """The tokens' labels."""
        ...

    @property
    def pieces(self) -> Sequence[Piece]:
        """The tokens, with the parts of split characters told."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes the trace holds."""
        ...

    @property
    def dense_nbytes(self) -> int:
        """Bytes that all weights matrices would take."""
        ...

    @property
    def seconds(self) -> float:
        """Time of the forward pass."""
        ...

    @property
    def layers(self) -> Sequence[int]:
        """The layers that were traced."""
        ...

    @property
    def heads(self) -> int:
        """Heads a layer."""
        ...

    @property
    def causal(self) -> bool:
        """Whether a later token cannot reach an earlier one."""
        ...

    def next_tokens(self, k: int = 5) -> Sequence[ReadableNextToken]:
        """The ``k`` likeliest next tokens; empty where the model predicts none."""
        ...

    def sources(
        self,
        token: int | str = -1,
        *,
        by: Measure = "contribution",
        layers: Sequence[int] | None = None,
        top: int = 10,
    ) -> ReadableSources:
        """Where ``token`` drew from."""
        ...
