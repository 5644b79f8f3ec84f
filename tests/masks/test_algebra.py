"""Trees of masks: what they simplify to, what they settle without looking, and any tree at all."""

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from clearhead.errors import MaskError
from clearhead.masks import (
    And,
    Full,
    Mask,
    Not,
    Or,
    Verdict,
    causal_mask,
    chunked_mask,
    document_mask,
    full_mask,
    padding_mask,
    prefix_lm_mask,
    sliding_window_mask,
)
from clearhead.masks.node import Node
from tests.masks.contract import Case, MaskContract, agrees

KEEP = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 0]])


class TestAnd(MaskContract):
    @pytest.fixture
    def case(self) -> Case:
        mask = causal_mask() & padding_mask(KEEP) & sliding_window_mask(2)
        return Case(mask, lambda b, _h, i, j: 0 <= i - j < 2 and bool(KEEP[b, j]), batch=2, heads=2)


class TestOr(MaskContract):
    @pytest.fixture
    def case(self) -> Case:
        mask = ~causal_mask() | padding_mask(KEEP) | sliding_window_mask(1)
        return Case(mask, lambda b, _h, i, j: j >= i or bool(KEEP[b, j]), batch=2)


class TestNot(MaskContract):
    @pytest.fixture
    def case(self) -> Case:
        mask = ~(causal_mask() & padding_mask(KEEP))
        return Case(mask, lambda b, _h, i, j: not (j <= i and bool(KEEP[b, j])), batch=2)


# --------------------------------------------------------------------------------------- any tree

B, H, N = 2, 2, 5
Truth = Callable[[int, int, int, int], bool]
GRID = torch.tensor([[i * 7 + j * 3 for j in range(N)] for i in range(N)]) % 2 == 0
LEAVES: list[tuple[Callable[[], Mask], Truth]] = [
    (full_mask, lambda _b, _h, _i, _j: True),
    (causal_mask, lambda _b, _h, i, j: j <= i),
    (lambda: sliding_window_mask(2), lambda _b, _h, i, j: abs(i - j) < 2),
    (lambda: prefix_lm_mask(torch.tensor([1, 3])), lambda b, _h, i, j: j <= i or j < (1, 3)[b]),
    (lambda: chunked_mask(2, start=1), lambda _b, _h, i, j: (i - 1) // 2 == (j - 1) // 2),
    (lambda: padding_mask(KEEP), lambda b, _h, _i, j: bool(KEEP[b, j])),
    (
        lambda: document_mask(torch.tensor([4, 4, 0, 0, -1])),
        lambda _b, _h, i, j: i < 4 and j < 4 and i // 2 == j // 2,
    ),
    (lambda: Mask.from_tensor(GRID), lambda _b, _h, i, j: bool(GRID[i, j])),
    (
        lambda: Mask.from_tensor(torch.stack([GRID, ~GRID])),
        lambda _b, h, i, j: bool(GRID[i, j]) != (h == 1),
    ),
]


@dataclass(frozen=True)
class Tree:
    """A mask and its truth, grown together; shown as the mask."""

    mask: Mask
    truth: Truth

    def __repr__(self) -> str:
        return repr(self.mask)

    def joined(self, other: "Tree", join: Callable[..., Mask]) -> "Tree":
        both = all if join is operator.and_ else any
        truths = (self.truth, other.truth)
        return Tree(
            join(self.mask, other.mask),
            lambda b, h, i, j: both(truth(b, h, i, j) for truth in truths),
        )

    def turned(self) -> "Tree":
        return Tree(~self.mask, lambda b, h, i, j: not self.truth(b, h, i, j))


def _grow(children: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    joins = st.sampled_from([operator.and_, operator.or_])
    return st.builds(Tree.joined, children, children, joins) | st.builds(Tree.turned, children)


leaves = st.sampled_from(LEAVES).map(lambda leaf: Tree(leaf[0](), leaf[1]))
trees = st.recursive(leaves, _grow, max_leaves=6)


@settings(max_examples=40)
@given(tree=trees, seed=st.integers(0, 2**31))
def test_any_tree_equals_its_truth(tree: Tree, seed: int) -> None:
    case = Case(tree.mask, tree.truth, batch=B, heads=H, size=N)
    agrees(case.bound, case.dense, count=30, seed=seed)


@settings(max_examples=25)
@given(
    tree=trees,
    batch=st.none() | st.integers(0, B - 1),
    rows=st.none() | st.lists(st.integers(0, N - 1), max_size=4),
    columns=st.none() | st.lists(st.integers(0, N - 1), max_size=4),
    seed=st.integers(0, 2**31),
)
def test_any_tree_can_be_seen_at_chosen_positions(
    tree: Tree, batch: int | None, rows: list[int] | None, columns: list[int] | None, seed: int
) -> None:
    case = Case(tree.mask, tree.truth, batch=B, heads=H, size=N)
    there = case.dense if batch is None else case.dense[[batch]]
    at = [None if p is None else torch.tensor(p, dtype=torch.int64) for p in (rows, columns)]
    there = there if at[0] is None else there[:, :, at[0]]
    there = there if at[1] is None else there[..., at[1]]
    mask = case.bound.select(batch=batch, rows=at[0], columns=at[1])
    agrees(mask, there, count=10, seed=seed)


# ------------------------------------------------------------------------------------ what it is


def test_and_is_flat_and_drops_full() -> None:
    a, b, c = causal_mask(), sliding_window_mask(2), padding_mask(KEEP)
    assert (a & b) & c == a & (b & c) == And((a, b, c))
    assert full_mask() & a is a
    assert a & full_mask() & b == And((a, b))
    assert full_mask() & full_mask() == Full()
    assert (a | b) | c == Or((a, b, c))
    assert ~a == Not(a)
    assert ~~a is a


def test_a_tree_reads_as_it_was_written() -> None:
    a, b, c = causal_mask(), sliding_window_mask(2), padding_mask(KEEP)
    for mask, text in (
        (a & b & c, "causal_mask() & sliding_window_mask(2) & padding_mask(keep[2, 5])"),
        (a & (b | c), "causal_mask() & (sliding_window_mask(2) | padding_mask(keep[2, 5]))"),
        (a & b | c, "(causal_mask() & sliding_window_mask(2)) | padding_mask(keep[2, 5])"),
        (~(a & b), "~(causal_mask() & sliding_window_mask(2))"),
        (~a & b, "~causal_mask() & sliding_window_mask(2)"),
    ):
        assert repr(mask) == text


def test_a_tree_is_positional_where_a_part_is() -> None:
    padding = padding_mask(KEEP)
    assert not (padding & ~padding).positional
    assert (padding | causal_mask()).positional
    assert [repr(leaf) for leaf in (~causal_mask() & padding).leaves()] == [
        "causal_mask()",
        "padding_mask(keep[2, 5])",
    ]


def test_what_logic_settles_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(*_: object) -> None:
        pytest.fail("a block was looked at")

    monkeypatch.setattr(Node, "block", look)
    keep = torch.ones(2, 4096, dtype=torch.bool)
    keep[0, :700] = False
    ids = torch.arange(4096) // 1000
    window = causal_mask() & sliding_window_mask(64)
    cases = {
        window: {512: "none", 768: "mixed", 1024: "mixed", 1280: "none"},
        ~window: {512: "all", 768: "mixed"},
        causal_mask() & padding_mask(keep): {0: "mixed", 512: "mixed", 768: "all", 1280: "none"},
        causal_mask() | padding_mask(keep): {0: "all", 1280: "all"},
        causal_mask() & document_mask(ids): {512: "none", 768: "mixed", 1024: "mixed"},
        causal_mask() & prefix_lm_mask(100): {0: "all", 1280: "none"},
        causal_mask() & chunked_mask(512): {768: "none", 1024: "mixed", 1280: "none"},
    }
    for mask, verdicts in cases.items():
        for start, verdict in verdicts.items():
            found = mask.verdict(range(1024, 1280), range(start, start + 256))
            assert found == verdict, (mask, start)


@final
@dataclass(frozen=True)
class FarBehind(Mask):
    """Look at what lies three positions behind, and farther."""

    def __repr__(self) -> str:
        return "FarBehind()"

    @property
    def positional(self) -> bool:
        return True

    @property
    def band(self) -> tuple[float, float]:
        return 3, math.inf

    def predicate(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        del b, h
        return i - j >= 3


class TestBandsThatMayNotMeet(MaskContract):
    @pytest.fixture(params=[2, 4], ids=["apart", "meeting"])
    def case(self, request: pytest.FixtureRequest) -> Case:
        width: int = request.param
        mask = FarBehind() & sliding_window_mask(width)
        return Case(mask, lambda _b, _h, i, j: 3 <= i - j < width, size=7, count=200)


def test_a_mixed_block_is_not_taken_for_a_seen_one() -> None:
    # Each part lets half of the block through, together nothing: only a look tells.
    ids, keep = torch.tensor([0, 0, 1, 1]), torch.tensor([1, 1, 0, 0])
    mask = document_mask(ids) & padding_mask(keep)
    assert mask.verdict(range(2, 4), range(4)) is Verdict.NONE
    assert (causal_mask() & ~sliding_window_mask(3)).verdict(range(2), range(4)) is Verdict.NONE
    assert (causal_mask() | ~causal_mask()).verdict(range(4), range(4)) is Verdict.ALL


@pytest.mark.parametrize(("other", "got"), [(KEEP, "int64[2, 5]"), (None, "NoneType")])
def test_only_masks_are_joined(other: object, got: str) -> None:
    for join in (operator.and_, operator.or_):
        with pytest.raises(MaskError) as caught:
            join(causal_mask(), other)
        assert str(caught.value) == (
            f"causal_mask(): expected a mask to join it with, got {got}; Mask.from_tensor takes a "
            f"bool tensor, padding_mask the attention_mask of a tokenizer"
        )
