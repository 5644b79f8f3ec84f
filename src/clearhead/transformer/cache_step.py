"""One call's tokens on their way into a cache: where each goes, and what is then there to see."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clearhead.errors import InputError
from clearhead.transformer.cache_gradients import kept, without_backward
from clearhead.transformer.cache_memory import LayerMemory

if TYPE_CHECKING:
    from clearhead.transformer.cache import KVCache

__all__ = ["CacheStep", "LayerStep"]


class Room(NamedTuple):
    """Views of one layer's memory with room for a call's tokens.

    Attributes:
        key: keys from the memory's start on, those of the call included.
        value: likewise values.
        new: what the call's keys and values are copied into; None where rows differ in length or
            have padding.
    """

    key: Float[Tensor, "batch kv_heads m d_k"]
    value: Float[Tensor, "batch kv_heads m d_v"]
    new: tuple[Tensor, Tensor] | None


@dataclass(frozen=True, eq=False)
class CacheStep:
    """One call's tokens on their way into a cache.

    Attributes:
        cache: where they go.
        ends: tokens of each row once they are in.
        real: which of the call's tokens are real; None is all.
        tokens: tokens a row, padding included.
    """

    cache: "KVCache"
    ends: tuple[int, ...]
    real: Bool[Tensor, "batch n"] | None
    tokens: int

    @property
    def level(self) -> bool:
        """Whether all rows are equally long and all tokens real: they then go side by side."""
        return self.real is None and len(set(self.cache.lengths)) == 1

    def positions(self, device: torch.device) -> Int[Tensor, "#batch n"]:
        """Absolute position of each token of the call; padding has one it shares with no real."""
        begins = self.cache.lengths
        if self.level:
            return torch.arange(begins[0], begins[0] + self.tokens, device=device)[None]
        if self.real is None:
            steps = torch.arange(self.tokens, device=device)
            return torch.tensor(begins, device=device)[:, None] + steps
        begin = torch.tensor(begins, device=device)[:, None]
        return (begin + self.real.to(device).long().cumsum(-1) - 1).clamp(min=0)

    @property
    def query_start(self) -> int | Int[Tensor, "batch"]:
        """Position of each row's first token, had its padding on the left one too."""
        lefts = self._left_padding()
        starts = [old - left for old, left in zip(self.cache.lengths, lefts, strict=True)]
        return starts[0] if len(set(starts)) == 1 else torch.tensor(starts)

    def enter(self, layer: int, *, dtype: torch.dtype, device: torch.device) -> "LayerStep":
        """Say where the call's tokens go in one layer.

        Args:
            layer: its number.
            dtype: of the keys and values to come.
            device: where those are.

        Returns:
            The layer's part of the call.

        Raises:
            InputError: they are of another dtype than the cache, or on another device.
        """
        memory = self.cache.layers[layer]
        _refuse_other(memory.key, dtype, device)
        # a window moves only once its layer is reached: a call that fails before leaves it
        return LayerStep(self, memory, self.room(memory) if memory.window is None else None)

    def room(self, memory: LayerMemory) -> "Room":
        """Make room for the call's tokens.

        Args:
            memory: where.

        Returns:
            Views of it, which hold until room is made in it again.
        """
        begins, end = self.cache.lengths, max(self.ends)
        memory.make_room(begins, end)
        both, length = (memory.key, memory.value), end - memory.start
        key, value = (one.narrow(2, 0, length) for one in both)
        if not self.level:
            return Room(key, value, None)
        new_key, new_value = (one.narrow(2, begins[0] - memory.start, self.tokens) for one in both)
        return Room(key, value, (new_key, new_value))

    @property
    def outgrown(self) -> bool:
        """Whether a row becomes so long, or became so short, that its angles change."""
        return self.cache.stale or any(
            0 < begin <= switch < end
            for begin, end in zip(self.cache.lengths, self.ends, strict=True)
            for switch in self.cache.switches
        )

    def places(self, device: torch.device) -> tuple[Int[Tensor, "real"], Int[Tensor, "real"]]:
        """Row and column, in the call, of each real token."""
        shape = (len(self.ends), self.tokens)
        real = torch.ones(shape, device=device) if self.real is None else self.real.to(device)
        rows, columns = real.nonzero().unbind(1)
        return rows, columns

    def done(self, ids: Int[Tensor, "batch n"]) -> None:
        """Count the tokens as read.

        Args:
            ids: the tokens.
        """
        if self.cache.switches:
            self.cache.ids = self.text(ids)
        self.cache.lengths = self.ends

    def text(self, ids: Int[Tensor, "batch n"]) -> Int[Tensor, "batch capacity"]:
        """All that was read and these tokens, each at its position.

        Args:
            ids: the tokens.
        """
        rows, columns = self.places(ids.device)
        positions = self.positions(ids.device).expand(len(ids), -1)
        text = self.cache.ids.clone()
        text[rows, positions[rows, columns]] = ids[rows, columns]
        return text

    def _left_padding(self) -> list[int]:
        if self.real is None:
            return [0] * len(self.ends)
        return [int(first) for first in self.real.int().argmax(-1)]


@dataclass(frozen=True, eq=False)
class LayerStep:
    """One call's tokens on their way into one layer's memory.

    Attributes:
        step: the call's.
        memory: the layer's.
        room: where they go; None is to be made.
    """

    step: CacheStep
    memory: LayerMemory
    room: Room | None

    @property
    def complete(self) -> bool:
        """Never: the call's own tokens are still to come."""
        return False

    @property
    def start(self) -> int:
        """Absolute position of the first key."""
        return self.memory.start

    def extend(
        self,
        key: Float[Tensor, "batch kv_heads n d_k"] | None,
        value: Float[Tensor, "batch kv_heads n d_v"] | None,
    ) -> tuple[Float[Tensor, "batch kv_heads m d_k"], Float[Tensor, "batch kv_heads m d_v"]]:
        """Take in the call's keys and values, and give all from ``start`` on, as views."""
        assert key is not None
        assert value is not None
        room = self.step.room(self.memory) if self.room is None else self.room
        if room.new is not None:
            room.new[0].copy_(kept(key))
            room.new[1].copy_(kept(value))
        else:
            self._scatter(kept(key), kept(value))
        return without_backward(room.key, key), without_backward(room.value, value)

    def _scatter(self, key: Tensor, value: Tensor) -> None:
        """Put each real token at the slot of its own position."""
        memory, begins = self.memory, self.step.cache.lengths
        rows, tokens = self.step.places(key.device)
        slots = self.step.positions(key.device).expand(len(begins), -1)[rows, tokens]
        where = (rows, slice(None), slots - memory.start)
        memory.key[where] = key[rows, :, tokens].to(memory.key.dtype)
        memory.value[where] = value[rows, :, tokens].to(memory.value.dtype)


def _refuse_other(held: Tensor, dtype: torch.dtype, device: torch.device) -> None:
    """Say so where a cache cannot take in what a model makes."""
    if held.is_inference() and not torch.is_inference_mode_enabled():
        raise InputError(
            "the cache was filled in inference_mode: read on in that mode, or make it outside"
        )
    rounded = torch.is_autocast_enabled(device.type)
    if held.device != device or (held.dtype != dtype and not rounded):
        raise InputError(
            f"the cache holds {held.dtype} on {held.device}, and the model's keys are {dtype} on "
            f"{device}: make it with that dtype= and device="
        )
