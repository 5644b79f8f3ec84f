"""FlexAttention: its functions as masks, masks as its block masks."""

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask, create_mask, flex_attention

from clearhead.errors import MaskError
from clearhead.masks import Mask, MaskMod, causal_mask, padding_mask, sliding_window_mask
from tests.masks.contract import Case, MaskContract, agrees

IDS = torch.tensor([[0, 0, 1, 1], [2, 3, 3, 3]])
SLOPES = torch.tensor([1, 3])


def documents(b, h, q_idx, kv_idx):
    return IDS[b, q_idx] == IDS[b, kv_idx]


class TestMaskMod(MaskContract):
    # A look takes milliseconds, so that a few blocks have to do.
    @pytest.fixture
    def case(self) -> Case:
        def fn(b, h, q_idx, kv_idx):
            return (q_idx - kv_idx + b).abs() < SLOPES[h]

        def truth(b: int, h: int, i: int, j: int) -> bool:
            return abs(i - j + b) < int(SLOPES[h])

        return Case(Mask.from_mask_mod(fn), truth, batch=2, heads=2, size=4, count=4)


def test_a_function_of_scalars_that_cannot_broadcast() -> None:
    # vmap gives it one number each: reductions over what it looks up mean what they say.
    table = torch.tensor([[1, 0], [0, 0], [1, 1]])

    def fn(b, h, q_idx, kv_idx):
        return (table[q_idx] * table[kv_idx]).sum() > 0

    mask = Mask.from_mask_mod(fn, batch=1, heads=1)
    expected = (table @ table.T) > 0
    assert torch.equal(mask.tile(range(3), range(3))[0, 0], expected)
    assert torch.equal(mask.tile(torch.tensor([2, 0]), range(3))[0, 0], expected[[2, 0]])


def test_every_block_of_a_function_equals_its_truth(seed: int) -> None:
    for batch, heads in ((None, None), (1, None), (2, 1)):
        mask = Mask.from_mask_mod(documents, batch=batch, heads=heads)
        count = 1 if batch == 1 else 2
        case = Case(mask, lambda b, _h, i, j: bool(IDS[b, i] == IDS[b, j]), batch=count, size=4)
        agrees(case.bound, case.dense, count=10, seed=seed)


def test_a_block_is_asked_once() -> None:
    asked: list[int] = []

    def fn(b, h, q_idx, kv_idx):
        asked.append(1)
        return q_idx >= kv_idx

    mask = Mask.from_mask_mod(fn)
    for _ in range(3):  # three layers bind it anew
        bound = mask.bind(queries=4, keys=4, batch=2, heads=1, query_start=None)
        assert bound.verdict(range(4), range(4)) == "mixed"
        assert bound.verdict(range(2, 4), range(2)) == "all"
    assert len(asked) == 2


def test_it_reads_as_what_it_is() -> None:
    mask = Mask.from_mask_mod(documents)
    assert isinstance(mask, MaskMod)
    assert repr(mask) == "Mask.from_mask_mod(documents)"
    assert repr(mask.select(batch=1)) == "Mask.from_mask_mod(documents)"
    assert mask.positional


def test_it_has_to_know_how_many_there_are() -> None:
    mask = Mask.from_mask_mod(documents, heads=1)
    with pytest.raises(MaskError) as caught:
        mask.tile(range(2), range(2))
    assert str(caught.value) == (
        "Mask.from_mask_mod(documents): expected batch=, because no call has said how many there "
        "are; give from_mask_mod batch=1 if the function does not depend on it, or bind the mask"
    )
    bound = mask.bind(queries=4, keys=4, batch=2, heads=7, query_start=None)
    assert bound.tile(range(4), range(4)).shape == (2, 1, 4, 4)
    # One batch row is known to be one.
    assert mask.select(batch=1).tile(range(4), range(4)).shape == (1, 1, 4, 4)


def test_another_number_of_batch_rows_or_heads_is_refused() -> None:
    mask = Mask.from_mask_mod(documents, batch=2, heads=3)
    with pytest.raises(MaskError) as caught:
        mask.bind(queries=4, keys=4, batch=5, heads=6, query_start=None)
    name = "Mask.from_mask_mod(documents)"
    assert str(caught.value) == (
        f"mask={name} does not fit queries=4, keys=4, batch=5, heads=6, 2 faults:\n"
        f"  - {name}: expected batch=5 as in the call (or 1, or None), got 2\n"
        f"  - {name}: expected heads=6 as in the call (or 1, or None), got 3"
    )


@pytest.mark.parametrize(
    ("fn", "got"),
    [
        (lambda _b, _h, q, _kv: q * 1.0, "float32[]"),
        (lambda _b, _h, _q, _kv: True, "bool"),
    ],
)
def test_a_function_that_answers_otherwise_is_refused(fn, got: str) -> None:
    mask = Mask.from_mask_mod(fn, batch=1, heads=1)
    with pytest.raises(MaskError) as caught:
        mask.tile(range(2), range(2))
    assert str(caught.value) == (
        "Mask.from_mask_mod(<lambda>): expected the function to answer with one bool tensor, True "
        f"= may look, got {got}; a function that changes scores is no mask"
    )


# ------------------------------------------------------------------------------------- block masks


@pytest.mark.parametrize("keys", [64, 128, 300])
def test_a_block_mask_is_flex_attentions_own(keys: int) -> None:
    keep = torch.ones(2, keys, dtype=torch.bool)
    keep[1, : keys // 2] = False
    mask = causal_mask() & sliding_window_mask(100) & padding_mask(keep)

    def mine(b, h, q_idx, kv_idx):
        return (q_idx >= kv_idx) & (q_idx - kv_idx < 100) & keep[b, kv_idx]

    ours = mask.to_block_mask(queries=keys, keys=keys)
    theirs = create_block_mask(mine, 2, 1, keys, keys, device="cpu")
    for name in ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices"):
        assert torch.equal(getattr(ours, name), getattr(theirs, name)), name
    assert ours.seq_lengths == theirs.seq_lengths


def test_a_block_mask_begins_where_the_queries_stand() -> None:
    blocks = causal_mask().to_block_mask(queries=2, keys=5, query_start=3)
    dense = create_mask(blocks.mask_mod, 1, 1, 2, 5, device="cpu")
    assert dense.int()[0, 0].tolist() == [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    starts = torch.tensor([3, 0])
    blocks = causal_mask().to_block_mask(queries=2, keys=5, batch=2, query_start=starts)
    dense = create_mask(blocks.mask_mod, 2, 1, 2, 5, device="cpu")
    assert dense.int()[1, 0].tolist() == [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0]]


def test_a_block_mask_has_to_fit() -> None:
    with pytest.raises(MaskError) as caught:
        padding_mask(torch.ones(4).bool()).to_block_mask(queries=5, keys=5)
    assert str(caught.value).startswith("mask=padding_mask(keep[1, 4]) does not fit queries=5")


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile:UserWarning")
def test_flex_attention_attends_as_the_mask_says(generator: torch.Generator) -> None:
    q, k, v = (torch.randn(2, 2, 6, 8, generator=generator) for _ in range(3))
    mask = causal_mask() & padding_mask(torch.tensor([[1, 1, 1, 1, 0, 0], [1, 0, 1, 1, 1, 1]]))
    blocks = mask.to_block_mask(queries=6, keys=6, batch=2, heads=2)
    dense = mask.to_dense(queries=6, keys=6, batch=2)
    plain = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=dense)
    torch.testing.assert_close(flex_attention(q, k, v, block_mask=blocks), plain)
