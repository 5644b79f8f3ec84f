"""Attention of one row a head: exact, the same for any number of threads, and wary of NaN."""

import pytest
import torch

import clearhead as ch
from clearhead.native.attention import attend_row
from tests.accuracy import Yardstick

#: batch, heads, key heads, keys, width: with rests of every kind, one key, one number.
SIZES = [
    (1, 9, 3, 64, 64),
    (2, 4, 4, 257, 24),
    (1, 8, 1, 1031, 65),
    (3, 2, 2, 1, 7),
    (1, 4, 2, 513, 1),
    (1, 16, 2, 300, 256),
]


def some(sizes, generator, dtype):
    """Q, K and V, the latter two as they stand in a cache with room to spare."""
    batch, heads, kv_heads, keys, width = sizes
    query = torch.randn(batch, heads, 1, width, generator=generator)
    room = torch.randn(2, batch, kv_heads, keys + 9, width, generator=generator)
    return [part.to(dtype) for part in (query, *room[:, :, :, 4 : 4 + keys])]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("sizes", SIZES)
def test_it_keeps_the_rule_of_accuracy(dtype, sizes, generator) -> None:
    query, key, value = some(sizes, generator, dtype)
    context, logsumexp = attend_row(query, key, value, scale=0.3)
    assert context.dtype == dtype
    assert logsumexp.dtype == torch.float32
    yardstick = Yardstick(query, key, value, scale=0.3)
    yardstick.assert_logsumexp(logsumexp)
    if dtype == torch.float32 or sizes[-1] >= 16:  # the rule asks for 16 numbers in 16 bits
        yardstick.assert_context(context)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("sizes", SIZES)
def test_its_bits_are_the_same_for_any_number_of_threads(
    dtype, sizes, generator, monkeypatch
) -> None:
    given = some(sizes, generator, dtype)
    made = []
    for threads in (1, 2, 3, 5):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        made.append(attend_row(*given, scale=0.2))
    for context, logsumexp in made:
        assert torch.equal(context, made[0][0])
        assert torch.equal(logsumexp, made[0][1])


@pytest.mark.parametrize("largest", [1e-3, 1.0, 80.0, 1e4])
def test_scores_of_any_size_are_served(largest, generator) -> None:
    query, key, value = some((1, 6, 2, 400, 32), generator, torch.float32)
    query *= largest
    context, logsumexp = attend_row(query, key, value, scale=1.0)
    yardstick = Yardstick(query, key, value, scale=1.0)
    yardstick.assert_context(context)
    yardstick.assert_logsumexp(logsumexp)


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("broken", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite_is_left(which, broken, generator) -> None:
    for sizes in SIZES:
        given = some(sizes, generator, torch.float32)
        given[which][..., -1, -1] = broken
        made = attend_row(*given, scale=1.0)
        # a key of −∞ may be hidden from a row by its own score: then all is well
        assert made is None or all(part.isfinite().all() for part in made)


def test_a_row_of_ours_sees_a_broken_value_as_the_reference_says(generator) -> None:
    query, key, value = some((1, 4, 2, 50, 16), generator, torch.float32)
    value[0, 1, 20] = torch.nan
    made, truth = (
        ch.attention(query, key, value, impl=impl).context for impl in ("fused", "reference")
    )
    assert torch.equal(made.isnan(), truth.isnan())
    assert made[0, :2].isfinite().all()


def test_rows_of_any_width_are_served(generator) -> None:
    given = some((1, 1, 1, 2, 3_000_000), generator, torch.float32)
    context, _ = attend_row(*given, scale=1e-4)
    torch.testing.assert_close(context, ch.attention(*given, scale=1e-4, impl="tiles").context)


def test_it_serves_the_fused_path(generator, monkeypatch) -> None:
    given = some((1, 4, 2, 50, 16), generator, torch.float32)
    expected = attend_row(*given, scale=0.25)
    result = ch.attention(*given)
    assert torch.equal(result.context, expected[0])
    assert torch.equal(result.logsumexp, expected[1])
    monkeypatch.setattr("clearhead.pipeline.fused.attend_row", lambda *_, **__: None)
    torch.testing.assert_close(ch.attention(*given).context, expected[0])


@pytest.mark.parametrize("kind", ["two rows", "types", "widths", "spread", "16 bits of another"])
def test_what_it_does_not_serve_it_leaves(kind, generator) -> None:
    query, key, value = some((1, 4, 2, 50, 16), generator, torch.float32)
    match kind:
        case "two rows":
            query = query.repeat(1, 1, 2, 1)
        case "types":
            query, key, value = query.double(), key.double(), value.double()
        case "widths":
            value = value[..., :8]
        case "spread":
            key = key.repeat(1, 1, 1, 2)[..., ::2]
        case _:
            value = value.half()
    assert attend_row(query, key, value, scale=1.0) is None
