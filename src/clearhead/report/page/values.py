"""The values a page holds: every number it can show, so that it needs the model no more."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from clearhead.quantities import QUANTITIES
from clearhead.report.page.arrays import Array, listed, packed
from clearhead.report.page.steps import Steps, steps_of
from clearhead.report.parts import LookReport, Measure

if TYPE_CHECKING:  # these bring torch, which the command line imports only when it has to
    from clearhead.tracing.row_sums import Links
    from clearhead.tracing.survey import Survey
    from clearhead.tracing.traced import Trace

__all__ = ["MOST_ROWS", "SURVEYED_LINKS", "PageValues", "page_values"]

#: A page of up to _SHORT tokens takes about the first of these bytes at most, others the second.
_SHORT, _MOST_BYTES = 1024, (4_800_000, 7_600_000)

#: Rows that a page takes along: enough for every token of a short text.
MOST_ROWS = 512
#: Of a text that has more, as many rows as have so many shares together.
_MOST_SHARES = 2**21
SURVEYED_LINKS = 32  #: of each row, so that strong ones are found behind first tokens

#: A source is taken along where a share would be written as more than "<0.1%" …
_LEAST_SHARE = 2.0**-11
#: … unless there are more than so many in all.
_MOST_SOURCES = 2**18

#: Keys and values that are taken along of a long text.
_MOST_COLUMNS = 1536

_LINKS, _STRONG = 8, 200
#: A head is named where its score tells it from others: most rest much on the first token.
_KNOWN_FROM = {"first token": 0.8, "previous token": 0.4, "induction": 0.4}


@dataclass(frozen=True, eq=False, slots=True)
class PageValues:
    """Every number that a page can show.

    Attributes:
        tree: dicts and lists, with :class:`Array` for the many.
    """

    tree: dict[str, Any]

    def to_json(self) -> str:
        """The values as a page holds them: arrays packed, ASCII only."""
        return json.dumps(packed(self.tree), allow_nan=False, separators=(",", ":"))

    def listed(self) -> dict[str, Any]:
        """The values as plain dicts and lists, for whoever reads JSON."""
        return listed(self.tree)


def page_values(
    trace: "Trace",
    report: LookReport,
    *,
    surveyed: "Survey | None" = None,
    command: str = "",
    most: int | None = None,
) -> PageValues:
    """Gather what a page shows.

    Args:
        trace: the traced text.
        report: what is shown of it first.
        surveyed: a survey of the rows that may be chosen, where there is one already.
        command: what would make the page again.
        most: bytes that the values take at most, if they can; None is what a file may take.

    Returns:
        The values.

    Raises:
        NotKeptError: a row that the survey should have was not kept.

    Cost: a survey of at most 512 rows, unless there is one; the values take up to 5 MB for a text
    of up to 1,024 tokens, up to 8 MB for a longer one.
    """
    from clearhead.tracing.survey import survey

    layers = report.head.layers
    if surveyed is None:
        rows = _rows(trace, report.strip.target)
        surveyed = survey(
            trace, rows=rows, layers=layers, links=max(SURVEYED_LINKS, len(report.heads.rows))
        )
    columns = _columns(surveyed)
    tree = _tree(report, surveyed, columns=columns, command=command)
    most = _MOST_BYTES[len(trace) > _SHORT] if most is None else most
    steps = steps_of(
        trace,
        heads=surveyed.heads,
        order=_order(surveyed, report.strip.target),
        rows=surveyed.rows,
        columns=columns,
        room=most - len(json.dumps(packed(tree))),
    )
    tree |= {
        "steps": steps.heads,
        "keys": steps.keys,
        "values": steps.values,
        "masks": steps.masks,
        "left_out": _left_out(trace, surveyed, steps, columns=columns),
    }
    return PageValues(tree)


def _tree(
    report: LookReport, found: "Survey", *, columns: Sequence[int] | None, command: str
) -> dict[str, Any]:
    """Everything but the steps, which take what room is left."""
    contribution: dict[str, Any] = {"contribution": None}
    return {
        "format": "clearhead-page/1",
        "look": asdict(report),
        "rows": list(found.rows),
        "heads": _heads(found),
        "sources": _sources(found),
        "head_share": contribution
        # what is about the same for every head is rounding beyond this, and would not compress
        | {name: _floats(_numbers(part).round(7)) for name, part in found.head_shares.items()},
        "top": {
            "position": Array.of(_numbers(found.top_position), "u32"),
            "weight": _floats(_numbers(found.top_weight)),
        },
        "links": contribution
        | {
            name: _links(links, max(_LINKS, len(report.heads.rows)))
            for name, links in found.links.items()
        },
        "first_token": _floats(_numbers(found.first_token)),
        "maps": _maps(found),
        "strong": _strong(found),
        "columns": None if columns is None else Array.of(columns, "u32"),
        "quantities": [asdict(entry) for entry in QUANTITIES],
        "command": command,
    }


def _rows(trace: "Trace", target: int) -> list[int]:
    """Rows to take along: of a long text those next to the target, at first before it."""
    kept = sorted(map(int, _numbers(trace.queries)))
    most = max(1, min(MOST_ROWS, _MOST_SHARES // max(1, len(trace))))
    near = sorted(kept, key=lambda position: abs(position - target) + (position > target) / 2)
    return sorted(near[:most])


def _heads(found: "Survey") -> list[dict[str, Any]]:
    kinds = {kind: _numbers(score) for kind, score in found.kinds.items()}
    return [
        {
            "layer": layer,
            "head": head,
            "kinds": [
                {"name": kind, "score": float(scores[place])}
                for kind, scores in kinds.items()
                if scores[place] >= _KNOWN_FROM[kind]
            ],
        }
        for place, (layer, head) in enumerate(found.heads)
    ]


def _sources(found: "Survey") -> dict[str, Array | None]:
    """Of each row the sources whose share can be told from "<0.1%", and what bounds the rest."""
    shares = {name: _numbers(share) for name, share in found.shares.items()}
    largest = np.maximum.reduce(list(shares.values()))
    least = _LEAST_SHARE
    while (largest >= least).sum() > _MOST_SOURCES:
        least *= 2
    told = largest >= least
    row, position = told.nonzero()
    heads = {name: _numbers(head)[row, position] for name, head in found.strongest.items()}

    def of(name: Measure) -> Array | None:
        return _floats(shares[name][row, position]) if name in shares else None

    def head_of(name: Measure) -> Array | None:
        return Array.of(heads[name], "u16") if name in heads else None

    below = np.where(told, 0.0, largest).max(1, initial=0.0).astype(np.float32)
    return {
        "start": Array.of(np.concatenate([[0], told.sum(1).cumsum()]), "u32"),
        "position": Array.of(position, "u32"),
        "contribution": of("contribution"),
        "attention": of("attention"),
        "contribution_head": head_of("contribution"),
        "attention_head": head_of("attention"),
        "below": _floats(np.nextafter(below, np.float32(1))),
    }


def _columns(found: "Survey") -> list[int] | None:
    """Of a long text the positions that any row draws most from; None for a short one."""
    largest = np.maximum.reduce([_numbers(share).max(0) for share in found.shares.values()])
    if len(largest) <= _SHORT:
        return None
    named = {
        int(place) for links in found.links.values() for place in _numbers(links.position).flat
    }
    named |= set(found.rows)
    by_share = sorted(range(len(largest)), key=lambda place: -largest[place])
    return sorted(named | set(by_share[: max(0, _MOST_COLUMNS - len(named))]))


def _links(links: "Links", count: int) -> dict[str, Array]:
    """The strongest links of each row."""
    parts = {name: _numbers(getattr(links, name))[:, :count] for name in links.__slots__}
    kinds: dict[str, Any] = {"head": "u16", "position": "u32"}
    return {name: Array.of(part, kinds.get(name, "f32")) for name, part in parts.items()}


def _maps(found: "Survey") -> dict[str, object]:
    whole = found.maps["max"]
    return {
        "row_edges": _numbers(whole.row_edges).tolist(),
        "column_edges": _numbers(whole.column_edges).tolist(),
        **{reduce: _floats(_numbers(pooled.values)) for reduce, pooled in found.maps.items()},
    }


def _strong(found: "Survey") -> list[dict[str, Any]]:
    """The strongest links of all rows that are neither on the token itself nor on the first."""
    links = found.links.get("contribution", found.links["attention"])
    rows = np.array(found.rows)[:, None]
    share, position = _numbers(links.share), _numbers(links.position)
    far = np.where((position == rows) | (position == 0), 0.0, share)
    best = np.argsort(-far, axis=None, kind="stable")[:_STRONG]
    strong: list[dict[str, Any]] = []
    for row, place in zip(*np.unravel_index(best, far.shape), strict=True):
        if far[row, place] <= 0:
            break
        strong.append(
            {
                "head": int(links.head[row, place]),
                "row": found.rows[row],
                "position": int(position[row, place]),
                "weight": float(links.weight[row, place]),
                "share": float(share[row, place]),
            }
        )
    return strong


def _order(found: "Survey", target: int) -> list[int]:
    """Heads that matter: of the target's strongest links, then by what they bring it and others."""
    measure: Measure = "contribution" if "contribution" in found.links else "attention"
    share = _numbers(found.head_shares[measure])
    importance, linked = share.mean(0), list[int]()
    if target in found.rows:
        row, links = found.rows.index(target), found.links[measure]
        importance = importance + share[row]
        head, position = (_numbers(part)[row] for part in (links.head, links.position))
        far = (position != target) & (position != 0)
        linked = [int(place) for place in [*head[far][:_LINKS], *head[:_LINKS]]]
    by_importance = (int(place) for place in np.argsort(-importance, kind="stable"))
    return list(dict.fromkeys([*linked, *by_importance]))


def _left_out(
    trace: "Trace", found: "Survey", steps: Steps, *, columns: Sequence[int] | None
) -> list[str]:
    """Sentences that say what is not in the page."""
    told: list[str] = []
    count, rows, heads = len(trace), len(found.rows), len(found.heads)
    if rows < count:
        told.append(
            f"{count - rows:,} of {count:,} tokens cannot be chosen here: their rows are not in "
            "this page, or were not kept."
        )
    if len(steps.heads) < heads:
        told.append(
            f"{heads - len(steps.heads)} of {heads} heads are not shown step by step; of these the "
            "page holds the pooled map, and each token's share and strongest source."
        )
    if columns is not None:
        told.append(
            f"Step by step, {len(columns):,} of {count:,} keys are shown: those that most is drawn "
            "from."
        )
    return told


def _floats(values: npt.NDArray[Any]) -> Array:
    return Array.of(values, "f32")


def _numbers(tensor: Any) -> npt.NDArray[Any]:
    return tensor.numpy(force=True)
