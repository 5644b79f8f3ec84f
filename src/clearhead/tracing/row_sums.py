"""Sums over the heads of all layers for rows of A: by source, by head, the strongest links."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["Links", "RowSums", "joined", "largest"]

#: Neighbours that are first looked at together.
_RUN = 64


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


class RowSums:
    """What some rows make by one measure, summed layer by layer.

    b counts the rows, h the heads of one layer, m the sources.

    Args:
        links: how many of the strongest links to keep of each row.
    """

    def __init__(self, links: int) -> None:
        self.k = links
        self.by_source: Tensor = torch.zeros(())
        self.by_head: list[Tensor] = []
        self.best: tuple[Tensor, Tensor] | None = None
        self.found: list[Links] = []

    def add(
        self,
        measured: Float[Tensor, "h b m"],
        weights: Float[Tensor, "h b m"],
        lengths: Float[Tensor, "h b m"] | None,
        *,
        start: int,
    ) -> None:
        """Take in one layer.

        Args:
            measured: what is summed: ``weights`` or ``lengths``.
            weights: A.
            lengths: ‖A · v · W_O‖, or None where W_O is not known.
            start: the place of the layer's first head among all heads.
        """
        self.by_source = self.by_source.to(measured.device) + measured.sum(0, dtype=torch.float64)
        self.by_head.append(measured.sum(2, dtype=torch.float64))
        values, heads = measured.max(0)
        heads = heads + start
        if self.best is not None:
            before = self.best[0] >= values
            values = torch.where(before, self.best[0], values)
            heads = torch.where(before, self.best[1], heads)
        self.best = values, heads
        share, place = largest(measured.transpose(0, 1).flatten(1), self.k)
        head, position = place // measured.shape[2], place % measured.shape[2]
        row = torch.arange(len(head), device=head.device)[:, None]
        nothing = torch.full_like(share, torch.nan)
        length = nothing if lengths is None else lengths[head, row, position]
        weight = weights[head, row, position]
        self.found.append(Links(head + start, position, weight, length, share))

    def parts(self) -> dict[str, Tensor]:
        """Shares of sources and of heads, and the strongest head of each source."""
        assert self.best is not None
        return {
            "share": (self.by_source / self._total[:, None]).float(),
            "heads": (torch.cat(self.by_head) / self._total).T.float(),
            "strongest": self.best[1],
        }

    def links(self) -> Links:
        """The strongest links of all layers."""
        every = [torch.cat(parts, 1) for parts in zip(*map(_fields, self.found), strict=True)]
        best = every[-1].topk(min(self.k, every[-1].shape[1]), dim=1)
        head, position, weight, length, _ = (part.gather(1, best.indices) for part in every)
        share = best.values.double() / self._total[:, None]
        told = (part.float().cpu() for part in (weight, length, share))
        return Links(head.cpu(), position.cpu(), *told)

    @property
    def _total(self) -> Float[Tensor, "b"]:
        return self.by_source.sum(1).clamp(min=torch.finfo(torch.float64).tiny)


def largest(numbers: Float[Tensor, "b c"], k: int) -> tuple[Tensor, Tensor]:
    """The k largest numbers of each row, largest first, and their places.

    They are looked for where the largest of 64 neighbours is large: a pass that every core shares
    in, where PyTorch's own search through a long row takes one.

    Args:
        numbers: the rows.
        k: how many; at most c are found.
    """
    rows, count = numbers.shape
    whole = count // _RUN
    if whole <= k:
        found = numbers.topk(min(k, count), dim=1)
        return found.values, found.indices
    runs = numbers[:, : whole * _RUN].reshape(rows, whole, _RUN)
    # no number outside the k runs with the largest maxima is among the k largest
    chosen = runs.amax(2).topk(k, dim=1).indices
    places = (chosen[:, :, None] * _RUN + torch.arange(_RUN, device=numbers.device)).flatten(1)
    rest = torch.arange(whole * _RUN, count, device=numbers.device).expand(rows, -1)
    places = torch.cat([places, rest], 1)
    found = numbers.gather(1, places).topk(k, dim=1)
    return found.values, places.gather(1, found.indices)


def _fields(links: Links) -> tuple[Tensor, ...]:
    return links.head, links.position, links.weight, links.length, links.share


def joined(parts: Sequence[Links]) -> Links:
    """The links of several blocks of rows, one after the other.

    Args:
        parts: the blocks'.
    """
    return Links(*(torch.cat(same) for same in zip(*map(_fields, parts), strict=True)))
