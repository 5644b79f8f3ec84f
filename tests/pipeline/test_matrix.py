"""S and A read lazily, against S and A written out."""

import numpy as np
import pytest
import torch

from clearhead.errors import InputError, ShapeError
from clearhead.masks import causal_mask
from clearhead.pipeline import matrix
from clearhead.pipeline.attention import attention
from clearhead.pipeline.matrix import AttentionMatrix, ScoreMatrix
from clearhead.pipeline.reference import reference
from clearhead.pipeline.rule import ScoreRule
from tests.accuracy import assert_double
from tests.laws.calls import MASKS, draw

N = 7


def made(call, **parts):
    """The result and the five dense steps, from the same rule."""
    bound = ScoreRule(**parts).bind(call.query, call.key)
    return attention(*call.tensors, **parts), reference(*call.tensors, rule=bound)


@pytest.fixture
def both(generator):
    call = draw(generator, n=N, dtype=torch.float64)
    bias = torch.randn(4, N, N, generator=generator, dtype=torch.float64)
    sinks = torch.randn(4, generator=generator, dtype=torch.float64)
    return made(call, mask=causal_mask(), bias=bias, sinks=sinks, scale=0.6)


@pytest.mark.parametrize("name", MASKS)
def test_the_dense_matrices_are_those_of_the_reference(generator, name):
    call = draw(generator, n=N, dtype=torch.float64)
    result, steps = made(call, mask=MASKS[name](N), softcap=3.0)
    assert_double(result.raw_scores.to_dense(), steps.raw_scores)
    assert_double(result.scores.to_dense(), steps.scores)
    assert_double(result.weights.to_dense(), steps.weights)


def test_a_tile_is_a_part_of_the_whole(both, generator):
    result, steps = both
    some = torch.randint(-N, N, (4,), generator=generator)
    for rows in (range(2, 5), slice(None, None, -1), [6, 0, 0], some, range(3, 3)):
        where = range(N)[rows] if isinstance(rows, slice) else rows
        where = torch.as_tensor(list(where), dtype=torch.int64)
        for lazy, dense in ((result.weights, steps.weights), (result.scores, steps.scores)):
            assert_double(lazy.rows(rows), dense[:, :, where])
            assert_double(lazy.tile(rows, some), dense[:, :, where][..., some])
            assert_double(lazy.tile(range(N), rows), dense[..., where])


def test_a_product_is_that_of_the_dense_matrix(both, generator):
    weights, steps = both[0].weights, both[1]
    shared = torch.randn(N, 3, generator=generator, dtype=torch.float64)
    own = torch.randn(2, 4, N, 3, generator=generator, dtype=torch.float64)
    assert_double(weights.matvec(own), steps.weights @ own)
    assert_double(weights[1, 2].matvec(shared), steps.weights[1, 2] @ shared)
    assert_double(weights[1].matvec(own[1]), steps.weights[1] @ own[1])
    assert weights.matvec(own[..., :0]).shape == (2, 4, N, 0)
    unseen = own.index_fill(2, torch.tensor([N - 1]), torch.nan)
    assert_double(weights.matvec(unseen)[..., :-1, :], (steps.weights @ own)[..., :-1, :])
    assert weights.matvec(unseen)[..., -1, :].isnan().all()


def test_vectors_may_be_shared_by_all_heads(both, generator):
    shared = torch.randn(N, 3, generator=generator, dtype=torch.float64)
    assert_double(both[0].weights.matvec(shared), both[1].weights @ shared)


def test_a_product_that_does_not_fit_says_what_would(both):
    for weights, shape, text in (
        (both[0].weights, (5, 2), "(m,), (m, e) or (2, 4, m, e) with m = 7, got (5, 2)"),
        (both[0].weights, (4, 7, 2), "(m,), (m, e) or (2, 4, m, e) with m = 7, got (4, 7, 2)"),
        (both[0].weights[0, 0], (6, 2), "(m,), (m, e) with m = 7, got (6, 2)"),
        (both[0].weights[0, 0], (6,), "(m,), (m, e) with m = 7, got (6,)"),
    ):
        with pytest.raises(ShapeError) as caught:
            weights.matvec(torch.zeros(shape, dtype=torch.float64))
        assert str(caught.value) == f"vectors must have shape {text}"


def test_it_has_the_manners_of_a_matrix(both):
    weights, dense = both[0].weights, both[1].weights
    assert (len(weights), weights.ndim, weights.shape) == (2, 4, (2, 4, N, N))
    assert (len(weights[0, 0]), weights[0, 0].ndim) == (N, 2)
    for one, whole in zip(weights, dense, strict=True):
        assert isinstance(one, AttentionMatrix)
        assert_double(one.to_dense(), whole)
    for one, whole in zip(weights[1, 3], dense[1, 3], strict=True):
        assert_double(one, whole)
    np.testing.assert_allclose(np.asarray(weights), dense.numpy(), atol=1e-12)
    assert np.asarray(weights, dtype=np.float32).dtype == np.float32
    assert repr(weights) == "AttentionMatrix(shape=(2, 4, 7, 7), never formed)"
    assert repr(both[0].scores[0]) == "ScoreMatrix(shape=(4, 7, 7), never formed)"


def test_a_large_one_is_no_array_unasked(both, monkeypatch):
    monkeypatch.setattr(matrix, "ARRAY_ELEMENTS", 2 * 4 * N * N - 1)
    assert np.asarray(both[0].weights[0]).shape == (4, N, N)
    with pytest.raises(InputError) as caught:
        np.asarray(both[0].weights)
    assert str(caught.value) == (
        "a matrix of shape (2, 4, 7, 7) has 392 entries and is not made into an array unasked "
        "(at most 391): use pooled(size) for a picture, tile(rows, columns) for a part, "
        "or to_dense() to pay for all of it"
    )


@pytest.mark.parametrize("name", ["causal and padding", "tensor", "chunk", "mask_mod"])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_choosing_batch_rows_and_heads_chooses_all_that_goes_with_them(generator, name, kv_heads):
    call = draw(generator, kv_heads=kv_heads, n=N, dtype=torch.float64)
    bias = torch.randn(2, 4, N, 1, generator=generator, dtype=torch.float64)
    result, steps = made(call, mask=MASKS[name](N), bias=bias, sinks=torch.ones(4).double())
    for index in (
        np.s_[1],
        np.s_[:, 3],
        np.s_[1, 2],
        np.s_[:, 1:3],
        np.s_[::-1, ::-2],
        np.s_[1:, 1:],
    ):
        assert_double(result.weights[index].to_dense(), steps.weights[index_of(index)])
        assert_double(result.scores[index].rows([3]), steps.scores[index_of(index)][..., [3], :])
    twice = result.weights[1:][:, ::-1][0, 1:][1]
    assert_double(twice.to_dense(), steps.weights[1, 1])
    assert twice.key.shape == (1, 1, N, 8)  # one head reads one key-value head


def index_of(index):
    """PyTorch's way to write the same index: it takes no slices that run backwards."""
    parts = index if isinstance(index, tuple) else (index,)
    sizes = (2, 4)
    if not any(isinstance(part, slice) and (part.step or 1) < 0 for part in parts):
        return index
    lists = [torch.tensor(range(size)[part]) for part, size in zip(parts, sizes, strict=True)]
    return torch.meshgrid(*lists, indexing="ij")


def test_gradients_flow_through_rows_and_products(generator):
    call = draw(generator, n=N, dtype=torch.float64)
    pull = torch.randn(2, 4, 2, N, generator=generator, dtype=torch.float64)
    ours, theirs = call.leaves(), call.leaves()
    lazy, steps = made(ours, mask=causal_mask())[0], made(theirs, mask=causal_mask())[1]
    (lazy.weights.rows([5, 2]) * pull).sum().backward(retain_graph=True)
    (steps.weights[:, :, [5, 2]] * pull).sum().backward(retain_graph=True)
    assert_double(ours.query.grad, theirs.query.grad)
    assert_double(ours.key.grad, theirs.key.grad)
    product = lazy.weights[0, 1].matvec(call.value[0, 0]).sum()
    dense = (steps.weights[0, 1] @ call.value[0, 0]).sum()
    assert_double(
        torch.autograd.grad(product, ours.query)[0],
        torch.autograd.grad(dense, theirs.query)[0],
    )


def test_raw_scores_stop_after_the_scale(both):
    result, steps = both
    assert isinstance(result.raw_scores, ScoreMatrix)
    assert_double(result.raw_scores[0, 1].to_dense(), steps.raw_scores[0, 1])
    assert result.raw_scores.to_dense().isfinite().all()
    assert result.scores.to_dense().triu(1).isneginf().any()


def test_half_precision_is_read_in_single(generator):
    call = draw(generator, n=N, dtype=torch.bfloat16)
    weights = attention(*call.tensors).weights
    assert weights.dtype == weights.to_dense().dtype == torch.float32
    wide = attention(*call.double).weights
    assert wide.dtype == torch.float64
    torch.testing.assert_close(weights.to_dense(), wide.to_dense().float(), atol=1e-5, rtol=0)


def test_one_vector_is_a_product_too(both):
    weights, dense = both[0].weights, both[1].weights
    vector = torch.linspace(-1, 1, N, dtype=torch.float64)
    assert_double(weights.matvec(vector), dense @ vector)
    assert weights[0, 1].matvec(vector).shape == (N,)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_statistics_carry_no_graph(generator, dtype):
    leaves = draw(generator, n=N, dtype=dtype).leaves()
    result = attention(*leaves.tensors, observe=("received", "entropy", "top_keys", "pooled"))
    weights, bare = result.weights, result.weights.matvec(torch.ones(N, 1))
    made = [weights.received(), weights.entropy(), weights.top_keys().weights]
    made += [weights.pooled().values, result.received, result.entropy, result.top_keys.weights]
    assert not any(tensor.requires_grad for tensor in [*made, result.pooled.values])
    assert bare.requires_grad
