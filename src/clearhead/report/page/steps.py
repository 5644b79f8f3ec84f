"""What a page needs to show a head step by step: its Q, K, V, L and rule, for as many as fit."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from clearhead.report.page.arrays import Array, ArrayType

if TYPE_CHECKING:  # these bring torch, which the command line imports only when it has to
    from torch import Tensor

    from clearhead.pipeline.rule import BoundRule
    from clearhead.tracing.layer_trace import LayerTrace
    from clearhead.tracing.traced import Trace

__all__ = ["Steps", "steps_of"]

#: Heads whose part of O is shown as a vector, which needs their slice of W_O.
_PROJECTED = 8


@dataclass(frozen=True, eq=False, slots=True)
class Steps:
    """Heads that a page can show step by step, and the tensors that they share.

    Attributes:
        heads: one entry a head; ``key``, ``value`` and ``mask`` are places in the lists below.
        keys: K of key-value heads, (k, d_k).
        values: V likewise, (k, d_v).
        masks: who may look at whom, as bits, (r, ⌈m / 8⌉).
    """

    heads: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    keys: list[Array] = field(default_factory=list[Array])
    values: list[Array] = field(default_factory=list[Array])
    masks: list[Array] = field(default_factory=list[Array])


def steps_of(
    trace: "Trace",
    *,
    heads: Sequence[tuple[int, int]],
    order: Sequence[int],
    rows: Sequence[int],
    columns: Sequence[int] | None,
    room: int,
) -> Steps:
    """Take along what shows heads step by step, the most important first, while there is room.

    Args:
        trace: the traced text.
        heads: layer and head of each of the page's heads.
        order: places among them, most important first.
        rows: positions whose rows are taken along.
        columns: positions whose keys and values are; None is all.
        room: bytes of the page that may be filled; at least one head is always taken.

    Returns:
        The heads that fit.
    """
    taking = _Taking(trace, rows, columns)
    for rank, place in enumerate(order):
        layer, head = heads[place]
        if not taking.take(place, layer, head, projected=rank < _PROJECTED, room=room):
            break
    return taking.steps


class _Taking:
    """Takes one head after the other."""

    def __init__(self, trace: "Trace", rows: Sequence[int], columns: Sequence[int] | None) -> None:
        self.trace, self.columns = trace, columns
        kept = {int(position): place for place, position in enumerate(_numbers(trace.queries))}
        self.places = [kept[position] for position in rows]
        self.steps = Steps()
        self.used = self._last = 0
        self._shared: dict[tuple[str, int, int], int] = {}
        self._contexts: dict[int, npt.NDArray[Any]] = {}
        self._mask_bytes: dict[bytes, int] = {}
        self._masks: dict[int, int | None] = {}

    def take(self, place: int, layer: int, head: int, *, projected: bool, room: int) -> bool:
        """Take one head, unless one more of the last one's size would fill more than the room."""
        if self.used + self._last > room and self.steps.heads:
            return False
        before, found = self.used, self.trace[layer]
        group = found.query.shape[0] // found.key.shape[0]
        projection = self._projection(found, head) if projected else None
        entry = {
            "head": place,
            **self._own(found, head),
            "key": self._share("key", layer, head // group),
            "value": self._share("value", layer, head // group),
            "mask": self._mask(layer),
            "context": self._counted(self._context(layer)[head]),
            "projection": projection,
        }
        self.steps.heads.append(entry)
        self._last = self.used - before
        return True

    def _own(self, layer: "LayerTrace", head: int) -> dict[str, object]:
        """What is the head's alone."""
        rule = layer.scores[head].bound
        level = _numbers(layer.weights.levels()[0, head])[self.places]
        norms = None if layer.projection is None else _numbers(layer.value_norms[head])
        return {
            "scale": float(rule.scale),
            "softcap": None if rule.softcap is None else float(rule.softcap),
            "sink": None if rule.sinks is None else float(rule.sinks[0]),
            "query": self._counted(_numbers(layer.query[head])[self.places]),
            "level": self._counted(level),
            "bias": self._bias(rule),
            "value_norm": None if norms is None else self._counted(self._some(norms)),
        }

    def _bias(self, rule: "BoundRule") -> Array | None:
        tile = rule.bias_tile(range(rule.queries), range(rule.keys))
        if tile is None:
            return None
        whole = np.broadcast_to(_numbers(tile)[0, 0], (rule.queries, rule.keys))[self.places]
        return self._counted(whole if self.columns is None else whole[:, list(self.columns)])

    def _share(self, name: Literal["key", "value"], layer: int, group: int) -> int:
        """Where the keys or values of a group of heads stand, which are stored once."""
        at, stored = (name, layer, group), getattr(self.steps, f"{name}s")
        if at not in self._shared:
            self._shared[at] = len(stored)
            vectors = _numbers(getattr(self.trace[layer], name)[group])
            stored.append(self._counted(self._some(vectors)))
        return self._shared[at]

    def _some(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return values if self.columns is None else values[list(self.columns)]

    def _mask(self, layer: int) -> int | None:
        """Where the mask of a layer stands; equal ones are stored once."""
        if layer not in self._masks:
            found = self.trace[layer]
            rule = found.recorded.bound
            seen = rule.visible(range(rule.queries), range(rule.keys), device=found.query.device)
            self._masks[layer] = None if seen is None else self._stored_mask(_numbers(seen)[0, 0])
        return self._masks[layer]

    def _stored_mask(self, seen: npt.NDArray[Any]) -> int:
        whole = np.broadcast_to(seen, (len(self.trace.queries), seen.shape[-1]))[self.places]
        bits = np.packbits(whole.astype(bool), axis=1, bitorder="little")
        name = bits.tobytes()
        if name not in self._mask_bytes:
            self._mask_bytes[name] = len(self.steps.masks)
            self.steps.masks.append(self._counted(bits, "u8"))
        return self._mask_bytes[name]

    def _context(self, layer: int) -> npt.NDArray[Any]:
        if layer not in self._contexts:
            self._contexts[layer] = _numbers(self.trace[layer].context)[:, self.places]
        return self._contexts[layer]

    def _projection(self, layer: "LayerTrace", head: int) -> Array | None:
        """W_O of one head, (d_v, d_model)."""
        if layer.projection is None:
            return None
        weight = _numbers(layer.projection.weight)
        width = weight.shape[1] // layer.query.shape[0]
        return self._counted(weight[:, head * width : (head + 1) * width].T)

    def _counted(self, values: npt.NDArray[Any], kind: ArrayType = "f32") -> Array:
        array = Array.of(values, kind)
        self.used += len(array.data)
        return array


def _numbers(tensor: "Tensor") -> npt.NDArray[Any]:
    """A tensor of any dtype as NumPy's, which knows no bfloat16."""
    return tensor.float().numpy(force=True)
