"""What went wrong elsewhere, as far as masks decide it; the numbers are those of cases.md."""

import pytest
import torch

from clearhead.errors import MaskError
from clearhead.masks import (
    Mask,
    Verdict,
    causal_mask,
    chunked_mask,
    document_mask,
    padding_mask,
    sliding_window_mask,
)


def _shown(mask: Mask, n: int, m: int, query_start: int | None = None) -> list[list[int]]:
    return mask.to_dense(queries=n, keys=m, query_start=query_start).int()[0, 0].tolist()


def test_case_4_planes_join_as_booleans() -> None:
    mask = causal_mask() & padding_mask(torch.tensor([0, 0, 0, 1, 1]))
    assert _shown(mask, 5, 5) == [
        [0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0],
        [0, 0, 0, 1, 0],
        [0, 0, 0, 1, 1],
    ]
    assert mask.tile(range(5), range(5)).dtype == torch.bool


def test_case_4_a_plane_of_numbers_is_no_mask() -> None:
    lowest = torch.finfo(torch.float16).min
    for plane in (torch.full((5, 5), lowest), torch.zeros(5, 5)):
        with pytest.raises(MaskError):
            Mask.from_tensor(plane)
        with pytest.raises(MaskError):
            padding_mask(plane)


@pytest.mark.parametrize("left", [1, 3, 5])
def test_case_5_a_row_that_sees_nobody_is_known_as_such(left: int) -> None:
    keep = torch.arange(5) >= left
    mask = causal_mask() & padding_mask(keep)
    verdicts = [mask.verdict(range(i, i + 1), range(5)) for i in range(5)]
    assert [v is Verdict.NONE for v in verdicts] == [i < left for i in range(5)]


@pytest.mark.parametrize("keys", [2, 5, 64])
def test_case_6_one_query_stands_where_it_is_said_to(keys: int) -> None:
    with pytest.raises(MaskError, match="expected query_start="):
        causal_mask().to_dense(queries=1, keys=keys)
    assert _shown(causal_mask(), 1, keys, query_start=keys - 1) == [[1] * keys]
    assert _shown(causal_mask(), 1, keys, query_start=0) == [[1] + [0] * (keys - 1)]


def test_case_7_queries_before_the_first_key_see_nobody() -> None:
    rows = _shown(causal_mask(), 5, 2, query_start=2 - 5)
    assert rows == [[0, 0], [0, 0], [0, 0], [1, 0], [1, 1]]


@pytest.mark.parametrize("n", [2, 3, 7])
def test_case_8_true_means_may_look(n: int) -> None:
    dense = causal_mask().to_dense(queries=n, keys=n)[0, 0]
    assert torch.equal(dense, torch.ones(n, n).tril().bool())
    assert torch.equal(Mask.from_tensor(dense).to_dense(queries=n, keys=n)[0, 0], dense)
    # The other convention is one stroke away, and written as such.
    may_not = torch.ones(n, n).triu(1).bool()
    assert torch.equal((~Mask.from_tensor(may_not)).to_dense(queries=n, keys=n)[0, 0], dense)


@pytest.mark.parametrize("width", [1, 2, 5])
def test_case_10_a_window_of_w_keeps_w_keys(width: int) -> None:
    mask = causal_mask() & sliding_window_mask(width)
    assert mask.to_dense(queries=8, keys=8).sum(-1)[0, 0, 5] == width
    if width == 2:
        assert _shown(mask, 1, 6, query_start=5) == [[0, 0, 0, 0, 1, 1]]


@pytest.mark.parametrize("pads", [0, 2, 3, 5])
def test_case_11_chunks_begin_at_the_first_real_token(pads: int) -> None:
    n = 12
    padded = chunked_mask(4, start=torch.tensor([pads])) & causal_mask()
    alone = chunked_mask(4) & causal_mask()
    there = padded.to_dense(queries=n, keys=n)[..., pads:, pads:]
    assert torch.equal(there, alone.to_dense(queries=n - pads, keys=n - pads))


def test_case_12_packed_documents_do_not_see_each_other() -> None:
    mask = causal_mask() & document_mask(cu_seqlens=torch.tensor([0, 3, 7, 8]))
    dense = mask.to_dense(queries=8, keys=8)[0, 0]
    assert not dense[3:, :3].any()
    assert not dense[7:, :7].any()
    assert mask.verdict(range(3, 8), range(3)) is Verdict.NONE
    # Inside, a document sees what it would see alone.
    assert torch.equal(dense[3:7, 3:7], causal_mask().to_dense(queries=4, keys=4)[0, 0])


@pytest.mark.parametrize("keys", [64, 130])
def test_case_13_keys_that_only_fill_a_block_are_not_seen(keys: int) -> None:
    filled = range(-(-keys // 128) * 128)
    keep = torch.ones(keys, dtype=torch.bool)
    for mask in (padding_mask(keep), document_mask(keep.long()), Mask.from_tensor(keep[None])):
        tile = mask.tile(range(1), filled)
        assert tile.sum() == keys
        assert mask.verdict(range(1), filled) is Verdict.MIXED
    blocks = padding_mask(keep).to_block_mask(queries=keys, keys=keys)
    assert int(blocks.full_kv_num_blocks[0, 0, -1]) == keys // 128 * (keys % 128 == 0)
