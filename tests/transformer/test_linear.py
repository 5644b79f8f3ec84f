"""The product with a weight: what PyTorch's gives, however it is shared out."""

import pytest
import torch

from clearhead.transformer import linear as module
from clearhead.transformer.linear import LEAST, Linear, linear

#: More than the parts of any number of cores, and numbers that no number of parts divides.
SIZES = [(192, 576), (576, 192), (50_257, 8), (331, 257), (1, LEAST)]
#: So many that every number of parts divides them.
OUT = 240


@pytest.mark.parametrize(("d_out", "d_in"), SIZES)
@pytest.mark.parametrize("lead", [(), (1,), (1, 1), (3,), (2, 5), (70,), (0,), (2, 0)])
@pytest.mark.parametrize("bias", [False, True])
def test_it_is_pytorchs(d_out, d_in, lead, bias, generator) -> None:
    weight = torch.randn(d_out, d_in, generator=generator, dtype=torch.float64)
    b = torch.randn(d_out, generator=generator, dtype=torch.float64) if bias else None
    x = torch.randn(*lead, d_in, generator=generator, dtype=torch.float64)
    for dtype in (torch.float64, torch.float32):
        given = [None if part is None else part.to(dtype) for part in (x, weight, b)]
        made = linear(*given)
        wide = [None if part is None else part.double() for part in given]
        expected, plain = torch.nn.functional.linear(*wide), torch.nn.functional.linear(*given)
        assert made.dtype == dtype
        assert made.shape == (*lead, d_out)
        if dtype is torch.float64:
            torch.testing.assert_close(made, expected, rtol=0, atol=1e-12 * d_in**0.5)
        elif made.numel():
            error, usual = ((each.double() - expected).abs().max() for each in (made, plain))
            assert error <= 1.5 * usual + 2 * 2.0**-23 * expected.abs().max()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_parts_are_taken_for_one_row_only(threads, generator, monkeypatch) -> None:
    taken = []
    real = module._in_parts
    monkeypatch.setattr(module, "_in_parts", lambda *given: taken.append(given[2:]) or real(*given))
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(module, "_HAS_MKL", True)
    weight, bias = torch.randn(OUT, 300, generator=generator), torch.zeros(OUT)
    for rows in (1, 2, 64):
        linear(torch.randn(rows, 300, generator=generator), weight)
        linear(torch.randn(rows, 300, generator=generator), weight, bias)
    linear(torch.randn(1, 300, generator=generator), torch.randn(OUT + 1, 300))
    assert taken == [(2 * threads,)] * 2


@pytest.mark.parametrize("kind", ["strided x", "strided weight", "16 bits", "small"])
def test_what_is_laid_or_rounded_otherwise_is_multiplied_too(kind, generator) -> None:
    weight, x = torch.randn(256, 260, generator=generator), torch.randn(2, 260, generator=generator)
    match kind:
        case "strided x":
            x = torch.randn(260, 2, generator=generator).t()
        case "strided weight":
            weight = torch.randn(260, 256, generator=generator).t()
        case "16 bits":
            x, weight = x.bfloat16(), weight.bfloat16()
        case _:
            weight = weight[:3]
    expected = torch.nn.functional.linear(x, weight)
    torch.testing.assert_close(linear(x, weight), expected, rtol=1e-5, atol=1e-4)


def test_a_part_of_a_larger_tensor_is_its_own_weight(generator) -> None:
    large = torch.randn(600, 256, generator=generator)
    x = torch.randn(3, 512, generator=generator)[1:2, 256:]
    weight = large[100:400]
    torch.testing.assert_close(linear(x, weight), torch.nn.functional.linear(x, weight))


def test_gradients_go_through(generator) -> None:
    layer = Linear(256, 257)
    layer(torch.randn(1, 256, generator=generator)).sum().backward()
    assert layer.weight.grad is not None
    assert layer.bias.grad is not None


def test_a_bias_is_not_written_into(generator) -> None:
    layer = Linear(256, 300)
    before = layer.bias.detach().clone()
    with torch.no_grad():
        layer(torch.randn(1, 256, generator=generator))
    assert torch.equal(layer.bias, before)


def test_autocast_rounds_as_it_does_for_pytorchs(generator) -> None:
    layer = Linear(256, 300)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert layer(torch.randn(1, 256, generator=generator)).dtype == torch.bfloat16


@pytest.mark.parametrize("rows", [1, 2, 5, 7, 40])
@pytest.mark.parametrize("size", [(OUT, 300), (301, 300), (257, 768), (1, LEAST)])
@pytest.mark.parametrize("bias", [False, True])
def test_a_product_made_again_by_pytorch_has_the_same_bits(rows, size, bias, generator) -> None:
    weight = torch.randn(size, generator=generator)
    b = torch.randn(size[0], generator=generator) if bias else None
    x = torch.randn(1, rows, size[1], generator=generator)
    assert torch.equal(linear(x, weight, b), torch.nn.functional.linear(x, weight, b))


@pytest.mark.parametrize("shape", [(3, 301), (299,), (2, 150)])
def test_rows_of_another_width_are_pytorchs_to_refuse(shape, generator) -> None:
    with torch.no_grad(), pytest.raises(RuntimeError):
        Linear(300, OUT)(torch.randn(shape, generator=generator))


def test_rows_of_another_dtype_are_pytorchs_to_refuse() -> None:
    with torch.no_grad(), pytest.raises(RuntimeError):
        Linear(300, OUT)(torch.zeros(1, 300, dtype=torch.float64))
