"""The named masks, as people write them.

Each is one formula over absolute positions i (query) and j (key), True where i may look at j.
"""

import operator
from itertools import pairwise
from typing import SupportsIndex

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from clearhead.errors import MaskError, gathered
from clearhead.masks.algebra import Full
from clearhead.masks.arithmetic import Causal, Chunked, PrefixLM, SlidingWindow
from clearhead.masks.places import numbers, written
from clearhead.masks.stored import Document, Padding

__all__ = [
    "Causal",
    "Chunked",
    "Document",
    "Full",
    "Padding",
    "PrefixLM",
    "SlidingWindow",
    "causal_mask",
    "chunked_mask",
    "document_mask",
    "full_mask",
    "padding_mask",
    "prefix_lm_mask",
    "sliding_window_mask",
]


def full_mask() -> Full:
    """Let everyone look everywhere.

    ``mask(i, j) = True``

    Returns:
        The mask; ``full_mask() & mask`` is ``mask``.

    Example:
        >>> full_mask() & causal_mask()
        causal_mask()
    """
    return Full()


def causal_mask() -> Causal:
    """Let each position look at itself and at what came before it.

    ``mask(i, j) = j <= i``

    Returns:
        The mask.

    Example:
        >>> causal_mask().to_dense(queries=3, keys=3).int()[0, 0].tolist()
        [[1, 0, 0], [1, 1, 0], [1, 1, 1]]

        Two new queries after a cache of three keys stand at positions 3 and 4:

        >>> causal_mask().to_dense(queries=2, keys=5, query_start=3).int()[0, 0].tolist()
        [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    """
    return Causal()


def sliding_window_mask(width: int) -> SlidingWindow:
    """Let each position look at what is near, on both sides.

    ``mask(i, j) = |i - j| < W``

    Args:
        width: W, at least 1. Joined with ``causal_mask()``, a position sees W keys, itself
            included: FlashAttention's window ``(W - 1, 0)``.

    Returns:
        The mask.

    Raises:
        MaskError: if ``width`` is no integer of 1 or more.

    Example:
        >>> mask = causal_mask() & sliding_window_mask(2)
        >>> mask.to_dense(queries=1, keys=6, query_start=5).int()[0, 0].tolist()
        [[0, 0, 0, 0, 1, 1]]
    """
    return SlidingWindow(_count("sliding_window_mask", "width", width, least=1))


def padding_mask(keep: Shaped[Tensor, "..."]) -> Padding:
    """Let nobody look at padding.

    ``mask(b, i, j) = keep[b, j]``

    Args:
        keep: (m,) for all batch rows or (batch, m): True or 1 = real, False or 0 = padding, as
            tokenizers write their ``attention_mask``. It is copied.

    Returns:
        The mask. A padded query still looks at the real keys: its row means nothing, but is finite.

    Raises:
        MaskError: if ``keep`` has another shape, or is floating point (in an additive mask 0 means
            the opposite).

    Example:
        >>> padding_mask(torch.tensor([1, 1, 0])).to_dense(queries=1, keys=3).int()[0, 0].tolist()
        [[1, 1, 0]]
    """
    if (
        not _is_tensor(keep)
        or keep.dim() not in {1, 2}
        or keep.is_floating_point()
        or keep.is_complex()
    ):
        raise MaskError(
            f"padding_mask: expected keep as bool or integers (m,) or (batch, m), 1 = real and "
            f"0 = padding, got {written(keep)}"
        )
    return Padding(_rows(keep) != 0)


def document_mask(
    ids: Int[Tensor, "..."] | None = None, *, cu_seqlens: Int[Tensor, "..."] | None = None
) -> Document:
    """Let the positions of one document look at each other: several documents packed in a row.

    ``mask(b, i, j) = ids[b, i] == ids[b, j] and ids[b, i] >= 0``

    Args:
        ids: (m,) for all batch rows or (batch, m): the document of each position. A negative id is
            padding: it sees nobody and nobody sees it. It is copied.
        cu_seqlens: instead of ids, (documents + 1,): where each document begins, and where the last
            one ends. It is read once (an accelerator waits).

    Returns:
        The mask. A position beyond the ids belongs to no document.

    Raises:
        MaskError: if not exactly one of the two is given, or it is no such tensor.

    Example:
        >>> packed = document_mask(cu_seqlens=torch.tensor([0, 1, 3]))
        >>> packed.to_dense(queries=3, keys=3).int()[0, 0].tolist()
        [[1, 0, 0], [0, 1, 1], [0, 1, 1]]
    """
    if cu_seqlens is not None and ids is None:
        return Document(_ids(cu_seqlens)[None])
    if ids is None or cu_seqlens is not None:
        got = "both" if ids is not None else "neither"
        raise MaskError(f"document_mask: expected ids or cu_seqlens=, got {got}; give one of them")
    if not _is_tensor(ids) or ids.dim() not in {1, 2} or not _integral(ids):
        raise MaskError(
            f"document_mask: expected ids as integers (m,) or (batch, m), negative = padding, got "
            f"{written(ids)}"
        )
    return Document(_rows(ids).to(torch.int64).clamp(min=-1))


def prefix_lm_mask(prefix: int | Int[Tensor, "..."]) -> PrefixLM:
    """Let each position look at what came before it, and all of the prefix at all of the prefix.

    ``mask(b, i, j) = j <= i or j < prefix[b]``

    Args:
        prefix: how many positions the prefix has, 0 or more; one for all, or (batch,).

    Returns:
        The mask.

    Raises:
        MaskError: if ``prefix`` is neither.

    Example:
        >>> prefix_lm_mask(2).to_dense(queries=3, keys=3).int()[0, 0].tolist()
        [[1, 1, 0], [1, 1, 0], [1, 1, 1]]
    """
    if isinstance(prefix, Tensor):
        return PrefixLM(_each("prefix_lm_mask", "prefix", prefix))
    return PrefixLM(_count("prefix_lm_mask", "prefix", prefix, least=0))


def chunked_mask(size: int, *, start: int | Int[Tensor, "..."] = 0) -> Chunked:
    """Let each position look at its own chunk.

    ``mask(b, i, j) = ⌊(i - start[b]) / size⌋ == ⌊(j - start[b]) / size⌋``

    Args:
        size: positions a chunk, at least 1.
        start: where the first chunk begins, 0 or more; one for all, or (batch,): with left padding,
            the first real position of each batch row.

    Returns:
        The mask. It looks both ways inside a chunk; join it with ``causal_mask()`` for a decoder.

    Raises:
        MaskError: if ``size`` or ``start`` is no such number.

    Example:
        >>> padded = chunked_mask(2, start=torch.tensor([1]))
        >>> padded.to_dense(queries=4, keys=4).int()[0, 0].tolist()
        [[1, 0, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]]
    """
    size = _count("chunked_mask", "size", size, least=1)
    if isinstance(start, Tensor):
        return Chunked(size, _each("chunked_mask", "start", start))
    return Chunked(size, _count("chunked_mask", "start", start, least=0))


def _rows(table: Tensor) -> Tensor:
    return table[None] if table.dim() == 1 else table


def _count(mask: str, name: str, value: object, *, least: int) -> int:
    number = _number(value)
    if number is None or number < least:
        raise MaskError(f"{mask}: expected {name} as an integer of {least} or more, got {value!r}")
    return number


def _number(value: object) -> int | None:
    if isinstance(value, bool | Tensor) or not isinstance(value, SupportsIndex):
        return None
    try:  # NumPy's integers are no int, and its truth values only look like integers
        return operator.index(value)
    except TypeError:
        return None


def _is_tensor(value: object) -> bool:
    return isinstance(value, Tensor)


def _each(mask: str, name: str, value: Tensor) -> Tensor:
    if value.dim() != 1 or not _integral(value):
        raise MaskError(
            f"{mask}: expected {name} as one integer or integers (batch,), got {written(value)}"
        )
    return value.to(torch.int64, copy=True)


def _integral(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)


def _ids(cu_seqlens: Tensor) -> Int[Tensor, "m"]:
    if (
        not _is_tensor(cu_seqlens)
        or cu_seqlens.dim() != 1
        or not len(cu_seqlens)
        or not _integral(cu_seqlens)
    ):
        raise MaskError(
            f"document_mask: expected cu_seqlens as integers (documents + 1,), got "
            f"{written(cu_seqlens)}"
        )
    bounds = numbers(cu_seqlens)
    faults = [] if bounds[0] == 0 else [f"expected entry 0 to be 0, got {bounds[0]}"]
    faults += [
        f"expected entry {k} to be {before} or more, as the one before it, got {after}"
        for k, (before, after) in enumerate(pairwise(bounds), start=1)
        if after < before
    ]
    if faults:
        raise MaskError(gathered("document_mask: cu_seqlens", faults))
    documents = torch.arange(len(bounds) - 1, device=cu_seqlens.device)
    return documents.repeat_interleave(cu_seqlens.diff().to(torch.int64), output_size=bounds[-1])
