"""The named masks meet the contract, and refuse what they cannot mean."""

import pickle

import numpy as np
import pytest
import torch

from clearhead.errors import MaskError
from clearhead.masks import (
    Padding,
    causal_mask,
    chunked_mask,
    document_mask,
    full_mask,
    padding_mask,
    prefix_lm_mask,
    sliding_window_mask,
)
from tests.masks.contract import Case, MaskContract

KEEP = torch.tensor([[1, 1, 1, 0, 0], [0, 1, 1, 1, 1], [0, 0, 0, 0, 0]])
IDS = torch.tensor([[0, 0, 1, 1, 2], [5, -1, 5, -7, 3], [-1, -1, -1, -1, -1]])


class TestFull(MaskContract):
    @pytest.fixture
    def case(self) -> Case:
        return Case(full_mask(), lambda _b, _h, _i, _j: True)


class TestCausal(MaskContract):
    @pytest.fixture
    def case(self) -> Case:
        return Case(causal_mask(), lambda _b, _h, i, j: j <= i)


@pytest.mark.parametrize("width", [1, 3], scope="class")
class TestSlidingWindow(MaskContract):
    @pytest.fixture
    def case(self, width: int) -> Case:
        return Case(sliding_window_mask(width), lambda _b, _h, i, j: abs(i - j) < width)


class TestPadding(MaskContract):
    @pytest.fixture
    def case(self) -> Case:
        return Case(padding_mask(KEEP), lambda b, _h, _i, j: bool(KEEP[b, j]), batch=3, heads=2)


class TestPaddingForAll(MaskContract):
    @pytest.fixture
    def case(self) -> Case:
        return Case(padding_mask(KEEP[1] == 1), lambda _b, _h, _i, j: bool(KEEP[1, j]), batch=2)


class TestDocuments(MaskContract):
    @pytest.fixture
    def case(self) -> Case:
        def truth(b: int, h: int, i: int, j: int) -> bool:
            return bool(IDS[b, i] == IDS[b, j] and IDS[b, i] >= 0)

        return Case(document_mask(IDS), truth, batch=3)


class TestDocumentsByTheirEnds(MaskContract):
    @pytest.fixture
    def case(self) -> Case:
        ids = [0, 0, 2, 2, 3]
        mask = document_mask(cu_seqlens=torch.tensor([0, 2, 2, 4, 5], dtype=torch.int32))
        return Case(mask, lambda _b, _h, i, j: ids[i] == ids[j], batch=2)


@pytest.mark.parametrize("prefix", [0, 2, 9], scope="class")
class TestPrefixLM(MaskContract):
    @pytest.fixture
    def case(self, prefix: int) -> Case:
        return Case(prefix_lm_mask(prefix), lambda _b, _h, i, j: j <= i or j < prefix)


class TestPrefixOfEachRow(MaskContract):
    @pytest.fixture
    def case(self) -> Case:
        prefix = [2, 0, 4]
        mask = prefix_lm_mask(torch.tensor(prefix))
        return Case(mask, lambda b, _h, i, j: j <= i or j < prefix[b], batch=3)


@pytest.mark.parametrize(("size", "start"), [(1, 0), (2, 1), (3, 4)], scope="class")
class TestChunked(MaskContract):
    @pytest.fixture
    def case(self, size: int, start: int) -> Case:
        mask = chunked_mask(size, start=start)
        return Case(mask, lambda _b, _h, i, j: (i - start) // size == (j - start) // size)


class TestChunksOfEachRow(MaskContract):
    @pytest.fixture
    def case(self) -> Case:
        start = [0, 2, 1]
        mask = chunked_mask(3, start=torch.tensor(start))
        return Case(
            mask, lambda b, _h, i, j: (i - start[b]) // 3 == (j - start[b]) // 3, batch=3, heads=2
        )


# ------------------------------------------------------------------------------------------ values


def test_masks_are_written_as_people_write_them() -> None:
    start = torch.tensor([1, 2])
    written = {
        "causal_mask() & padding_mask(keep[3, 5])": causal_mask() & padding_mask(KEEP),
        "full_mask()": full_mask(),
        "sliding_window_mask(4)": sliding_window_mask(4),
        "document_mask(ids[3, 5])": document_mask(IDS),
        "prefix_lm_mask(3)": prefix_lm_mask(3),
        "prefix_lm_mask(prefix[2])": prefix_lm_mask(start),
        "chunked_mask(4)": chunked_mask(4),
        "chunked_mask(4, start=1)": chunked_mask(4, start=1),
        "chunked_mask(4, start=start[2])": chunked_mask(4, start=start),
    }
    assert {text: repr(mask) for text, mask in written.items()} == {text: text for text in written}


def test_a_mask_is_a_value() -> None:
    assert causal_mask() == causal_mask()
    assert sliding_window_mask(3) == sliding_window_mask(3) != sliding_window_mask(4)
    assert len({causal_mask(), causal_mask(), full_mask()}) == 2
    # What it was made of may change afterwards: it does not.
    keep, ids, start = torch.ones(2, 3, dtype=torch.bool), torch.zeros(3).long(), torch.tensor([1])
    masks = [padding_mask(keep), document_mask(ids), chunked_mask(2, start=start)]
    before = [mask.to_dense(queries=3, keys=3, batch=2) for mask in masks]
    for tensor in (keep, ids, start):
        tensor.fill_(0 if tensor.dtype == torch.bool else 7)
    ids[1] = 1
    for mask, dense in zip(masks, before, strict=True):
        assert torch.equal(mask.to_dense(queries=3, keys=3, batch=2), dense)


def test_a_mask_can_be_stored_and_copied() -> None:
    each = torch.tensor([1, 2, 0])
    mask = (causal_mask() | document_mask(IDS)) & padding_mask(KEEP) & chunked_mask(4, start=each)
    mask = (mask | prefix_lm_mask(each)) & sliding_window_mask(4)
    everything = range(5)
    before = mask.verdict(everything, everything)  # what it remembers is no hindrance
    stored = pickle.loads(pickle.dumps(mask))  # noqa: S301  these are our own bytes
    assert repr(stored) == repr(mask)
    assert stored.verdict(everything, everything) == before
    assert torch.equal(stored.tile(everything, everything), mask.tile(everything, everything))


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32, torch.int64])
def test_keep_comes_in_every_integer_type(dtype: torch.dtype) -> None:
    mask = padding_mask(KEEP.to(dtype))
    assert isinstance(mask, Padding)
    assert torch.equal(mask.keep, KEEP == 1)


def test_masks_of_no_batch_rows_and_no_positions() -> None:
    assert padding_mask(KEEP[:0]).tile(range(2), range(3)).shape == (0, 1, 2, 3)
    for mask in (padding_mask(KEEP[:, :0]), document_mask(IDS[:, :0])):
        assert not mask.tile(range(2), range(3)).any()
        assert mask.verdict(range(2), range(3)) == "none"
        dense = mask.to_dense(queries=0, keys=0, batch=3)
        assert dense.shape[2:] == (0, 0)
    assert document_mask(cu_seqlens=torch.tensor([0])).ids.shape == (1, 0)
    each = torch.tensor([], dtype=torch.int64)
    for mask in (prefix_lm_mask(each), chunked_mask(2, start=each)):
        assert mask.tile(range(2), range(3)).shape[0] == 0


def test_numbers_of_numpy_are_numbers() -> None:
    assert sliding_window_mask(np.int64(3)) == sliding_window_mask(3)
    assert type(chunked_mask(np.int32(4)).size) is int
    with pytest.raises(MaskError, match=r"got np\.True_"):
        sliding_window_mask(np.True_)


# ----------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: sliding_window_mask(0),
            "sliding_window_mask: expected width as an integer of 1 or more, got 0",
        ),
        (
            lambda: sliding_window_mask(2.0),
            "sliding_window_mask: expected width as an integer of 1 or more, got 2.0",
        ),
        (
            lambda: sliding_window_mask(True),
            "sliding_window_mask: expected width as an integer of 1 or more, got True",
        ),
        (
            lambda: prefix_lm_mask(-1),
            "prefix_lm_mask: expected prefix as an integer of 0 or more, got -1",
        ),
        (
            lambda: prefix_lm_mask(torch.tensor([1.0])),
            "prefix_lm_mask: expected prefix as one integer or integers (batch,), got float32[1]",
        ),
        (
            lambda: chunked_mask(0),
            "chunked_mask: expected size as an integer of 1 or more, got 0",
        ),
        (
            lambda: chunked_mask(2, start=None),
            "chunked_mask: expected start as an integer of 0 or more, got None",
        ),
        (
            lambda: chunked_mask(2, start=torch.zeros(2, 2).long()),
            "chunked_mask: expected start as one integer or integers (batch,), got int64[2, 2]",
        ),
        (
            lambda: padding_mask(torch.zeros(2, 3)),
            (
                "padding_mask: expected keep as bool or integers (m,) or (batch, m), 1 = real and "
                "0 = padding, got float32[2, 3]"
            ),
        ),
        (
            lambda: padding_mask(torch.ones(2, 1, 1, 3, dtype=torch.bool)),
            (
                "padding_mask: expected keep as bool or integers (m,) or (batch, m), 1 = real and "
                "0 = padding, got bool[2, 1, 1, 3]"
            ),
        ),
        (
            lambda: document_mask(torch.zeros(3)),
            (
                "document_mask: expected ids as integers (m,) or (batch, m), negative = "
                "padding, got float32[3]"
            ),
        ),
        (
            lambda: padding_mask([1, 1, 0]),
            (
                "padding_mask: expected keep as bool or integers (m,) or (batch, m), 1 = real and "
                "0 = padding, got list"
            ),
        ),
        (
            lambda: document_mask([0, 0, 1]),
            (
                "document_mask: expected ids as integers (m,) or (batch, m), negative = "
                "padding, got list"
            ),
        ),
        (
            lambda: document_mask(cu_seqlens=[0, 3]),
            "document_mask: expected cu_seqlens as integers (documents + 1,), got list",
        ),
        (
            document_mask,
            "document_mask: expected ids or cu_seqlens=, got neither; give one of them",
        ),
        (
            lambda: document_mask(IDS, cu_seqlens=IDS[0]),
            "document_mask: expected ids or cu_seqlens=, got both; give one of them",
        ),
        (
            lambda: document_mask(cu_seqlens=torch.zeros(0).long()),
            "document_mask: expected cu_seqlens as integers (documents + 1,), got int64[0]",
        ),
        (
            lambda: document_mask(cu_seqlens=torch.tensor([0, 4, 3])),
            (
                "document_mask: cu_seqlens: expected entry 2 to be 4 or more, as the one before "
                "it, got 3"
            ),
        ),
        (
            lambda: document_mask(cu_seqlens=torch.tensor([1, 4, 3, 2])),
            (
                "document_mask: cu_seqlens, 3 faults:\n"
                "  - expected entry 0 to be 0, got 1\n"
                "  - expected entry 2 to be 4 or more, as the one before it, got 3\n"
                "  - expected entry 3 to be 3 or more, as the one before it, got 2"
            ),
        ),
    ],
)
def test_what_a_mask_cannot_mean_is_refused(make, message: str) -> None:
    with pytest.raises(MaskError) as caught:
        make()
    assert str(caught.value) == message
