"""The KV cache: keys and values of the tokens a model has read, so that each is made once.

Every batch row holds its *real* tokens only, each at its own position: padding is left out on the
way in, on whichever side it stood. A key's slot then tells its position, no mask is needed to hide
what other rows have more of, and how much padding there was cannot matter.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from clearhead.errors import InputError
from clearhead.pipeline.devices import present_device
from clearhead.positions.scaling import DynamicScaling, LongRopeScaling, RotaryScaling
from clearhead.transformer.cache_cost import slots, whole
from clearhead.transformer.cache_faults import check_made, rows_there
from clearhead.transformer.cache_memory import CrossMemory, LayerMemory
from clearhead.transformer.cache_step import CacheStep
from clearhead.transformer.calls import Encoded
from clearhead.transformer.config import TransformerConfig

__all__ = ["KVCache"]


class KVCache:
    """Keys and values of every layer, in memory that is laid out once.

    A layer with a window keeps what its window can still reach; every other layer keeps all.

    It holds numbers, no gradients: a model may be called with it anywhere, but a backward pass
    through such a call is an :class:`~clearhead.InputError`. A decoder that reads an encoder looks
    at one ``source`` while its cache holds any token; that of a reordered cache is reordered alike.

    Args:
        config: of the model.
        batch: number of rows.
        capacity: most tokens a row can hold.
        dtype: of keys and values, as torch's or by name: the model's.
        device: where they lie.

    Raises:
        InputError: a size is no positive whole number, the model is no decoder, or there is no such
            dtype, no such device or no memory for it.

    Cost: ``nbytes`` = layers · 2 · batch · kv_heads · capacity · d · bytes a number, less for
    windows; a step moves no key that is already there, but for a window once in 256 tokens.
    """

    def __init__(
        self,
        config: TransformerConfig,
        *,
        batch: int = 1,
        capacity: int,
        dtype: torch.dtype | str = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        check_made(config, {"batch": batch, "capacity": capacity}, dtype)
        batch, capacity, device = int(batch), int(capacity), present_device(device)
        self.config = config
        self.capacity = capacity
        #: lengths beyond which all angles change, so that a text must be read again
        self.switches = tuple(
            scaling.original_context
            for scaling in _scalings(config)
            if isinstance(scaling, LongRopeScaling)
        )
        self.limit = min(
            (s.original_context for s in _scalings(config) if isinstance(s, DynamicScaling)),
            default=None,
        )
        # before all else that grows with batch or capacity: this says in one line, where memory
        # cannot hold it, what was asked for
        self.layers = _laid_out(
            config,
            (batch, capacity),
            dtype=getattr(torch, str(dtype).removeprefix("torch.")),
            device=device,
        )
        #: what was read, where it may have to be read again
        self.ids = torch.zeros(
            batch, capacity if self.switches else 0, dtype=torch.int64, device=device
        )
        #: whether what is held was turned by angles that no longer hold
        self.stale = False
        self.lengths: tuple[int, ...] = (0,) * batch
        #: what the keys and values of cross-attention were made of
        self.source: Encoded | None = None
        self.cross: tuple[CrossMemory, ...] = tuple(
            CrossMemory() for _ in range(config.layers if config.encoder else 0)
        )

    @property
    def batch(self) -> int:
        """Number of rows."""
        return len(self.lengths)

    @property
    def nbytes(self) -> int:
        """Bytes laid out for keys and values."""
        return sum(memory.nbytes for memory in (*self.layers, *self.cross))

    def crop(self, length: int) -> None:
        """Forget all but the first tokens of every row.

        Args:
            length: how many each row keeps, 0 or more; or, below 0, how many each forgets.

        Raises:
            InputError: it is no whole number, a row holds fewer tokens than it should forget, a
                layer's window has already moved past what it would have to hold again, or angles
                would change that cannot.
        """
        count = whole(length)
        if count is None:
            raise InputError(f"crop must be given a whole number, got {length!r}")
        self._crop(count)

    def _crop(self, length: int) -> None:
        if length < 0 and -length > min(self.lengths):
            raise InputError(
                f"crop({length}) must forget at most what every row holds, got rows of "
                f"{', '.join(map(str, self.lengths))} tokens"
            )
        kept = [max(old + length, 0) if length < 0 else min(old, length) for old in self.lengths]
        if any(kept):
            self._refuse_lost(length, kept)
        else:
            for memory in (*self.layers, *self.cross):
                memory.forget()
            self.source = None
        self.stale = self.stale or any(
            new <= switch < old
            for old, new in zip(self.lengths, kept, strict=True)
            for switch in self.switches
        )
        self.lengths = tuple(kept)

    def losses(self, end: int) -> Iterator[str]:
        """Say why the keys of all tokens would not be there, as they were made, at a length.

        Args:
            end: tokens of the longest row by then.
        """
        windows = {
            memory.window
            for memory in self.layers
            if memory.window is not None and not memory.keeps_all(self.lengths, end)
        }
        for window in sorted(windows):
            yield f"a layer with a window of {window} keys forgets those it can no longer reach"
        switched = [switch for switch in self.switches if min(self.lengths) <= switch < end]
        if any(self.lengths) and (self.stale or switched):
            yield f"beyond {min(self.switches)} tokens all angles change, and all keys with them"
        if self.limit is not None and any(self.lengths) and end > self.limit:
            yield f"with dynamic rotary scaling all keys change beyond {self.limit} tokens"

    def _refuse_lost(self, length: int, kept: Sequence[int]) -> None:
        """Say so if what is kept could not be read on from."""
        for memory in self.layers:
            if memory.window is not None and memory.start > max(min(kept) - memory.window + 1, 0):
                raise InputError(
                    f"crop({length}): a layer with a window of {memory.window} keys holds those "
                    f"from position {memory.start} on, and forgot earlier ones; read the text anew"
                )
        pairs = zip(self.lengths, kept, strict=True)
        if self.limit is not None and any(0 < new < old > self.limit for old, new in pairs):
            raise InputError(
                f"crop({length}): with dynamic rotary scaling the angles of a text of more than "
                f"{self.limit} tokens change when it becomes shorter; read the text anew"
            )

    def reorder(self, rows: Sequence[int] | Int[Tensor, "rows"]) -> None:
        """Make each row a copy of another one, as beam search does.

        Args:
            rows: for each new row, the old one; as many as there shall be rows.

        Raises:
            InputError: there is no such row.

        Cost: copies the cache once.
        """
        chosen = rows_there(rows, self.batch)
        for memory in (*self.layers, *self.cross):
            memory.reorder(chosen)
        self.ids = self.ids[chosen]
        self.source = _reordered(self.source, chosen)
        self.lengths = tuple(self.lengths[row] for row in chosen)

    @contextmanager
    def rereading(self) -> Generator[None]:
        """Inside, all is forgotten so that it can be read again; an exception takes that back."""
        lengths = self.lengths
        self.crop(0)
        self.stale = False
        try:
            yield
        except BaseException:
            # keys may have been overwritten: the text is there, and is read again by the next call
            self.lengths, self.stale = lengths, True
            raise

    def step(
        self,
        real: Bool[Tensor, "batch n"] | None,
        *,
        rows: int,
        tokens: int,
        source: Encoded | None = None,
    ) -> CacheStep:
        """Make room for the next tokens. Nothing counts as read until :meth:`CacheStep.done`.

        Args:
            real: which of them are real; None is all.
            rows: batch rows of the call.
            tokens: tokens a row, padding included.
            source: what an encoder made of the text that is looked at; after the first tokens,
                the same.

        Raises:
            InputError: another number of rows, or more tokens than the cache can hold.
        """
        if rows != self.batch:
            raise InputError(f"ids must have as many rows as the cache, {self.batch}, got {rows}")
        added = [tokens] * rows if real is None else [int(n) for n in real.sum(-1)]
        ends = [old + new for old, new in zip(self.lengths, added, strict=True)]
        if self.limit is not None and max(ends) > self.limit and any(self.lengths):
            raise InputError(
                f"with dynamic rotary scaling every token beyond the first {self.limit} changes "
                "the angles of all before it, so keys cannot be kept: read without a cache"
            )
        if max(ends) > self.capacity:
            raise InputError(
                f"the cache holds {self.capacity} tokens a row, and with these there would be "
                f"{max(ends)}: make it with a larger capacity"
            )
        if not any(self.lengths):
            for memory in self.cross:
                memory.forget()  # a first call that failed may have left another source's keys
        self.source = source
        return CacheStep(self, tuple(ends), real, tokens)


def _laid_out(
    config: TransformerConfig, sizes: tuple[int, int], *, dtype: torch.dtype, device: torch.device
) -> tuple[LayerMemory, ...]:
    """The memory of every layer, or a word on why there is none."""
    batch, capacity = sizes
    try:
        return tuple(
            LayerMemory(
                (batch, config.kv_heads, slots(config, layer, capacity)),
                widths=(config.d_k, config.d_v),
                window=config.layer_kind(layer).window,
                dtype=dtype,
                device=device,
            )
            for layer in range(config.layers)
        )
    # what PyTorch raises where memory is short, or the number of bytes no number to it
    except (RuntimeError, TypeError, OverflowError) as fault:
        raise InputError(
            f"not enough memory: a cache of {batch:,} × {capacity:,} tokens cannot be laid out on "
            f"{device}; give a smaller batch or capacity, or a smaller dtype"
        ) from fault


def _reordered(source: Encoded | None, rows: Sequence[int]) -> Encoded | None:
    if source is None:
        return None
    index = torch.tensor(rows, device=source.hidden.device)
    return Encoded(source.hidden[index], None if source.real is None else source.real[index])


def _scalings(config: TransformerConfig) -> list[RotaryScaling]:
    """How the layers' frequencies are stretched."""
    rotaries = [config.rotary(layer) for layer in range(config.layers)]
    return [rotary.scaling for rotary in rotaries if rotary is not None and rotary.scaling]
