"""The memory of one attention layer: its keys and values, laid out once."""

from collections.abc import Sequence

import torch
from torch import Tensor

from clearhead.transformer.cache_gradients import kept, without_backward

__all__ = ["CrossMemory", "LayerMemory"]


class LayerMemory:
    """One layer's keys and values.

    Args:
        shape: batch, key-value heads, and slots.
        widths: d_k and d_v.
        window: keys a token sees, or None.
        dtype: of both.
        device: of both.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        *,
        widths: tuple[int, int],
        window: int | None,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        d_k, d_v = widths
        self.key = torch.zeros(*shape, d_k, dtype=dtype, device=device)
        self.value = torch.zeros(*shape, d_v, dtype=dtype, device=device)
        self.window = window
        self.slots = shape[2]
        self.start = 0

    @property
    def nbytes(self) -> int:
        """Bytes of both."""
        return self.key.nbytes + self.value.nbytes

    def reorder(self, rows: Sequence[int]) -> None:
        """Make each row a copy of another one."""
        index = torch.tensor(rows, device=self.key.device)
        self.key, self.value = self.key[index], self.value[index]

    def forget(self) -> None:
        """Begin anew; what is there is overwritten."""
        self.start = 0

    def keeps_all(self, begins: Sequence[int], end: int) -> bool:
        """Whether the keys of all tokens, from the first on, are there once the next have come.

        Args:
            begins: tokens of each row so far.
            end: position after the last one to come.
        """
        return self._begin(begins, end) == 0

    def make_room(self, begins: Sequence[int], end: int) -> None:
        """Move a window along where the slots would not reach, or were more than are needed.

        Many tokens at once stretch it, for each must see its own window; the next call gives that
        back.

        Args:
            begins: tokens of each row so far.
            end: position after the last one to come.
        """
        if self._fits(end):
            return
        slots, oldest = self.key.shape[2], self._begin(begins, end)
        kept = range(oldest - self.start, max(begins) - self.start)
        needed = end - oldest
        for name in ("key", "value"):
            old: Tensor = getattr(self, name)
            room = max(needed, self.slots)
            # made as the cache was, though it be in inference_mode: it may be read on outside
            with torch.inference_mode(mode=old.is_inference()):
                new = old if room == slots else old.new_zeros(*old.shape[:2], room, old.shape[3])
            new[:, :, : len(kept)] = old[:, :, kept.start : kept.stop].clone()
            setattr(self, name, new)
        self.start = oldest

    def _fits(self, end: int) -> bool:
        """Whether the slots are those that are needed, and reach so far."""
        slots = self.key.shape[2]
        return self.window is None or (slots == self.slots and end - self.start <= slots)

    def _begin(self, begins: Sequence[int], end: int) -> int:
        """Position of the oldest key that is held once the next tokens have come."""
        if self.window is None or self._fits(end):
            return self.start
        return max(min(begins) - self.window + 1, self.start)


class CrossMemory:
    """One cross-attention's keys and values: made from the source once, and kept."""

    def __init__(self) -> None:
        self._kept: tuple[Tensor, Tensor] | None = None

    @property
    def complete(self) -> bool:
        """Whether the source was read."""
        return self._kept is not None

    @property
    def start(self) -> int:
        """A source begins at its first token."""
        return 0

    @property
    def nbytes(self) -> int:
        """Bytes of both; 0 before the source was read."""
        return 0 if self._kept is None else sum(kept.nbytes for kept in self._kept)

    def extend(self, key: Tensor | None, value: Tensor | None) -> tuple[Tensor, Tensor]:
        """Keep what the source gives, the first time, and give it."""
        if self._kept is None:
            assert key is not None
            assert value is not None
            self._kept = (kept(key), kept(value))
            # the call that made them would otherwise send gradients to some calls, and not to all
            return without_backward(key, key), without_backward(value, value)
        return self._kept

    def forget(self) -> None:
        """Have the source read again, or another one."""
        self._kept = None

    def reorder(self, rows: Sequence[int]) -> None:
        """Make each row a copy of another one."""
        if self._kept is not None:
            key, value = self._kept
            index = torch.tensor(rows, device=key.device)
            self._kept = (key[index], value[index])
