"""A survey: what every head of a trace did for every chosen token, from one pass over rows of A."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clearhead.errors import InputError, NotKeptError
from clearhead.masks.places import numbers
from clearhead.pipeline.observe import PooledMap, PooledObserver
from clearhead.tracing.choosing import integers
from clearhead.tracing.layer_trace import LayerTrace
from clearhead.tracing.sources import Measure, head_norms
from clearhead.tracing.traced import Trace

__all__ = ["KINDS", "Links", "Survey", "survey"]

#: What a head may be known for.
KINDS = ("first token", "previous token", "induction")

#: Entries of A, over all heads, that one step of the pass holds at once.
_AT_ONCE = 2**22


@dataclass(frozen=True, eq=False, slots=True)
class Links:
    """The strongest links of each row, strongest first: (head, source) pairs.

    Attributes:
        head: place of the head among the survey's heads, (r, k).
        position: the source.
        weight: A of that head for the row and the source.
        length: what it brought, ‖A · v · W_O‖; NaN where W_O is not known.
        share: its part of the sum over all heads and sources of the row; 0 is no link.
    """

    head: Int[Tensor, "r k"]
    position: Int[Tensor, "r k"]
    weight: Float[Tensor, "r k"]
    length: Float[Tensor, "r k"]
    share: Float[Tensor, "r k"]


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
    step = max(1, _AT_ONCE // max(1, len(passing.heads) * len(trace)))
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
    """Grows the survey by blocks of rows."""

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
        self.norms = _norms(layers)
        self.device = next(iter(layers.values())).key.device
        self.follows = _Followers(trace.token_ids, positions, self.device)
        self.measures: tuple[Measure, ...] = (
            ("attention",) if self.norms is None else ("contribution", "attention")
        )
        m, level = len(trace), torch.zeros(1, len(self.heads), len(positions), device=self.device)
        self.pooled = {
            reduce: PooledObserver(level, m, size=map_size, reduce=reduce)
            for reduce in ("max", "sum")
        }
        self.parts: dict[str, list[Tensor]] = {}
        self.links: dict[Measure, list[Links]] = {measure: [] for measure in self.measures}
        self.kinds = torch.zeros(len(KINDS), len(self.heads), dtype=torch.float64)

    def see(self, rows: range, places: Tensor) -> None:
        """Take in some rows: their places among the chosen, and among the kept queries."""
        read = [layer.weights[:, places] for layer in self.layers.values()]
        weights = torch.cat(read)
        shown = weights.float()[None]
        for observer in self.pooled.values():
            observer.see(rows, range(weights.shape[-1]), weights=shown, scores=shown)
        self._top(weights)
        self.kinds += self._known_for(weights, rows).cpu()
        self._add("first_token", weights[:, :, 0].double().mean(0).float())
        lengths = None if self.norms is None else weights * self.norms[:, None]
        for measure in self.measures:
            measured = weights if lengths is None or measure == "attention" else lengths
            self._measure(measure, measured, weights, lengths=lengths)

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
            links={name: _joined(parts) for name, parts in self.links.items()},
            first_token=whole["first_token"],
            maps={reduce: _alone(watched.result()) for reduce, watched in self.pooled.items()},
            kinds={kind: score.float() for kind, score in zip(KINDS, scores, strict=True)},
        )

    def _top(self, weights: Float[Tensor, "H b m"]) -> None:
        top = weights.max(-1)
        self._add("top_position", top.indices.T)
        self._add("top_weight", top.values.float().T)

    def _measure(
        self,
        measure: Measure,
        measured: Float[Tensor, "H b m"],
        weights: Float[Tensor, "H b m"],
        *,
        lengths: Float[Tensor, "H b m"] | None,
    ) -> None:
        by_source = measured.sum(0, dtype=torch.float64)
        total = by_source.sum(1).clamp(min=torch.finfo(torch.float64).tiny)
        self._add(f"share {measure}", (by_source / total[:, None]).float())
        self._add(f"strongest {measure}", measured.max(0).indices)
        self._add(f"heads {measure}", (measured.sum(2, dtype=torch.float64) / total).T.float())
        by_row = measured.transpose(0, 1).flatten(1)
        found = by_row.topk(min(self.k, by_row.shape[1]), dim=1)
        head, position = found.indices // measured.shape[2], found.indices % measured.shape[2]
        row = torch.arange(len(head), device=head.device)[:, None]
        length = torch.full_like(found.values, torch.nan)
        if lengths is not None:
            length = lengths[head, row, position]
        weight, share = weights[head, row, position], found.values / total[:, None]
        numbers_of = (part.float().cpu() for part in (weight, length, share))
        self.links[measure].append(Links(head.cpu(), position.cpu(), *numbers_of))

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


def _norms(layers: Mapping[int, LayerTrace]) -> Float[Tensor, "H m"] | None:
    """‖v · W_O‖ of every head, or None where a layer's W_O is not known."""
    if any(layer.projection is None for layer in layers.values()):
        return None
    return torch.cat([head_norms(layer, required=True) for layer in layers.values()])


def _joined(parts: Sequence[Links]) -> Links:
    return Links(*(torch.cat([getattr(part, name) for part in parts]) for name in Links.__slots__))


def _alone(pooled: PooledMap) -> PooledMap:
    """A map without its batch axis."""
    return PooledMap(pooled.values[0].cpu(), pooled.row_edges, pooled.column_edges, pooled.reduce)
