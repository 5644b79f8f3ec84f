"""Windows, chunks and prefixes: every setting up to length 8, and what a call has to fit."""

from itertools import product

import pytest
import torch

from clearhead.errors import MaskError
from clearhead.masks import (
    Causal,
    Chunked,
    Mask,
    PrefixLM,
    causal_mask,
    chunked_mask,
    prefix_lm_mask,
    sliding_window_mask,
)
from tests.masks.contract import Case, judged, runs

SIZE = 8


def _settings() -> list[Case]:
    def window(width: int) -> Case:
        return Case(sliding_window_mask(width), lambda _b, _h, i, j: abs(i - j) < width, size=SIZE)

    def chunk(size: int, start: int) -> Case:
        mask = chunked_mask(size, start=start)
        return Case(
            mask, lambda _b, _h, i, j: (i - start) // size == (j - start) // size, size=SIZE
        )

    def prefix(length: int) -> Case:
        mask = prefix_lm_mask(length)
        return Case(mask, lambda _b, _h, i, j: j <= i or j < length, size=SIZE)

    causal = Case(causal_mask(), lambda _b, _h, i, j: j <= i, size=SIZE)
    windows = [window(width) for width in range(1, SIZE + 2)]
    chunks = [chunk(size, start) for size in range(1, SIZE + 1) for start in range(SIZE)]
    return [causal, *windows, *chunks, *(prefix(length) for length in range(SIZE + 2))]


@pytest.mark.parametrize("case", _settings(), ids=lambda case: repr(case.mask))
def test_every_setting_up_to_length_8(case: Case) -> None:
    assert torch.equal(case.mask.tile(range(SIZE), range(SIZE)), case.dense)
    for rows, columns in product(runs(SIZE), repeat=2):
        truth = case.dense[:, :, rows.start : rows.stop, columns.start : columns.stop]
        assert case.mask.verdict(rows, columns) is judged(truth), (rows, columns)


def test_a_mask_that_asks_for_distances_stays_itself_where_all_moves_together() -> None:
    run = torch.arange(3, 8)
    window = sliding_window_mask(2)
    assert causal_mask().select(rows=run, columns=run) == Causal()
    assert window.select(rows=run, columns=run) == window
    chunks = chunked_mask(4, start=1).select(rows=run, columns=run)
    assert repr(chunks) == "chunked_mask(4, start=2)"
    prefix = prefix_lm_mask(4).select(rows=run, columns=run)
    assert repr(prefix) == "prefix_lm_mask(1)"
    assert repr(prefix_lm_mask(2).select(rows=run, columns=run)) == "prefix_lm_mask(0)"


def test_one_row_of_a_batch() -> None:
    each = torch.tensor([1, 3])
    chunks, prefix = chunked_mask(4, start=each), prefix_lm_mask(each)
    assert isinstance(chunks, Chunked)
    assert isinstance(prefix, PrefixLM)
    for mask in (chunks, prefix):
        one = mask.select(batch=1)
        assert one.batch_rows == 1
        assert torch.equal(one.tile(range(6), range(6)), mask.tile(range(6), range(6))[1:])
        assert mask.batch_rows == 2
        assert mask.device == torch.device("cpu")
    assert chunked_mask(4).device is None


@pytest.mark.parametrize(
    ("mask", "fault"),
    [
        (
            prefix_lm_mask(torch.tensor([1, 2])),
            (
                "prefix_lm_mask(prefix[2]): expected prefix as one number or (3,), one a batch "
                "row, got int64[2]"
            ),
        ),
        (
            chunked_mask(4, start=torch.tensor([1, 2])),
            (
                "chunked_mask(4, start=start[2]): expected start as one number or (3,), one a "
                "batch row, got int64[2]"
            ),
        ),
    ],
)
def test_one_number_a_batch_row(mask: Mask, fault: str) -> None:
    with pytest.raises(MaskError) as caught:
        mask.bind(queries=4, keys=4, batch=3, heads=1, query_start=None)
    call = f"mask={mask!r} does not fit queries=4, keys=4, batch=3, heads=1"
    assert str(caught.value) == f"{call}: {fault}"
