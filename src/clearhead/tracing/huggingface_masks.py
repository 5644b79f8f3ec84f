"""transformers' mask functions as our masks: a lazy value reaches each layer, nothing n×m is made.

transformers describes a mask as a function of (batch, head, query, key) put together from a few
makers. Those makers are recognised by name and by what they closed over, since a recognised mask
answers for a whole block by arithmetic; any other function is taken as it is and asked entry by
entry.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import masking_utils

from clearhead.errors import UnsupportedError
from clearhead.masks import (
    Mask,
    causal_mask,
    chunked_mask,
    document_mask,
    full_mask,
    padding_mask,
    sliding_window_mask,
)

__all__ = ["LazyMask", "lazy_mask", "translated"]

MaskFunction = Callable[..., Any]


class _NotATensorError(UnsupportedError, AttributeError):
    """A model asked a lazy mask for what only a tensor has; ``hasattr`` still works."""


@dataclass(frozen=True, eq=False)
class LazyMask:
    """What a layer is handed in place of a mask tensor.

    Attributes:
        mask: who may look at whom, by absolute position.
        query_start: absolute position of the first query.
        key_start: absolute position of the first key that the cache still holds.
        keys: m.
    """

    mask: Mask
    query_start: int
    key_start: int
    keys: int

    @property
    def ndim(self) -> int:
        """Batch, heads, queries, keys: what transformers asks of a mask it is given ready made."""
        return 4

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _NotATensorError(_NOT_A_TENSOR.format(f".{name}"))

    def __getitem__(self, place: Any) -> Any:
        raise _NotATensorError(_NOT_A_TENSOR.format("entries"))

    def _as_a_number(self, _other: Any) -> Any:
        raise _NotATensorError(_NOT_A_TENSOR.format("numbers"))

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _as_a_number


_NOT_A_TENSOR = (
    "its layers ask their attention mask for {} as if it were a tensor, and clearhead forms none"
)


def lazy_mask(
    *,
    q_length: int,
    kv_length: int,
    mask_function: MaskFunction,
    q_offset: int | Tensor = 0,
    kv_offset: int = 0,
    attention_mask: Tensor | LazyMask | None = None,
    **unused: Any,
) -> LazyMask:
    """The mask function registered with transformers.

    Args:
        q_length: n, which our mask learns from the call itself.
        kv_length: m.
        mask_function: transformers' own description of the mask.
        q_offset: absolute position of the first query.
        kv_offset: absolute position of the first key.
        attention_mask: (batch, positions so far), True where a token is real; or a lazy mask that
            was made before (generation with a static cache does), which is the answer.
        unused: what only dense masks need.

    Returns:
        The lazy mask, which transformers passes to every layer untouched.
    """
    del q_length, unused
    if isinstance(attention_mask, LazyMask):
        return attention_mask
    end = int(kv_offset) + int(kv_length)
    mask = translated(mask_function, end=end)
    if attention_mask is not None:
        real = _fitted(attention_mask.bool(), end)
        # all real is no padding: the plain triangle then keeps its own kernel, and the bits of sdpa
        if not bool(real.all()):
            mask = mask & padding_mask(real)
    return LazyMask(mask, int(q_offset), int(kv_offset), int(kv_length))


def _fitted(real: Tensor, length: int) -> Tensor:
    """Slots that no token has reached yet are not real."""
    missing = length - real.shape[-1]
    return torch.nn.functional.pad(real, (0, missing)) if missing > 0 else real[:, :length]


def translated(function: MaskFunction, *, end: int | None = None) -> Mask:
    """One of transformers' mask functions as a mask.

    Args:
        function: a function of (batch, head, query, key), by absolute position.
        end: the first position that no key and no query reaches: a window that is wider is none,
            and the plain triangle then keeps its own kernel. None is not known.

    Returns:
        The same mask: by arithmetic where its maker is known, else asked entry by entry.
    """
    if function is masking_utils.causal_mask_function:
        return causal_mask()
    if function is masking_utils.bidirectional_mask_function:
        return full_mask()
    make = _MAKERS.get(getattr(function, "__qualname__", ""))
    known = make is not None and getattr(function, "__module__", "") == masking_utils.__name__
    mask = make(_closed_over(function), end) if make is not None and known else None
    # transformers itself asks such a function for one head only
    return Mask.from_mask_mod(function, heads=1) if mask is None else mask


def _closed_over(function: MaskFunction) -> Mapping[str, Any]:
    cells = getattr(function, "__closure__", None) or ()
    return dict(zip(function.__code__.co_freevars, (c.cell_contents for c in cells), strict=True))


def _all_of(held: Mapping[str, Any], end: int | None) -> Mask:
    parts: tuple[MaskFunction, ...] = held["mask_functions"]
    packed = any(_made_by(part, "packed_sequence_mask_function") for part in parts)
    mask: Mask = full_mask()
    for part in parts:
        mask = mask & translated(_by_own_position(part) if packed else part, end=end)
    return mask


def _by_own_position(function: MaskFunction) -> MaskFunction:
    """Undo positions that count anew in each document, where inside one it makes no difference.

    It makes none to what only compares distances, as a triangle and a window do; chunks and
    functions of unknown makers keep the positions they were given.
    """
    if not _made_by(function, "remap_positions_for_packed_sequence"):
        return function
    inner = _closed_over(function)["mask_function"]
    return inner if _compares_distances(inner) else function


def _compares_distances(function: MaskFunction) -> bool:
    if _made_by(function, "and_masks") or _made_by(function, "or_masks"):
        return all(map(_compares_distances, _closed_over(function)["mask_functions"]))
    plain = (masking_utils.causal_mask_function, masking_utils.bidirectional_mask_function)
    windows = ("sliding_window_overlay", "sliding_window_bidirectional_overlay")
    return function in plain or any(_made_by(function, maker) for maker in windows)


def _any_of(held: Mapping[str, Any], end: int | None) -> Mask:
    first, *others = held["mask_functions"]
    mask = translated(first, end=end)
    for part in others:
        mask = mask | translated(part, end=end)
    return mask


def _made_by(function: MaskFunction, maker: str) -> bool:
    own = getattr(function, "__module__", "") == masking_utils.__name__
    return own and getattr(function, "__qualname__", "").startswith(f"{maker}.")


def _window(held: Mapping[str, Any], end: int | None) -> Mask:
    """Nothing older than the window; what comes later is left to the mask it stands beside."""
    width: int = held["sliding_window"]
    if end is not None and width >= end:
        return full_mask()
    later = ~causal_mask()
    return sliding_window_mask(width) | later if width > 0 else later


def _window_both_ways(held: Mapping[str, Any], end: int | None) -> Mask:
    width: int = held["sliding_window"] + 1
    return full_mask() if end is not None and width >= end else sliding_window_mask(width)


_MAKERS: dict[str, Callable[[Mapping[str, Any], int | None], Mask]] = {
    "and_masks.<locals>.and_mask": _all_of,
    "or_masks.<locals>.or_mask": _any_of,
    "sliding_window_overlay.<locals>.inner_mask": _window,
    "sliding_window_bidirectional_overlay.<locals>.inner_mask": _window_both_ways,
    "chunked_overlay.<locals>.inner_mask": lambda held, _: chunked_mask(
        held["chunk_size"], start=held["left_padding"]
    ),
    "packed_sequence_mask_function.<locals>.inner_mask": lambda held, _: document_mask(
        held["packed_sequence_mask"]
    ),
    "blockwise_overlay.<locals>.inner_mask": lambda held, _: document_mask(
        held["block_sequence_ids"]
    ),
    "padding_mask_function.<locals>.inner_mask": lambda held, _: padding_mask(held["padding_mask"]),
}
