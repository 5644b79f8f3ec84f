"""Values of a page, made by arithmetic in NumPy: a few heads, random vectors, true numbers.

Nothing of clearhead's tracing takes part, so what a page shows is judged by another's numbers.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from clearhead.quantities import QUANTITIES
from clearhead.report.build import build_report
from clearhead.report.page.arrays import Array, packed
from clearhead.report.page.html import page_html
from clearhead.report.parts import HeadRow, HeadTable, LookReport
from tests.report.fakes import FakeTrace

__all__ = ["Made", "made"]

_LINKS = 8


@dataclass(frozen=True, eq=False)
class Made:
    """A page's values, and the numbers they were made from.

    r counts rows, H heads, m tokens.
    """

    report: LookReport
    tree: dict[str, Any]
    rows: tuple[int, ...]
    weights: np.ndarray  # (H, r, m)
    lengths: np.ndarray  # (H, r, m)

    def shares(self, by: str) -> np.ndarray:
        """(r, m), as float32, as the page holds them."""
        whole = (self.lengths if by == "contribution" else self.weights).sum(0)
        return (whole / whole.sum(1, keepdims=True)).astype(np.float32)

    def head_shares(self, by: str) -> np.ndarray:
        """(r, H), as float32."""
        part = (self.lengths if by == "contribution" else self.weights).sum(2).T
        return (part / part.sum(1, keepdims=True)).astype(np.float32)

    def with_documents(self, documents: dict[str, Any]) -> "Made":
        """The same page for an answer that was read out of passages."""
        look = {**self.tree["look"], "documents": documents}
        return replace(self, tree={**self.tree, "look": look})

    @property
    def html(self) -> str:
        import json

        return page_html(self.report, json.dumps(packed(self.tree), allow_nan=False))


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Random vectors of H heads, and what attention makes of them."""

    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    projection: np.ndarray
    scale: float
    softcap: float | None
    seen: np.ndarray

    @property
    def scores(self) -> np.ndarray:
        raw = self.scale * np.einsum("hid,hjd->hij", self.query, self.key, dtype=np.float64)
        capped = raw if self.softcap is None else self.softcap * np.tanh(raw / self.softcap)
        return np.where(self.seen, capped, -np.inf)

    @property
    def level(self) -> np.ndarray:
        return np.log(np.exp(self.scores).sum(2)).astype(np.float32)

    @property
    def norms(self) -> np.ndarray:
        outputs = np.einsum("hjd,hde->hje", self.value, self.projection, dtype=np.float64)
        return np.linalg.norm(outputs, axis=2).astype(np.float32)


def _drawn(
    rng: np.random.Generator, heads: int, rows: Sequence[int], count: int, *, softcap: float | None
) -> _Drawn:
    d_k, d_v, d_model = 4, 5, 8

    def normal(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    seen = np.arange(count) <= np.array(rows)[:, None]
    query, key = 2 * normal(heads, len(rows), d_k), normal(heads, count, d_k)
    return _Drawn(
        query=query,
        key=key,
        value=normal(heads, count, d_v),
        projection=normal(heads, d_v, d_model),
        scale=d_k**-0.5,
        softcap=softcap,
        seen=seen,
    )


def made(
    trace: FakeTrace,
    *,
    seed: int,
    target: int = -1,
    by: str = "contribution",
    rows: Sequence[int] | None = None,
    stepped: Sequence[int] | None = None,
    cells: int = 24,
    softcap: float | None = None,
    listed_from: float = 2.0**-11,
    command: str = "clearhead look 'a text' --html page.html",
    left_out: Sequence[str] = (),
) -> Made:
    """Make the values of a page of a text that is not: its tokens are the trace's."""
    count = len(trace)
    rows = tuple(range(count) if rows is None else rows)
    target = target % count
    heads = len(trace.layers) * trace.heads
    drawn = _drawn(np.random.default_rng(seed), heads, rows, count, softcap=softcap)
    weights = np.exp(drawn.scores - drawn.level[:, :, None].astype(np.float64))
    lengths = weights * drawn.norms[:, None, :]
    page = Made(_report(trace, target, by), {}, rows, weights, lengths)
    shares = {name: page.shares(name)[rows.index(target)] for name in ("attention", "contribution")}
    given = {name: tuple(map(float, share)) for name, share in shares.items()}
    links = {name: _links(page, name) for name in given}
    report = _report(replace(trace, **given), target, by)
    report = replace(report, heads=_table(trace, links[by], rows.index(target)))
    tree = {
        "format": "clearhead-page/1",
        "look": {**asdict(report), "documents": None},
        "heads": _heads(trace),
        "sources": _sources(page, listed_from),
        **_by_row(page, links),
        "maps": _maps(weights, cells),
        "strong": _strong(links["contribution"], rows),
        "columns": None,
        **_steps(drawn, range(heads) if stepped is None else stepped, lengths, weights),
        "left_out": list(left_out),
        "quantities": [asdict(entry) for entry in QUANTITIES],
        "command": command,
    }
    return Made(report, tree, rows, weights, lengths)


_KINDS: dict[str, Any] = {"head": "u16", "position": "u32"}


def _by_row(page: Made, links: dict[str, dict[str, np.ndarray]]) -> dict[str, Any]:
    return {
        "rows": list(page.rows),
        "head_share": {name: Array.of(page.head_shares(name), "f32") for name in links},
        "top": {
            "position": Array.of(page.weights.argmax(2).T, "u32"),
            "weight": Array.of(page.weights.max(2).T, "f32"),
        },
        "links": {
            name: {part: Array.of(found[part], _KINDS.get(part, "f32")) for part in found}
            for name, found in links.items()
        },
        "first_token": Array.of(page.weights[:, :, 0].mean(0), "f32"),
    }


def _report(trace: FakeTrace, target: int, by: Any) -> LookReport:
    return build_report(trace, token=target, by=by)


def _heads(trace: FakeTrace) -> list[dict[str, Any]]:
    pairs = [(layer, head) for layer in trace.layers for head in range(trace.heads)]
    kinds = [[{"name": "previous token", "score": 0.93}], [{"name": "induction", "score": 0.5}]]
    return [
        {"layer": layer, "head": head, "kinds": kinds[place] if place < len(kinds) else []}
        for place, (layer, head) in enumerate(pairs)
    ]


def _sources(page: Made, least: float) -> dict[str, Array]:
    shares = {name: page.shares(name) for name in ("contribution", "attention")}
    largest = np.maximum(*shares.values())
    told = largest >= least
    row, position = told.nonzero()
    below = np.where(told, 0, largest).max(1).astype(np.float32)
    return {
        "start": Array.of(np.concatenate([[0], told.sum(1).cumsum()]), "u32"),
        "position": Array.of(position, "u32"),
        "contribution": Array.of(shares["contribution"][row, position], "f32"),
        "attention": Array.of(shares["attention"][row, position], "f32"),
        "contribution_head": Array.of(page.lengths.argmax(0)[row, position], "u16"),
        "attention_head": Array.of(page.weights.argmax(0)[row, position], "u16"),
        "below": Array.of(np.nextafter(below, np.float32(1)), "f32"),
    }


def _links(page: Made, by: str) -> dict[str, np.ndarray]:
    parts = page.lengths if by == "contribution" else page.weights
    heads, rows, count = parts.shape
    flat = parts.transpose(1, 0, 2).reshape(rows, heads * count)
    order = np.argsort(-flat, axis=1, kind="stable")[:, :_LINKS]
    head, position = order // count, order % count
    at = (head, np.arange(rows)[:, None], position)
    share = np.take_along_axis(flat, order, 1) / flat.sum(1, keepdims=True)
    found = {"head": head, "position": position, "weight": page.weights[at]}
    return found | {"length": page.lengths[at], "share": share}


def _table(trace: FakeTrace, links: dict[str, np.ndarray], row: int) -> HeadTable:
    entries = []
    for place in range(links["share"].shape[1]):
        one = {name: np.float32(part[row, place]).item() for name, part in links.items()}
        if one["share"] == 0:
            continue
        layer, head = divmod(int(one["head"]), trace.heads)
        source = int(one["position"])
        row_of = HeadRow(
            layer=trace.layers[layer],
            head=head,
            source=source,
            text=trace.tokens[source],
            weight=one["weight"],
            contribution=one["length"],
            share=one["share"],
        )
        entries.append(row_of)
    return HeadTable(tuple(entries), sum(entry.source == 0 for entry in entries))


def _maps(weights: np.ndarray, cells: int) -> dict[str, Any]:
    _, rows, count = weights.shape
    row_edges = np.unique(np.linspace(0, rows, min(cells, rows) + 1).astype(int))
    column_edges = np.unique(np.linspace(0, count, min(cells, count) + 1).astype(int))

    def pooled(reduce: np.ufunc) -> np.ndarray:
        by_row = reduce.reduceat(weights, row_edges[:-1], axis=1)
        return reduce.reduceat(by_row, column_edges[:-1], axis=2)

    return {
        "row_edges": row_edges.tolist(),
        "column_edges": column_edges.tolist(),
        "max": Array.of(pooled(np.maximum), "f32"),
        "sum": Array.of(pooled(np.add), "f32"),
    }


def _strong(links: dict[str, np.ndarray], rows: Sequence[int]) -> list[dict[str, Any]]:
    strong = [
        {
            "head": int(links["head"][row, place]),
            "row": at,
            "position": int(links["position"][row, place]),
            "weight": float(links["weight"][row, place]),
            "share": float(links["share"][row, place]),
        }
        for row, at in enumerate(rows)
        for place in range(links["share"].shape[1])
        if links["position"][row, place] not in (0, at) and links["share"][row, place] > 0
    ]
    return sorted(strong, key=lambda link: -link["share"])[:200]


def _steps(
    drawn: _Drawn, stepped: Sequence[int], lengths: np.ndarray, weights: np.ndarray
) -> dict[str, Any]:
    contexts = np.einsum("hij,hjd->hid", weights, drawn.value)
    entries = [
        {
            "head": head,
            "scale": drawn.scale,
            "softcap": drawn.softcap,
            "sink": None,
            "query": Array.of(drawn.query[head], "f32"),
            "level": Array.of(drawn.level[head], "f32"),
            "key": place,
            "value": place,
            "mask": 0,
            "bias": None,
            "value_norm": Array.of(drawn.norms[head], "f32"),
            "context": Array.of(contexts[head], "f32"),
            "projection": Array.of(drawn.projection[head], "f32"),
        }
        for place, head in enumerate(stepped)
    ]
    bits = np.packbits(drawn.seen, axis=1, bitorder="little")
    return {
        "steps": entries,
        "keys": [Array.of(drawn.key[head], "f32") for head in stepped],
        "values": [Array.of(drawn.value[head], "f32") for head in stepped],
        "masks": [Array.of(bits, "u8")],
    }
