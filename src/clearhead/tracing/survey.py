"""A survey: what every head of a trace did for every chosen token, from one pass over rows of A."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clearhead.errors import InputError, NotKeptError
from clearhead.masks.places import numbers
from clearhead.pipeline.observe import PooledMap, PooledObserver
from clearhead.tracing.choosing import integers
from clearhead.tracing.layer_trace import LayerTrace
from clearhead.tracing.row_sums import Links, RowSums, joined
from clearhead.tracing.sources import Measure, head_norms
from clearhead.tracing.traced import Trace

__all__ = ["KINDS", "Links", "Survey", "survey"]

#: What a head may be known for.
KINDS = ("first token", "previous token", "induction")

_REDUCED: tuple[Literal["max"], Literal["sum"]] = ("max", "sum")

#: Entries of A, over the heads of a layer, that one step of the pass holds at once.
_AT_ONCE = 2**22


@dataclass(frozen=True, eq=False, slots=True)
class Survey:
    """What every head did for every chosen token; each number is the one ``sources`` gives.

    r counts the chosen tokens, H the heads of all chosen layers, m the tokens. What stands by
    measure is there for ``"contribution"`` only where W_O of every layer is known.

    Attributes:
        rows: positions of the chosen tokens, ascending.
        heads: (layer, head) of each of the H heads.
        shares: share of each position for each row, which sum to 1; by measure.
        strongest: place of the head that gave most of that share; by measure.
        head_shares: each head's part of the row's sum; by measure.
        top_position: the source with the largest weight in each head's row.
        top_weight: that weight.
        links: the strongest links; by measure.
        first_token: mean weight on token 0.
        maps: A of the chosen rows made small, by ``"max"`` and ``"sum"``: (H, R, C).
        kinds: how far each head does what a kind is named for, from 0 to 1; by kind. First token:
            mean weight on token 0. Previous token: mean weight on the token before. Induction: mean
            weight on tokens that follow an earlier copy of the row's token (Olsson et al. 2022,
            "In-context Learning and Induction Heads").
    """

    rows: tuple[int, ...]
    heads: tuple[tuple[int, int], ...]
    shares: Mapping[Measure, Float[Tensor, "r m"]]
    strongest: Mapping[Measure, Int[Tensor, "r m"]]
    head_shares: Mapping[Measure, Float[Tensor, "r H"]]
    top_position: Int[Tensor, "r H"]
    top_weight: Float[Tensor, "r H"]
    links: Mapping[Measure, Links]
    first_token: Float[Tensor, "r"]
    maps: Mapping[str, PooledMap]
    kinds: Mapping[str, Float[Tensor, "H"]]


def survey(
    trace: Trace,
    *,
    rows: Collection[int] | None = None,
    layers: Collection[int] | slice | None = None,
    links: int = 8,
    map_size: int = 24,
    progress: Callable[[int, int], None] | None = None,
) -> Survey:
    """Look at every head of a trace for some or all of its tokens.

    Args:
        trace: the trace.
        rows: positions of tokens whose rows were kept; None is all of those.
        layers: which traced layers to sum, by number or as a slice of them; None is all.
        links: how many links to keep of each row.
        map_size: cells a side of the pooled maps, at most.
        progress: is told how many rows are done, and of how many.

    Returns:
        The survey.

    Raises:
        InputError: ``layers`` or ``rows`` hold no numbers of layers or tokens, or none at all.
        NotKeptError: a row or a layer was not kept.

    Cost: one row of A a head, layer and token: H · r · m · d_k multiplications; memory r · m, four
    times, and a block of A of some 4 million entries.

    Source: as :func:`clearhead.tracing.sources.measure_sources`.
    """
    numbered = trace.layers if layers is None else integers(layers, of=trace.layers, name="layers")
    chosen = {number: trace[number] for number in numbered}
    if not chosen:
        raise InputError("layers must name at least one layer to look at, got none")
    places, positions = _places(trace, rows)
    passing = _Pass(trace, chosen, positions, links=links, map_size=map_size)
    step = max(1, _AT_ONCE // max(1, trace.heads * len(trace)))
    with torch.no_grad():
        for start in range(0, len(places), step):
            passing.see(range(start, min(start + step, len(places))), places[start : start + step])
            if progress is not None:
                progress(min(start + step, len(places)), len(places))
    return passing.result()


def _places(trace: Trace, rows: Collection[int] | None) -> tuple[Tensor, tuple[int, ...]]:
    """Places among the kept queries, and positions, of the chosen tokens, ascending."""
    kept = {position: place for place, position in enumerate(numbers(trace.queries))}
    if rows is None:
        positions = sorted(kept)
    else:
        asked, count = integers(rows, of=range(len(trace)), name="rows"), len(trace)
        beyond = [str(place) for place in asked if not -count <= place < count]
        if beyond:
            raise InputError(
                f"rows must hold places of the {count} tokens, got {', '.join(beyond)}"
            )
        positions = sorted({place % count for place in asked})
    missing = [position for position in positions if position not in kept]
    if missing:
        raise NotKeptError(
            f"the rows of tokens {', '.join(map(str, missing[:8]))}"
            f"{' …' if len(missing) > 8 else ''} were not kept: trace again with queries=None or "
            "a slice that holds them"
        )
    if not positions:
        raise InputError("rows must name at least one token, got none")
    return torch.tensor([kept[position] for position in positions]), tuple(positions)


class _Pass:
    """Grows the survey by blocks of rows, layer by layer."""

    def __init__(
        self,
        trace: Trace,
        layers: Mapping[int, LayerTrace],
        positions: tuple[int, ...],
        *,
        links: int,
        map_size: int,
    ) -> None:
        self.layers, self.positions, self.k = layers, positions, links
        self.heads = tuple(
            (number, head)
            for number, layer in layers.items()
            for head in range(layer.query.shape[0])
        )
        known = all(layer.projection is not None for layer in layers.values())
        self.measures: tuple[Measure, ...] = (
            ("contribution", "attention") if known else ("attention",)
        )
        self.device = next(iter(layers.values())).key.device
        self.follows = _Followers(trace.token_ids, positions, self.device)
        self.pooled = {
            (number, reduce): PooledObserver(
                torch.zeros(1, layer.query.shape[0], len(positions), device=self.device),
                len(trace),
                size=map_size,
                reduce=reduce,
            )
            for number, layer in layers.items()
            for reduce in _REDUCED
        }
        self.parts: dict[str, list[Tensor]] = {}
        self.links: dict[Measure, list[Links]] = {measure: [] for measure in self.measures}
        self.kinds = torch.zeros(len(KINDS), len(self.heads), dtype=torch.float64)

    def see(self, rows: range, places: Tensor) -> None:
        """Take in some rows: their places among the chosen, and among the kept queries."""
        blocks: dict[str, RowSums] = {measure: RowSums(self.k) for measure in self.measures}
        tops: list[tuple[Tensor, Tensor]] = []
        first = torch.zeros(len(places), dtype=torch.float64, device=self.device)
        for number, layer in self.layers.items():
            weights, start = layer.weights[:, places], sum(len(values) for values, _ in tops)
            for reduce in _REDUCED:
                shown, columns = weights.float()[None], range(weights.shape[-1])
                self.pooled[number, reduce].see(rows, columns, weights=shown, scores=shown)
            tops.append(tuple(weights.max(-1)))
            self.kinds[:, start : start + len(weights)] += self._known_for(weights, rows).cpu()
            first += weights[:, :, 0].sum(0, dtype=torch.float64)
            lengths = None
            if "contribution" in blocks:
                lengths = weights * head_norms(layer, required=True)[:, None]
                blocks["contribution"].add(lengths, weights, lengths, start=start)
            blocks["attention"].add(weights, weights, lengths, start=start)
        self._add("top_weight", torch.cat([values for values, _ in tops]).float().T)
        self._add("top_position", torch.cat([indices for _, indices in tops]).T)
        self._add("first_token", (first / len(self.heads)).float())
        for measure in self.measures:
            for name, part in blocks[measure].parts().items():
                self._add(f"{name} {measure}", part)
            self.links[measure].append(blocks[measure].links())

    def result(self) -> Survey:
        """What all blocks together say."""
        whole = {name: torch.cat(parts).cpu() for name, parts in self.parts.items()}
        seen = [max(1, sum(p > 0 for p in self.positions))] * 2 + [self.follows.count]
        scores = self.kinds / torch.tensor(seen, dtype=torch.float64)[:, None]
        return Survey(
            rows=self.positions,
            heads=self.heads,
            shares={name: whole[f"share {name}"] for name in self.measures},
            strongest={name: whole[f"strongest {name}"] for name in self.measures},
            head_shares={name: whole[f"heads {name}"] for name in self.measures},
            top_position=whole["top_position"],
            top_weight=whole["top_weight"],
            links={name: joined(parts) for name, parts in self.links.items()},
            first_token=whole["first_token"],
            maps={reduce: self._map(reduce) for reduce in _REDUCED},
            kinds={kind: score.float() for kind, score in zip(KINDS, scores, strict=True)},
        )

    def _map(self, reduce: Literal["max", "sum"]) -> PooledMap:
        """The maps of all heads, without a batch axis."""
        found = [self.pooled[number, reduce].result() for number in self.layers]
        return replace(found[0], values=torch.cat([each.values[0] for each in found]).cpu())

    def _known_for(self, weights: Float[Tensor, "H b m"], rows: range) -> Float[Tensor, "kinds H"]:
        """Sums over these rows; token 0 reading itself has nothing else to read."""
        positions = torch.tensor(self.positions[rows.start : rows.stop], device=weights.device)
        later = (positions > 0).to(weights)
        first = (weights[:, :, 0] * later).sum(1)
        before = (positions - 1).clamp(min=0).expand(len(weights), 1, -1).transpose(1, 2)
        previous = (weights.gather(2, before)[:, :, 0] * later).sum(1)
        follows = self.follows.of(rows)
        induction = (
            (weights * follows.to(weights)).sum((1, 2)) if bool(follows.any()) else 0 * first
        )
        return torch.stack([first, previous, induction])

    def _add(self, name: str, part: Tensor) -> None:
        self.parts.setdefault(name, []).append(part)


class _Followers:
    """For each chosen token, the tokens that follow an earlier copy of it."""

    def __init__(
        self, token_ids: Sequence[int], positions: Sequence[int], device: torch.device
    ) -> None:
        self._ids = torch.tensor(token_ids, device=device)
        self._positions = torch.tensor(positions, device=device)
        first = {token: place for place, token in reversed(list(enumerate(token_ids)))}
        #: how many of the chosen tokens have an earlier copy
        self.count = max(1, sum(first[token_ids[place]] < place for place in positions))

    def of(self, rows: range) -> Bool[Tensor, "b m"]:
        """Where they stand, for some of the chosen tokens."""
        own = self._positions[rows.start : rows.stop, None]
        columns = torch.arange(len(self._ids), device=own.device)
        copies = self._ids.roll(1) == self._ids[own]
        return copies & (columns >= 1) & (columns <= own)
