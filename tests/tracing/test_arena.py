"""The arena: one allocation, tensors side by side."""

import pytest
import torch

from clearhead.tracing.arena import ALIGNMENT, Arena

CPU = torch.device("cpu")


def memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def test_what_is_stored_is_a_copy_without_gaps_and_without_gradient(generator):
    given = torch.randn(3, 4, 5, generator=generator).transpose(0, 2).requires_grad_()
    kept = Arena(CPU).store(given)
    assert torch.equal(kept, given)
    assert kept.is_contiguous()
    assert not kept.requires_grad
    with torch.no_grad():
        given.zero_()
    assert kept.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64])
@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (7,), (3, 5, 2), (1, 64)])
def test_every_dtype_and_shape_fits_beside_the_others(dtype, shape):
    arena = Arena(CPU)
    given = [torch.full(shape, number, dtype=dtype) for number in range(5)]
    kept = [arena.store(tensor) for tensor in given]
    for tensor, copy in zip(given, kept, strict=True):
        assert copy.dtype == dtype
        assert torch.equal(copy, tensor)
    assert arena.nbytes == sum(tensor.numel() * tensor.element_size() for tensor in given)


def test_what_is_reserved_is_allocated_once():
    arena = Arena(CPU)
    tensors = [torch.ones(5), torch.ones(3, dtype=torch.bfloat16), torch.ones(2, 9)]
    arena.reserve(sum(Arena.padded(t.numel() * t.element_size()) for t in tensors))
    kept = [arena.store(tensor) for tensor in tensors]
    assert len({memory(tensor) for tensor in kept}) == 1
    starts = [tensor.data_ptr() - memory(tensor) for tensor in kept]
    assert starts == [0, ALIGNMENT, 2 * ALIGNMENT]
    assert kept[0].untyped_storage().nbytes() == 4 * ALIGNMENT
    # what was not reserved lies elsewhere, and what was kept before stays
    assert memory(arena.store(torch.ones(9))) != memory(kept[0])
    assert all(torch.equal(one, two) for one, two in zip(kept, tensors, strict=True))


def test_room_that_is_left_is_used_before_more_is_taken():
    arena = Arena(CPU)
    arena.reserve(256)
    first = arena.store(torch.ones(4))
    arena.reserve(64)
    assert memory(arena.store(torch.ones(4))) == memory(first)


@pytest.mark.parametrize(("nbytes", "padded"), [(0, 0), (1, 64), (64, 64), (65, 128)])
def test_a_tensor_takes_whole_cache_lines(nbytes, padded):
    assert Arena.padded(nbytes) == padded
