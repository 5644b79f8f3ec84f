"""transformers' mask functions, translated: the same answer for every entry, and by arithmetic."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import masking_utils as theirs

from clearhead.errors import UnsupportedError
from clearhead.masks import Mask, causal_mask, full_mask
from clearhead.tracing.huggingface_masks import LazyMask, lazy_mask, translated

BATCH, LENGTH = 2, 9
REAL = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0, 1, 1, 0]]).bool()
PACKED = torch.tensor([[0, 0, 0, 1, 1, 2, 2, 2, 2], [0, 1, 1, 1, 1, 1, 1, 1, 2]])
PLACES = torch.tensor([[0, 1, 2, 0, 1, 0, 1, 2, 3], [0, 0, 1, 2, 3, 4, 5, 6, 0]])
BLOCKS = torch.tensor([[-1, 0, 0, -1, 1, 1, 1, -1, -1], [0, 0, -1, -1, -1, -1, 2, 2, 2]])


def even(_batch, _head, i, j):
    return (i + j) % 2 == 0


def packed(function):
    """As transformers puts it together for several sequences in one row."""
    remapped = theirs.remap_positions_for_packed_sequence(function, PLACES)
    return theirs.and_masks(remapped, theirs.packed_sequence_mask_function(PACKED))


LEFT = torch.tensor([3, 0])
WINDOW = theirs.sliding_window_causal_mask_function
CHUNKS = theirs.chunked_causal_mask_function
CAUSAL = theirs.causal_mask_function
BOTH_WAYS = theirs.bidirectional_mask_function
#: What transformers makes: its function, and how our mask reads.
KNOWN = {
    "causal": (CAUSAL, "causal_mask()"),
    "bidirectional": (BOTH_WAYS, "full_mask()"),
    "window": (WINDOW(3), "(sliding_window_mask(3) | ~causal_mask()) & causal_mask()"),
    "window of one": (WINDOW(1), "(sliding_window_mask(1) | ~causal_mask()) & causal_mask()"),
    "window of none": (WINDOW(0), "~causal_mask() & causal_mask()"),
    "window both ways": (
        theirs.sliding_window_bidirectional_mask_function(2),
        "sliding_window_mask(3)",
    ),
    "chunks": (CHUNKS(4, LEFT), "chunked_mask(4, start=start[2]) & causal_mask()"),
    "padding": (theirs.padding_mask_function(REAL), "padding_mask(keep[2, 9])"),
    "documents": (packed(CAUSAL), "causal_mask() & document_mask(ids[2, 9])"),
    "documents with a window": (
        packed(WINDOW(2)),
        "(sliding_window_mask(2) | ~causal_mask()) & causal_mask() & document_mask(ids[2, 9])",
    ),
    "documents with a window both ways": (
        packed(theirs.sliding_window_bidirectional_mask_function(1)),
        "sliding_window_mask(2) & document_mask(ids[2, 9])",
    ),
    "blocks": (
        theirs.or_masks(CAUSAL, theirs.blockwise_overlay(BLOCKS)),
        "causal_mask() | document_mask(ids[2, 9])",
    ),
    "either of two": (
        theirs.or_masks(WINDOW(2), theirs.padding_mask_function(REAL)),
        "((sliding_window_mask(2) | ~causal_mask()) & causal_mask()) | padding_mask(keep[2, 9])",
    ),
}
#: What is asked entry by entry, wholly or in part.
ASKED = {
    "of a person's own": even,
    "own and causal": theirs.and_masks(CAUSAL, even),
    "own or causal": theirs.or_masks(CAUSAL, even),
    "chunks of documents": packed(CHUNKS(2, torch.zeros(2, dtype=torch.long))),
    "own in documents": packed(theirs.and_masks(CAUSAL, even)),
    "positions anew, without documents": theirs.remap_positions_for_packed_sequence(CAUSAL, PLACES),
    "documents or blocks": theirs.and_masks(
        theirs.or_masks(
            theirs.remap_positions_for_packed_sequence(CAUSAL, PLACES),
            theirs.blockwise_overlay(BLOCKS),
        ),
        theirs.packed_sequence_mask_function(PACKED),
    ),
    "moved": theirs.add_offsets_to_mask_function(CAUSAL, 1, 0),
}
EVERY = {name: function for name, (function, _) in KNOWN.items()} | ASKED


def dense(mask: Mask, *, rows: range, columns: range) -> Tensor:
    """A mask written out for a call whose queries and keys stand there."""
    bound = mask.bind(
        queries=len(rows),
        keys=len(columns),
        batch=BATCH,
        heads=1,
        query_start=rows.start,
        key_start=columns.start,
    )
    return bound.tile(rows, columns).expand(BATCH, 1, -1, -1)


def written_out(function, *, rows: range, columns: range, real: Tensor | None = None) -> Tensor:
    """The same by transformers' own hand."""
    mask = theirs.sdpa_mask(
        batch_size=BATCH,
        q_length=len(rows),
        kv_length=len(columns),
        q_offset=rows.start,
        kv_offset=columns.start,
        mask_function=function,
        attention_mask=real,
        allow_is_causal_skip=False,
        use_vmap=True,
    )
    return mask.expand(BATCH, 1, -1, -1)


def windows():
    """Runs of queries at the end of runs of keys, as caches make them."""
    whole = range(LENGTH)
    yield whole, whole
    for first in (0, 3, 6, 8):
        for oldest in range(0, first + 1, 3):
            yield range(first, LENGTH), range(oldest, LENGTH)


@pytest.mark.parametrize("name", EVERY)
def test_every_entry_is_the_functions_own(name):
    for rows, columns in windows():
        ours = dense(translated(EVERY[name]), rows=rows, columns=columns)
        assert torch.equal(ours, written_out(EVERY[name], rows=rows, columns=columns))


@pytest.mark.parametrize("name", EVERY)
def test_every_entry_is_that_of_a_mask_that_asks_for_each(name):
    rows = columns = range(LENGTH)
    asked = Mask.from_mask_mod(EVERY[name], heads=1)
    assert torch.equal(
        dense(translated(EVERY[name]), rows=rows, columns=columns),
        dense(asked, rows=rows, columns=columns),
    )


@pytest.mark.parametrize("name", KNOWN)
def test_what_transformers_makes_is_recognised(name):
    function, text = KNOWN[name]
    assert repr(translated(function)) == text


@pytest.mark.parametrize("name", ASKED)
def test_what_is_not_recognised_is_asked(name):
    assert "from_mask_mod" in repr(translated(ASKED[name]))


def test_a_function_of_the_same_name_from_elsewhere_is_asked():
    def sliding_window_overlay(sliding_window):
        def inner_mask(_batch, _head, i, j):
            return j > i + sliding_window

        return inner_mask

    stranger = sliding_window_overlay(1)
    stranger.__qualname__ = theirs.sliding_window_overlay(1).__qualname__
    assert "from_mask_mod" in repr(translated(stranger))
    assert "from_mask_mod" in repr(translated(packed(stranger)))


@given(
    start=st.integers(0, 5),
    size=st.integers(1, 6),
    width=st.integers(1, 7),
    pads=st.lists(st.integers(0, 5), min_size=2, max_size=2),
)
@settings(max_examples=40)
def test_windows_and_chunks_of_every_size_and_padding(start, size, width, pads):
    rows, columns = range(start, 8), range(8)
    left = torch.tensor(pads)
    real = torch.arange(8) >= left[:, None]
    for function in (WINDOW(width), CHUNKS(size, left)):
        lazy = made(function, rows=rows, columns=columns, real=real)
        ours = dense(lazy.mask, rows=rows, columns=columns)
        assert torch.equal(ours, written_out(function, rows=rows, columns=columns, real=real))


# ------------------------------------------------------------------------------------ the lazy mask


def made(function, *, rows: range, columns: range, real: Tensor | None = None) -> LazyMask:
    return lazy_mask(
        batch_size=BATCH,
        q_length=len(rows),
        kv_length=len(columns),
        q_offset=rows.start,
        kv_offset=columns.start,
        mask_function=function,
        attention_mask=real,
        allow_is_causal_skip=True,
        dtype=torch.float32,
    )


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32])
@pytest.mark.parametrize("columns", [range(9), range(3, 9), range(12)])
def test_padding_is_fitted_to_the_cache(columns, dtype):
    # a cache may have dropped its oldest keys, or have room for keys to come
    rows = range(6, 9)
    lazy = made(CAUSAL, rows=rows, columns=columns, real=REAL.to(dtype))
    assert (lazy.query_start, lazy.key_start, lazy.keys) == (6, columns.start, len(columns))
    ours = dense(lazy.mask, rows=rows, columns=columns)
    assert torch.equal(ours, written_out(CAUSAL, rows=rows, columns=columns, real=REAL))


def test_padding_that_is_none_leaves_the_plain_triangle():
    rows = range(LENGTH)
    for real in (None, torch.ones(BATCH, LENGTH, dtype=torch.long)):
        assert made(CAUSAL, rows=rows, columns=rows, real=real).mask == causal_mask()
        assert made(BOTH_WAYS, rows=rows, columns=rows, real=real).mask == full_mask()


@pytest.mark.parametrize("width", range(1, 12))
def test_a_window_that_holds_the_whole_text_is_none(width):
    rows, columns = range(6, 9), range(9)
    lazy = made(WINDOW(width), rows=rows, columns=columns)
    assert (lazy.mask == causal_mask()) == (width >= 9)
    ours = dense(lazy.mask, rows=rows, columns=columns)
    assert torch.equal(ours, written_out(WINDOW(width), rows=rows, columns=columns))
    function = theirs.sliding_window_bidirectional_mask_function(width)
    lazy = made(function, rows=rows, columns=columns)
    assert (lazy.mask == full_mask()) == (width >= 8)
    ours = dense(lazy.mask, rows=rows, columns=columns)
    assert torch.equal(ours, written_out(function, rows=rows, columns=columns))


def test_offsets_may_be_tensors():
    lazy = lazy_mask(
        q_length=1, kv_length=5, mask_function=CAUSAL, q_offset=torch.tensor(4), kv_offset=0
    )
    assert (lazy.query_start, lazy.key_start, lazy.keys) == (4, 0, 5)


def test_a_lazy_mask_that_is_taken_for_a_tensor_says_so():
    lazy = LazyMask(causal_mask(), 0, 0, 5)
    assert lazy.ndim == 4
    said = (
        "its layers ask their attention mask for {} as if it were a tensor, "
        "and clearhead forms none"
    )
    with pytest.raises(UnsupportedError) as caught:
        assert lazy.shape
    assert str(caught.value) == said.format(".shape")
    with pytest.raises(UnsupportedError) as caught:
        lazy[:, 0]
    assert str(caught.value) == said.format("entries")
    # what was made before is the answer again: generation makes masks ahead of the layers
    again = lazy_mask(q_length=1, kv_length=5, mask_function=CAUSAL, attention_mask=lazy)
    assert again is lazy
    # libraries that move tensors between devices ask first
    assert not hasattr(lazy, "to")
    assert replace(lazy, keys=6).keys == 6
