"""A mask and the call it is bound to: all faults at once, nothing read, nothing made anew."""

from collections.abc import Callable

import pytest
import torch

from clearhead.errors import MaskError
from clearhead.masks import (
    Mask,
    Not,
    causal_mask,
    chunked_mask,
    document_mask,
    padding_mask,
    prefix_lm_mask,
    sliding_window_mask,
)


def _everything(device: str = "cpu") -> Mask:
    """A tree with every kind of mask in it, for 3 batch rows and 6 positions."""
    each = torch.tensor([0, 1, 2], device=device)
    return (
        causal_mask()
        & sliding_window_mask(4)
        & padding_mask(torch.ones(3, 6, dtype=torch.bool, device=device))
        & (document_mask(torch.zeros(6, dtype=torch.int64, device=device)) | prefix_lm_mask(each))
        & ~(chunked_mask(2, start=each) & chunked_mask(3))
        & Mask.from_tensor(torch.ones(6, 6, dtype=torch.bool, device=device))
    )


def _of_a_function() -> Mask:
    return Mask.from_mask_mod(lambda b, _h, q, kv: q - kv >= b, heads=1)


def test_all_faults_of_a_tree_stand_in_one_message() -> None:
    padding = padding_mask(torch.ones(2, 7, dtype=torch.int64))
    tree = causal_mask() & padding & sliding_window_mask(3)
    with pytest.raises(MaskError) as caught:
        (tree | tree).bind(queries=5, keys=6, batch=3, heads=4, query_start=None)
    text = "causal_mask() & padding_mask(keep[2, 7]) & sliding_window_mask(3)"
    assert str(caught.value) == (
        f"mask=({text}) | ({text}) does not fit queries=5, keys=6, batch=3, heads=4, 3 faults:\n"
        "  - causal_mask(), sliding_window_mask(3): expected query_start=, because 5 queries can "
        "stand at several places among 6 keys; give the position of the first query: keys - "
        "queries where they are the last tokens\n"
        "  - padding_mask(keep[2, 7]): expected keep with 3 batch rows (or 1 for all), got 2\n"
        "  - padding_mask(keep[2, 7]): expected keep with 6 entries, one for each position from 0 "
        "to the last key's, got 7; keys that come from a cache count too"
    )


def test_binding_reads_no_tensor() -> None:
    # A meta tensor has no values: whoever reads one fails.
    tree = _everything("meta") & _of_a_function()
    for start in (None, 0, torch.zeros(3, dtype=torch.int64, device="meta")):
        bound = tree.bind(queries=6, keys=6, batch=3, heads=2, query_start=start)
        assert bound.tile(range(6), range(6), device="meta").shape == (3, 1, 6, 6)


def test_binding_makes_nothing_anew_where_nothing_is_open() -> None:
    tree = causal_mask() & ~(padding_mask(torch.ones(6).bool()) | sliding_window_mask(2))
    assert tree.bind(queries=6, keys=6, batch=1, heads=1, query_start=None) is tree


def test_a_tree_moves_as_a_whole() -> None:
    tree = _everything()
    assert tree.device == torch.device("cpu")
    moved = tree.to("meta")
    assert moved.device == torch.device("meta")
    assert tree.to("cpu") is tree
    assert repr(moved) == repr(tree)


def test_to_dense_is_what_scaled_dot_product_attention_takes(generator: torch.Generator) -> None:
    q, k, v = (torch.randn(3, 2, 6, 4, generator=generator) for _ in range(3))
    dense = _everything().to_dense(queries=6, keys=6, batch=3, heads=2)
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=dense)
    scores = (q @ k.mT / 2).masked_fill(~dense, -torch.inf)
    torch.testing.assert_close(out, scores.softmax(-1).nan_to_num() @ v)


# ---------------------------------------------------------------------------------------- compiled


def _compiled(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return torch.compile(function, fullgraph=True, backend="aot_eager")


@pytest.mark.compiled
@pytest.mark.parametrize(
    "rows",
    [range(1, 4), torch.tensor([[4, 1, 2], [0, 1, 3], [5, 5, 5]])],
    ids=["range", "rows of each"],
)
def test_a_captured_tree_compiles_whole(rows: range | torch.Tensor) -> None:
    tree = _everything()
    sizes = {"queries": 6, "keys": 6, "batch": 3, "heads": 2, "query_start": None}

    def seen(x: torch.Tensor) -> torch.Tensor:
        return x * tree.bind(**sizes).tile(rows, range(6))

    got = _compiled(seen)(torch.ones(()))
    assert torch.equal(got.bool(), tree.bind(**sizes).tile(rows, range(6)))


@pytest.mark.compiled
def test_a_captured_function_compiles_whole() -> None:
    mask = _of_a_function() & causal_mask()
    sizes = {"queries": 4, "keys": 4, "batch": 2, "heads": 2, "query_start": None}

    def seen(x: torch.Tensor) -> torch.Tensor:
        return x * mask.bind(**sizes).tile(range(4), range(4))

    got = _compiled(seen)(torch.ones(()))
    assert torch.equal(got.bool(), mask.bind(**sizes).tile(range(4), range(4)))


@pytest.mark.compiled
def test_a_mask_made_inside_compiles_whole() -> None:
    def seen(x: torch.Tensor, keep: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        # Not.of, because PyTorch's compiler does not see through ~ (outside it may be used).
        far = Not.of(sliding_window_mask(2))
        mask = causal_mask() & padding_mask(keep) & (document_mask(ids) | far)
        bound = mask.bind(queries=4, keys=6, batch=2, heads=1, query_start=2)
        return x * bound.tile(range(2, 6), range(6))

    keep, ids = torch.tensor([[1, 1, 1, 1, 1, 0], [0, 1, 1, 1, 1, 1]]), torch.arange(6) // 3
    compiled = _compiled(seen)
    x = torch.ones(())
    assert torch.equal(compiled(x, keep, ids), seen(x, keep, ids))
    # Other values, same program.
    assert torch.equal(compiled(x, 1 - keep, ids + 1), seen(x, 1 - keep, ids + 1))


@pytest.mark.compiled
def test_a_mask_is_an_argument_and_positions_judge_blocks_inside() -> None:
    def seen(x: torch.Tensor, mask: Mask) -> torch.Tensor:
        if mask.verdict(range(4), range(4, 8)) == "none":
            return x + mask.tile(range(4), range(4))
        return x

    compiled = _compiled(seen)
    x = torch.zeros(())
    for mask in (causal_mask(), causal_mask() & sliding_window_mask(2), ~causal_mask()):
        assert torch.equal(compiled(x, mask), seen(x, mask))
