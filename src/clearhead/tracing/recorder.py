"""The tap that records: copies what a trace keeps of each layer, for each sequence of the batch."""

import copy
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Int
from torch import Tensor, nn

from clearhead.errors import TraceError
from clearhead.pipeline.rule import BoundRule, ScoreRule
from clearhead.pipeline.tap import Site, Tap
from clearhead.positions.position_bias import PositionBias
from clearhead.tracing.arena import Arena

__all__ = ["KEEPABLE", "Recorded", "Recorder", "SequencePart"]

#: What ``keep=`` may name beside Q, K, V and L, which are always kept.
KEEPABLE = ("attention_input", "context", "output")


@dataclass(frozen=True, eq=False, slots=True)
class SequencePart:
    """Which part of a batch one trace is about.

    Attributes:
        batch: the batch row.
        tokens: places of its real tokens in that row; None is every place.
        queries: those among the real tokens whose Q and L are kept; None is all.
        source: the sequence whose keys they look at; None is their own.
    """

    batch: int
    tokens: Int[Tensor, "n"] | None
    queries: Int[Tensor, "r"] | None
    source: "SequencePart | None" = None

    @property
    def whole(self) -> bool:
        """Whether every place of the batch row is kept, and of its source's."""
        own = self.tokens is None and self.queries is None
        return own and (self.source is None or self.source.whole)

    def query_places(self) -> Int[Tensor, "r"] | None:
        """Places in the batch row of the queries that are kept; None is every place."""
        if self.queries is None:
            return self.tokens
        return self.queries if self.tokens is None else self.tokens[self.queries]

    def key_places(self) -> Int[Tensor, "m"] | None:
        """Places of the keys that are kept, in their batch row; None is every place."""
        return self.tokens if self.source is None else self.source.tokens


@dataclass(eq=False, slots=True)
class Recorded:
    """What was kept of one layer for one sequence.

    Attributes:
        site: the layer.
        bound: its rule, for the kept queries and the keys of this sequence alone.
        of_all: its rule for all tokens of this sequence, whichever queries were kept.
        asked: what ``keep=`` named.
        tensors: what was kept, by name of the quantity, without a batch axis.
    """

    site: Site
    bound: BoundRule
    of_all: BoundRule
    asked: frozenset[str]
    tensors: dict[str, Tensor] = field(default_factory=dict[str, Tensor])


class Recorder(Tap):
    """Reads Q, K, V, L and the rule of each chosen layer, and what else is to be kept.

    Args:
        parts: one for each trace to be made.
        layers: layers to keep; None is all.
        keep: further quantities to keep.
        layer_count: how many layers will be kept, to size the arenas.
        device: where the traces are to lie.
        kind: the kind of sites it is about; None is every kind.
    """

    def __init__(
        self,
        parts: Sequence[SequencePart],
        *,
        layers: Collection[int] | None,
        keep: Collection[str],
        layer_count: int,
        device: torch.device,
        kind: str | None = None,
    ) -> None:
        self.parts = parts
        self.kind = kind
        self.layers = layers
        self.keep = frozenset(keep)
        self.layer_count = layer_count
        self.arenas = [Arena(device) for _ in parts]
        self.recorded: list[dict[Site, Recorded]] = [{} for _ in parts]
        self.seen: set[Site] = set()
        self._waiting: dict[str, Tensor] = {}
        self._rule = ScoreRule()

    def visit(self, site: Site, quantity: str, value: Tensor) -> Tensor:
        """Keep what is wanted, and let everything pass."""
        if self.kind not in (None, site.kind):
            return value
        if quantity == "logsumexp":
            self._see(site)
        if self.layers is not None and site.layer not in self.layers:
            return value
        if quantity in ("query", "key", "value", "attention_input"):
            self._waiting[quantity] = value
        elif quantity == "logsumexp":
            self._layer(site, value)
        elif quantity in self.keep:
            self._keep(site, quantity, value)
        return value

    def rule(self, site: Site, rule: ScoreRule) -> ScoreRule:
        """Remember the rule until the layer's L arrives."""
        del site
        self._rule = rule
        return rule

    def _see(self, site: Site) -> None:
        if site in self.seen:
            raise TraceError(
                f"{site.name} attends more than once in one run: calls of one module (shared "
                "weights, attention in parts) are not told apart, so this model cannot be traced"
            )
        self.seen.add(site)

    def _layer(self, site: Site, logsumexp: Tensor) -> None:
        query, key, value = (self._waiting.pop(name) for name in ("query", "key", "value"))
        # what is learned may change after the run, and L would then belong to another rule
        bound = _settled(self._rule, self.arenas[0].device).bind(query, key)
        arrived = self._waiting.pop("attention_input", None)
        for index, part in enumerate(self.parts):
            rows, columns = part.query_places(), part.key_places()
            kept = {
                "query": _of(query[part.batch], rows),
                "key": _of(key[part.batch], columns),
                "value": _of(value[part.batch], columns),
                "logsumexp": _of(logsumexp[part.batch].unsqueeze(-1), rows).squeeze(-1),
            }
            if arrived is not None and "attention_input" in self.keep:
                kept["attention_input"] = _of(arrived[part.batch][None], rows)[0]
            arena = self.arenas[index]
            if not self.recorded[index]:
                d_model = 0 if arrived is None else arrived.shape[-1]
                arena.reserve(self.layer_count * self._bytes(kept, d_model))
            stored = {name: arena.store(tensor) for name, tensor in kept.items()}
            of_all = narrow = bound.narrowed(part.batch, rows=part.tokens, columns=columns)
            if part.queries is not None:
                narrow = bound.narrowed(part.batch, rows=rows, columns=columns)
            narrow, of_all = (_moved(rule, arena.device) for rule in (narrow, of_all))
            self.recorded[index][site] = Recorded(site, narrow, of_all, self.keep, stored)

    def _keep(self, site: Site, quantity: str, value: Tensor) -> None:
        for index, part in enumerate(self.parts):
            whole = value[part.batch] if quantity == "context" else value[part.batch][None]
            kept = _of(whole, part.query_places())
            stored = self.arenas[index].store(kept if quantity == "context" else kept[0])
            self.recorded[index][site].tensors[quantity] = stored

    def _bytes(self, kept: dict[str, Tensor], d_model: int) -> int:
        """Bytes of one layer: what is at hand, and C and O where they will follow."""
        sizes = [tensor.numel() * tensor.element_size() for tensor in kept.values()]
        heads, rows, _ = kept["query"].shape
        each = kept["query"].element_size()
        if "context" in self.keep:
            sizes.append(heads * rows * kept["value"].shape[-1] * each)
        if "output" in self.keep:
            sizes.append(rows * d_model * each)
        return sum(Arena.padded(size) for size in sizes)


def _settled(rule: ScoreRule, device: torch.device) -> ScoreRule:
    """A rule whose learned numbers are its own: a few for each head. A bias's lie on a device."""
    bias, sinks = rule.bias, rule.sinks
    if isinstance(bias, PositionBias):
        bias = copy.deepcopy(bias)
        if isinstance(bias, nn.Module):
            bias = bias.to(device).requires_grad_(requires_grad=False)
    return replace(rule, bias=bias, sinks=None if sinks is None else sinks.detach().clone())


def _moved(rule: BoundRule, device: torch.device) -> BoundRule:
    """A rule whose tensors lie on a device, so that nothing is left where the model ran."""
    bias, mask, sinks = rule.bias, rule.mask, rule.sinks
    return replace(
        rule,
        bias=bias.detach().to(device) if isinstance(bias, Tensor) else bias,
        mask=None if mask is None else mask.to(device),
        sinks=None if sinks is None else sinks.to(device),
    )


def _of(tensor: Tensor, places: Tensor | None) -> Tensor:
    """Some places along the axis of positions, which is the second of three."""
    return tensor if places is None else tensor.index_select(1, places.to(tensor.device))
