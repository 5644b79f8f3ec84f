"""Padding and documents: what a call has to fit, and that a verdict reads the table once."""

import pytest
import torch

from clearhead.errors import MaskError
from clearhead.masks import Document, Full, Mask, Padding, document_mask, padding_mask

KEEP = torch.tensor([[1, 1, 1, 0], [0, 1, 1, 1]])
IDS = torch.tensor([[0, 0, 1, 1], [2, 2, 2, -1]])


def _fault(mask: Mask, **call: object) -> str:
    sizes = {"queries": 4, "keys": 4, "batch": 2, "heads": 3, "query_start": None} | call
    with pytest.raises(MaskError) as caught:
        mask.bind(**sizes)
    return str(caught.value)


def test_keep_has_one_entry_a_key_and_one_row_a_batch_row() -> None:
    mask = padding_mask(KEEP)
    assert _fault(mask, keys=5) == (
        "mask=padding_mask(keep[2, 4]) does not fit queries=4, keys=5, batch=2, heads=3: "
        "padding_mask(keep[2, 4]): expected keep with 5 entries, one for each position from 0 to "
        "the last key's, got 4; keys that come from a cache count too"
    )
    assert _fault(mask, batch=1, key_start=2) == (
        "mask=padding_mask(keep[2, 4]) does not fit queries=4, keys=4, batch=1, heads=3, "
        "key_start=2, 2 faults:\n"
        "  - padding_mask(keep[2, 4]): expected keep with 1 batch rows (or 1 for all), got 2\n"
        "  - padding_mask(keep[2, 4]): expected keep with 6 entries, one for each position from 0 "
        "to the last key's, got 4; keys that come from a cache count too"
    )
    # The keys' positions begin at key_start: the entries before it are there, and not asked for.
    assert mask.bind(queries=1, keys=2, batch=2, heads=1, query_start=3, key_start=2) is mask


def test_ids_have_one_entry_a_key_and_one_for_every_query() -> None:
    mask = document_mask(IDS)
    assert _fault(mask, batch=5, keys=3, query_start=0) == (
        "mask=document_mask(ids[2, 4]) does not fit queries=4, keys=3, batch=5, heads=3, "
        "query_start=0, 2 faults:\n"
        "  - document_mask(ids[2, 4]): expected ids with 5 batch rows (or 1 for all), got 2\n"
        "  - document_mask(ids[2, 4]): expected ids with 3 entries, one for each position from 0 "
        "to the last key's, got 4; keys that come from a cache count too"
    )
    assert _fault(mask, queries=2, query_start=3) == (
        "mask=document_mask(ids[2, 4]) does not fit queries=2, keys=4, batch=2, heads=3, "
        "query_start=3: document_mask(ids[2, 4]): expected queries at positions below 4, where "
        "ids ends, got 3 to 4; give an id for every query, or another query_start="
    )
    assert mask.bind(queries=2, keys=4, batch=2, heads=1, query_start=2) is mask


def test_padding_sees_nobody_and_is_seen_by_nobody_in_documents() -> None:
    dense = document_mask(IDS).to_dense(queries=4, keys=4, batch=2)
    assert not dense[1, :, 3].any()
    assert not dense[1, :, :, 3].any()
    assert dense[1, 0, :3, :3].all()


def test_a_verdict_reads_the_table_once(monkeypatch: pytest.MonkeyPatch) -> None:
    padding, documents = padding_mask(KEEP), document_mask(IDS)
    first = [mask.verdict(range(4), range(4)) for mask in (padding, documents)]

    def read(*_: object, **__: object) -> None:
        pytest.fail("a tensor was read")

    for name in ("numpy", "item", "tolist", "__bool__", "any", "all"):
        monkeypatch.setattr(torch.Tensor, name, read)
    again = [mask.verdict(range(4), range(4)) for mask in (padding, documents)]
    assert again == first == ["mixed", "mixed"]
    assert padding.verdict(range(4), range(1, 3)) == "all"
    assert padding.verdict(range(4), range(4, 6)) == "none"
    assert documents.verdict(range(2), range(2)) == "all"
    assert documents.verdict(range(2), range(3, 4)) == "none"
    assert documents.verdict(range(-2, 2), range(2)) == "mixed"


def test_ids_that_come_and_go_are_told_apart() -> None:
    # Between the smallest and the largest id of the rows lies one that no row has.
    documents = document_mask(torch.tensor([1, 3, 2, 2]))
    assert documents.verdict(range(2), range(2, 4)) == "none"
    assert documents.verdict(range(2, 4), range(2, 4)) == "all"


def test_what_has_no_padding_left_needs_no_mask() -> None:
    padding = padding_mask(KEEP)
    real = torch.arange(1, 4)
    assert padding.select(batch=1, columns=real) == Full()
    left = padding.select(batch=0, columns=real)
    assert isinstance(left, Padding)
    assert left.keep.tolist() == [[True, True, False]]
    assert padding.select(batch=1, columns=torch.tensor([3, 1])) == Full()
    assert padding_mask(KEEP[1]).select(batch=7, columns=real) == Full()


def test_documents_are_cut_out_where_all_moves_together() -> None:
    documents = document_mask(IDS)
    run = torch.arange(1, 4)
    cut = documents.select(batch=1, rows=run, columns=run)
    assert isinstance(cut, Document)
    assert cut.ids.tolist() == [[2, 2, -1]]
    # More rows than columns: the ids of the last rows are still needed.
    tall = documents.select(batch=0, rows=torch.arange(1, 4), columns=torch.arange(1, 3))
    assert tall.tile(range(3), range(2)).int()[0, 0].tolist() == [[1, 0], [0, 1], [0, 1]]
    beyond = documents.select(rows=torch.arange(2, 6), columns=torch.arange(2, 6))
    assert not isinstance(beyond, Document)
    assert not beyond.tile(range(4), range(4))[:, :, 2:].any()


@pytest.mark.parametrize("mask", [padding_mask(KEEP), document_mask(IDS)], ids=repr)
def test_no_such_batch_row(mask: Mask) -> None:
    with pytest.raises(MaskError) as caught:
        mask.select(batch=2)
    there = f"select: expected batch among the 2 rows of {mask!r}, counted from 0"
    assert str(caught.value) == f"{there}, got 2"
