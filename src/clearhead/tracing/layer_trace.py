"""What a trace knows of one layer: some of it kept, the rest made from it when asked."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.errors import NotKeptError
from clearhead.pipeline.dispatch import choose, compute
from clearhead.pipeline.matrix import AttentionMatrix, ScoreMatrix
from clearhead.tracing.models import OutputProjection
from clearhead.tracing.recorder import Recorded

__all__ = ["LayerTrace", "unknown_projection", "value_norms"]

_linalg = cast("Any", torch.linalg)  # its functions say nothing of their types


@dataclass(frozen=True, eq=False, repr=False)
class LayerTrace:
    """One attention layer of one sequence, without a batch axis.

    r counts the kept queries (all n unless ``queries=`` was given), m the keys. Q, K, V and L are
    the run's own; S and A are made from them block by block; C and O are made again when asked,
    unless kept.

    Attributes:
        recorded: what was kept.
        queries: positions of the kept queries, (r,).
        projection: W_O, or None where the model did not show it.
        same_bits: whether C and O, made again, have the bits of the run: they do when the whole of
            one sequence was run alone and kept where it ran, since the same kernel is then called
            with the same arguments.
    """

    recorded: Recorded
    queries: Int[Tensor, "r"]
    projection: OutputProjection | None
    same_bits: bool

    @property
    def query(self) -> Float[Tensor, "heads r d_k"]:
        """Q, after rotation."""
        return self.recorded.tensors["query"]

    @property
    def key(self) -> Float[Tensor, "kv_heads m d_k"]:
        """K, after rotation, not repeated for grouped heads."""
        return self.recorded.tensors["key"]

    @property
    def value(self) -> Float[Tensor, "kv_heads m d_v"]:
        """V, not repeated for grouped heads."""
        return self.recorded.tensors["value"]

    @property
    def logsumexp(self) -> Float[Tensor, "heads r"]:
        """L, from the run."""
        return self.recorded.tensors["logsumexp"]

    @property
    def weights(self) -> AttentionMatrix:
        """A, never formed: (heads, r, m)."""
        return AttentionMatrix(
            self.query[None],
            self.key[None],
            self.recorded.bound,
            leading=(False, True),
            logsumexp=self.logsumexp[None],
        )

    @property
    def scores(self) -> ScoreMatrix:
        """S, never formed: (heads, r, m)."""
        return self._scores(raw=False)

    @property
    def raw_scores(self) -> ScoreMatrix:
        """scale · Q Kᵀ, never formed: (heads, r, m)."""
        return self._scores(raw=True)

    @property
    def context(self) -> Float[Tensor, "heads r d_v"]:
        """C: kept, or made again by the run's own call (see ``same_bits``). Cost: one attention."""
        kept = self.recorded.tensors.get("context")
        return self._context if kept is None else kept

    @property
    def output(self) -> Float[Tensor, "r d_model"]:
        """O: kept, or made again from C and W_O."""
        kept = self.recorded.tensors.get("output")
        if kept is not None:
            return kept
        joined = self.context.transpose(0, 1).reshape(1, len(self.queries), -1)
        return self._projection("output")(joined)[0]

    @property
    def head_outputs(self) -> Float[Tensor, "heads r d_model"]:
        """Each head's C through its slice of W_O. Memory: heads · r · d_model."""
        weight = self._projection("head_outputs").weight.to(self.context)
        return self.context @ _per_head(weight, self._heads)

    @property
    def attention_input(self) -> Float[Tensor, "r d_model"]:
        """X, if ``keep=`` named it."""
        kept, site = self.recorded.tensors.get("attention_input"), self.recorded.site
        if kept is None and "attention_input" in self.recorded.asked:
            raise NotKeptError(
                f"attention_input of layer {site.layer} ({site.name}) was named in keep= and not "
                "seen: its module is handed it neither as its first argument nor as "
                "hidden_states=, so it cannot be kept"
            )
        if kept is None:
            raise NotKeptError(
                f"attention_input of layer {site.layer} was not kept: "
                'trace again with keep=("attention_input",)'
            )
        return kept

    @property
    def value_norms(self) -> Float[Tensor, "heads m"]:
        """‖v_j · W_O^h‖ of every head and key: how much each value brings, before its weight."""
        kept = self.recorded.tensors.get("value_norms")
        if kept is None:
            raise unknown_projection(self, "value_norms")
        return kept

    def __repr__(self) -> str:
        heads, rows, _ = self.query.shape
        return (
            f"LayerTrace(layer={self.recorded.site.layer}, {self.recorded.site.name!r}, "
            f"heads={heads}, queries={rows}, keys={self.key.shape[1]})"
        )

    @property
    def _heads(self) -> int:
        return self.query.shape[0]

    @cached_property
    def _context(self) -> Tensor:
        with torch.no_grad():
            rule = self.recorded.bound
            query, key, value = self.query[None], self.key[None], self.value[None]
            return compute(query, key, value, rule=rule, impl=choose("auto", rule))[0][0]

    def _scores(self, *, raw: bool) -> ScoreMatrix:
        return ScoreMatrix(
            self.query[None], self.key[None], self.recorded.bound, leading=(False, True), raw=raw
        )

    def _projection(self, quantity: str) -> OutputProjection:
        if self.projection is None:
            raise unknown_projection(self, quantity)
        return self.projection


def unknown_projection(layer: LayerTrace, quantity: str) -> NotKeptError:
    """What is said where something needs W_O and the model did not show it.

    Args:
        layer: the layer.
        quantity: what was asked for.

    Returns:
        The error to raise.
    """
    site = layer.recorded.site
    return NotKeptError(
        f"{quantity} of layer {site.layer} ({site.name}) cannot be made: there is no one linear "
        "layer that alone was handed this layer's context as it is, so W_O is not known; context, "
        "weights and sources(by='attention') are"
    )


def _per_head(weight: Tensor, heads: int) -> Float[Tensor, "heads d_v d_model"]:
    """W_O cut into one (d_v, d_model) slice a head."""
    return weight.reshape(weight.shape[0], heads, -1).permute(1, 2, 0)


def value_norms(
    value: Float[Tensor, "kv_heads m d_v"], projection: OutputProjection, *, heads: int
) -> Float[Tensor, "heads m"]:
    """‖v_j · W_O^h‖ for every head and key.

    ``‖v W‖ = ‖v F‖`` with ``W Wᵀ = F Fᵀ``: F is (d_v, d_v), so a key costs d_v² multiplications and
    not d_v · d_model. F is made in float64 from the weights alone.

    Args:
        value: V, not repeated for grouped heads.
        projection: W_O.
        heads: number of query heads.

    Returns:
        The norms, float32 (float64 for float64).

    Cost: heads · d_v² · (m + d_model) multiplications.
    """
    dtype = torch.float64 if value.dtype == torch.float64 else torch.float32
    kv_heads, keys, width = value.shape
    slices = _per_head(projection.weight.detach(), heads).to(value.device, torch.float64)
    factors = _square_root(slices @ slices.mT).to(dtype)
    # the group's factors side by side, so that no value is repeated
    group = factors.reshape(kv_heads, heads // kv_heads, width, width).transpose(1, 2)
    products = value.to(dtype) @ group.reshape(kv_heads, width, -1)
    lengths = _linalg.vector_norm(products.unflatten(-1, (-1, width)), dim=-1)
    return lengths.transpose(1, 2).reshape(heads, keys)


def _square_root(squares: Float[Tensor, "heads d_v d_v"]) -> Float[Tensor, "heads d_v d_v"]:
    """F with F Fᵀ = G; by eigenvalues where a head's W_O does not use all of V's space."""
    factor, failed = _linalg.cholesky_ex(squares)
    if not bool(failed.any()):
        return factor
    values, vectors = _linalg.eigh(squares)
    return vectors * values.clamp(min=0).sqrt().unsqueeze(-2)
