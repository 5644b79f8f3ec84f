"""What attention gives back: C and L, and everything between its lines."""

from dataclasses import dataclass, field
from typing import TypeVar

from jaxtyping import Float
from torch import Tensor

from clearhead.errors import NotKeptError
from clearhead.pipeline.matrix import AttentionMatrix, ScoreMatrix
from clearhead.pipeline.observe import Observed, PooledMap, TopKeys
from clearhead.pipeline.showing import ShowsItself
from clearhead.pipeline.steps import five_steps

__all__ = ["AttentionResult"]

_Kind = TypeVar("_Kind")


@dataclass(frozen=True, eq=False, repr=False)
class AttentionResult(ShowsItself):
    """What attention computed, and everything between its lines.

    Attributes:
        context: C, the values mixed by the weights, shaped like the query with d_v for d_k.
        logsumexp: L, one number a row; −inf for a row that sees nothing.
        weights: A, never formed; index it for exact rows and tiles.
        implementation: what computed it: ``"fused"``, ``"tiles"`` or ``"reference"``.
        value: V, as used: under autocast the rounded one.
        observed: the statistics named in ``observe=``.
    """

    context: Float[Tensor, "*batch n d_v"]
    logsumexp: Float[Tensor, "*batch n"]
    weights: AttentionMatrix
    implementation: str
    value: Float[Tensor, "*kv_batch m d_v"]
    observed: dict[str, Observed] = field(default_factory=dict[str, Observed])

    @property
    def scores(self) -> ScoreMatrix:
        """S, never formed: soft-capped, biased, −inf where masked."""
        return self._scores(raw=False)

    @property
    def raw_scores(self) -> ScoreMatrix:
        """scale · Q Kᵀ, never formed: before soft-cap, bias and mask."""
        return self._scores(raw=True)

    @property
    def received(self) -> Float[Tensor, "*batch m"]:
        """Column sums of A, if ``observe=`` named them."""
        return self._observed("received", Tensor)

    @property
    def entropy(self) -> Float[Tensor, "*batch n"]:
        """Entropy of each row of A in nats, if ``observe=`` named it."""
        return self._observed("entropy", Tensor)

    @property
    def top_keys(self) -> TopKeys:
        """The strongest keys of each row (:class:`TopKeys`), if ``observe=`` named them."""
        return self._observed("top_keys", TopKeys)

    @property
    def pooled(self) -> PooledMap:
        """A made small by maximum (:class:`PooledMap`), if ``observe=`` named it."""
        return self._observed("pooled", PooledMap)

    def __repr__(self) -> str:
        steps = five_steps(self.weights, self.scores, self.raw_scores, context=self.context)
        return steps or (
            f"AttentionResult(context={tuple(self.context.shape)}, "
            f"logsumexp={tuple(self.logsumexp.shape)}, weights={self.weights.shape} never formed, "
            f"implementation={self.implementation!r})"
        )

    def _scores(self, *, raw: bool) -> ScoreMatrix:
        of = self.weights
        return ScoreMatrix(of.query, of.key, of.bound, leading=of.leading, raw=raw)

    def _observed(self, name: str, kind: type[_Kind]) -> _Kind:
        if name not in self.observed:
            raise NotKeptError(
                f"{name} was not observed: call attention(..., observe=({name!r},)), "
                f"or ask result.weights.{name}() now"
            )
        found = self.observed[name]
        assert isinstance(found, kind)
        return found
