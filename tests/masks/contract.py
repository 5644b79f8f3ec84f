"""What any mask must do, as a suite: a mask supplies itself and a plain truth, and inherits it.

    class TestMine(MaskContract):
        @pytest.fixture
        def case(self) -> Case:
            return Case(my_mask(3), lambda _b, _h, i, j: i - j < 3)

The truth is written out for a few positions, and every question is compared with it.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_mask

from clearhead.masks import Mask, TensorMask, Verdict, causal_mask, full_mask, padding_mask

__all__ = ["Case", "MaskContract", "agrees", "judged", "runs", "same"]


@dataclass(frozen=True, eq=False)
class Case:
    """A mask, and what it has to say.

    Attributes:
        mask: the mask, as people write it.
        truth: may i look at j, in batch row b and head h?
        batch: batch rows of the call it is tried in.
        heads: heads of that call.
        size: positions of that call, queries and keys alike.
        count: how many blocks are compared each time; None is every one of a small mask.
    """

    mask: Mask
    truth: Callable[[int, int, int, int], bool]
    batch: int = 1
    heads: int = 1
    size: int = 5
    count: int | None = None

    @cached_property
    def bound(self) -> Mask:
        """The mask, ready for tiles."""
        return self.mask.bind(
            queries=self.size,
            keys=self.size,
            batch=self.batch,
            heads=self.heads,
            query_start=None,
        )

    @cached_property
    def dense(self) -> Tensor:
        """The truth, written out: (batch, heads, size, size)."""
        shape = (self.batch, self.heads, self.size, self.size)
        return torch.tensor(
            [self.truth(*place) for place in product(*map(range, shape))], dtype=torch.bool
        ).reshape(shape)


def runs(size: int) -> Iterator[range]:
    """Every run of positions below a size, the empty ones at its ends included."""
    yield from (range(0), range(size, size))
    yield from (range(start, stop) for start in range(size) for stop in range(start + 1, size + 1))


def same(tile: Tensor, truth: Tensor) -> bool:
    """Whether a tile is the truth; axes of size 1 stand for all."""
    assert tile.dtype == torch.bool
    assert tile.dim() == 4
    assert tile.shape[2:] == truth.shape[2:]
    return torch.equal(tile.expand(truth.shape), truth)


def judged(truth: Tensor) -> Verdict:
    """What a block's verdict has to be."""
    found = truth.numpy()  # ten times as quick for so few
    if not found.any():
        return Verdict.NONE
    return Verdict.ALL if found.all() else Verdict.MIXED


def blocks(n: int, m: int, *, count: int | None, seed: int) -> list[tuple[range, range]]:
    """Blocks of a mask of n queries and m keys: every one, or some of them and the whole."""
    every = list(product(runs(n), runs(m)))
    if count is None or len(every) <= count:
        return every
    return [(range(n), range(m)), *random.Random(seed).sample(every, count)]


def agrees(mask: Mask, truth: Tensor, *, count: int | None = None, seed: int = 0) -> None:
    """Compare a mask with its truth: tiles and verdicts of every block, or of some."""
    for rows, columns in blocks(*truth.shape[2:], count=count, seed=seed):
        part = truth[:, :, rows.start : rows.stop, columns.start : columns.stop]
        assert mask.verdict(rows, columns) is judged(part), (mask, rows, columns)
        assert same(mask.tile(rows, columns), part), (mask, rows, columns)


class MaskContract:
    """The suite. A test class inherits it and has a fixture ``case``."""

    def test_tiles_and_verdicts_equal_the_truth(self, case: Case, seed: int) -> None:
        agrees(case.bound, case.dense, count=case.count, seed=seed)

    def test_tiles_of_index_tensors_equal_the_truth(
        self, case: Case, generator: torch.Generator
    ) -> None:
        for _ in range(5):
            rows = torch.randint(case.size, (4,), generator=generator)
            columns = torch.randint(case.size, (3,), generator=generator)
            truth = case.dense[:, :, rows][:, :, :, columns]
            assert same(case.bound.tile(rows, columns), truth), (rows, columns)
            assert same(case.bound.tile(rows, range(case.size)), case.dense[:, :, rows])
            assert same(case.bound.tile(range(case.size), columns), case.dense[..., columns])

    def test_rows_may_stand_elsewhere_in_each_batch_row(
        self, case: Case, generator: torch.Generator
    ) -> None:
        rows = torch.randint(case.size, (case.batch, 4), generator=generator)
        columns = torch.randint(case.size, (3,), generator=generator)
        each = [case.dense[b : b + 1, :, rows[b]] for b in range(case.batch)]
        truth = torch.cat(each)[..., columns]
        assert same(case.bound.tile(rows, columns), truth), rows
        one = case.bound.tile(rows[:1], columns)
        assert same(one, case.dense[:, :, rows[0]][..., columns]), rows

    def test_ranges_may_have_gaps_and_run_backwards(self, case: Case) -> None:
        for rows in (range(0, case.size, 2), range(case.size - 1, -1, -1)):
            columns = range(1, case.size, 3)
            truth = case.dense[:, :, list(rows)][..., list(columns)]
            assert same(case.bound.tile(rows, columns), truth)
            assert case.bound.verdict(rows, columns) is judged(truth)

    def test_positions_beyond_the_ends_are_answered(self, case: Case) -> None:
        rows = range(-2, case.size + 3)
        tile = case.bound.tile(rows, rows)[:, :, 2:-3, 2:-3]
        assert same(tile, case.dense)
        for part in (range(-2, 1), range(case.size - 1, case.size + 2), rows):
            assert case.bound.verdict(part, rows) is judged(case.bound.tile(part, rows))

    def test_the_algebra_keeps_its_laws(self, case: Case, seed: int) -> None:
        a, everything = case.bound, range(case.size)
        x = a.tile(everything, everything)
        for b in (causal_mask(), padding_mask(torch.arange(case.size) % 3 != 1), a):
            y = b.tile(everything, everything)
            laws = {
                a & b: x & y,
                a | b: x | y,
                ~(a & b): ~x | ~y,  # De Morgan
                ~a | ~b: ~x | ~y,
                ~(a | b): ~x & ~y,
                ~a & ~b: ~x & ~y,
            }
            for mask, truth in laws.items():
                agrees(mask, truth, count=min(20, case.count or 20), seed=seed)
        assert ~~a == a
        assert a & full_mask() == a
        assert (a & ~a).verdict(everything, everything) is Verdict.NONE
        assert (a | ~a).verdict(everything, everything) is Verdict.ALL

    def test_to_dense_equals_the_truth(self, case: Case) -> None:
        dense = case.mask.to_dense(
            queries=case.size, keys=case.size, batch=case.batch, heads=case.heads
        )
        assert same(dense, case.dense)

    def test_flex_attention_gets_the_same(self, case: Case) -> None:
        sizes = (case.batch, case.heads, case.size, case.size)
        assert torch.equal(create_mask(case.bound.to_mask_mod(), *sizes, device="cpu"), case.dense)
        blocks = case.mask.to_block_mask(
            queries=case.size, keys=case.size, batch=case.batch, heads=case.heads
        )
        assert torch.equal(create_mask(blocks.mask_mod, *sizes, device="cpu"), case.dense)
        assert torch.equal(blocks.to_dense().bool(), case.dense.any(-1).any(-1)[..., None, None])

    def test_a_selection_equals_the_truth_there(
        self, case: Case, generator: torch.Generator, seed: int
    ) -> None:
        size = case.size
        picks: list[Tensor | None] = [
            None,
            torch.arange(1, size),
            torch.arange(2, size - 1),
            torch.randint(size, (4,), generator=generator),
            torch.tensor([], dtype=torch.int64),
        ]
        choices = list(product((None, *range(case.batch)), picks, picks))
        for batch, rows, columns in random.Random(seed).sample(choices, min(20, case.count or 20)):
            truth = case.dense if batch is None else case.dense[[batch]]
            mask = case.bound.select(batch=batch, rows=rows, columns=columns)
            there = truth if rows is None else truth[:, :, rows]
            there = there if columns is None else there[..., columns]
            agrees(mask, there, count=min(6, case.count or 6), seed=seed)

    def test_a_selection_of_the_same_run_keeps_its_shape(self, case: Case) -> None:
        run = torch.arange(2, case.size)
        mask = case.mask.select(batch=case.batch - 1, rows=run, columns=run)
        bound = mask.bind(
            queries=len(run), keys=len(run), batch=1, heads=case.heads, query_start=None
        )
        agrees(bound, case.dense[case.batch - 1 :, :, 2:, 2:], count=case.count)

    def test_queries_may_start_elsewhere_in_each_batch_row(self, case: Case) -> None:
        starts = torch.arange(case.batch) % 3 + 1
        sizes = {"queries": 2, "keys": case.size, "batch": case.batch, "heads": case.heads}
        if _written_out(case.mask):
            return  # its rows are those of the call: TensorMask's own tests place them
        dense = case.mask.to_dense(**sizes, query_start=starts)
        truth = [case.dense[b : b + 1, :, s : s + 2] for b, s in enumerate(starts.tolist())]
        assert same(dense, torch.cat(truth))
        one = case.mask.to_dense(**sizes, query_start=1)
        assert same(one, case.dense[:, :, 1:3])
        mask_mod = case.mask.to_block_mask(**sizes, query_start=starts).mask_mod
        got = create_mask(mask_mod, case.batch, case.heads, 2, case.size, device="cpu")
        assert torch.equal(got, torch.cat(truth))

    def test_it_says_which_axes_it_tells_apart(self, case: Case) -> None:
        tile = case.bound.tile(range(2), range(3))
        assert tile.shape[0] == case.bound.batch_rows
        assert tile.shape[1] == case.bound.head_count
        assert case.bound.batch_rows in {1, case.batch}
        assert case.bound.head_count in {1, case.heads}

    def test_a_mask_that_is_not_positional_gives_every_query_the_same(self, case: Case) -> None:
        if not case.mask.positional and not _written_out(case.mask):
            assert torch.equal(case.dense, case.dense[:, :, :1].expand_as(case.dense))

    def test_it_is_written_in_one_short_line(self, case: Case) -> None:
        assert "\n" not in repr(case.mask)
        assert len(repr(case.mask)) < 160
        assert "tensor([" not in repr(case.mask)

    def test_moving_it_where_it_is_makes_nothing_new(self, case: Case) -> None:
        assert case.mask.to("cpu") is case.mask
        assert case.bound.device in {None, torch.device("cpu")}


def _written_out(mask: Mask) -> bool:
    return any(isinstance(leaf, TensorMask) for leaf in mask.leaves())
