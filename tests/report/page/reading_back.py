"""What a page's module does with the values, in NumPy: unpacks them, and goes a head's steps."""

import base64
import json
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Stepped", "stepped", "unpacked"]

_TYPES = {"f32": "<f4", "u32": "<u4", "u16": "<u2", "u8": "|u1"}


def unpacked(text: str) -> Any:
    """The values of a page, arrays as NumPy's."""
    return json.loads(text, object_hook=_array)


def _array(entry: dict[str, Any]) -> Any:
    if set(entry) != {"type", "shape", "data"}:
        return entry
    kind = np.dtype(_TYPES[entry["type"]])
    planes = np.frombuffer(zlib.decompress(base64.b64decode(entry["data"])), np.uint8)
    return planes.reshape(kind.itemsize, -1).T.copy().view(kind).reshape(entry["shape"])


@dataclass(frozen=True)
class Stepped:
    """One head's steps for one row, in float64."""

    raw: Any
    scores: Any
    weights: Any
    context: Any
    lengths: Any


def stepped(values: dict[str, Any], step: dict[str, Any], row: int) -> Stepped:
    """Go the steps as the page does."""
    key, value = values["keys"][step["key"]], values["values"][step["value"]]
    raw = step["scale"] * (key.astype(float) @ step["query"][row].astype(float))
    cap = step["softcap"]
    scores = raw if cap is None else cap * np.tanh(raw / cap)
    if step["bias"] is not None:
        scores = scores + step["bias"][row]
    if step["mask"] is not None:
        bits = np.unpackbits(values["masks"][step["mask"]][row], bitorder="little").astype(bool)
        seen = bits[: len(values["look"]["strip"]["tokens"])]
        seen = seen if values["columns"] is None else seen[values["columns"]]
        scores = np.where(seen, scores, -np.inf)
    weights = np.exp(scores - step["level"][row])
    lengths = weights * step["value_norm"]
    return Stepped(raw, scores, weights, weights @ value.astype(float), lengths)
