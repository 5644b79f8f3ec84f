"""The product with a weight: as accurate as PyTorch's, whoever makes it."""

import pytest
import torch

from clearhead.native import library
from clearhead.native import linear as module
from clearhead.native.linear import LEAST, linear

#: More than the parts of any number of cores, and numbers that no number of parts or lanes divides.
SIZES = [(192, 576), (576, 192), (50_257, 8), (331, 257), (1, LEAST), (7, 10_007), (2, 200_003)]
#: So many that every number of parts divides them.
OUT = 240
#: Twice the distance from 1 to the next number: once for the sum, once for the bias.
ROUNDING = {torch.float32: 2 * 2.0**-23, torch.bfloat16: 2 * 2.0**-7}


def usual_error(x, weight, bias, *, truth) -> torch.Tensor:
    """The largest error of PyTorch's product, with the same sums in so many orders that it counts.

    The largest of a handful of errors is a chance: of fewer than 250 it is now and then so small
    that PyTorch's own product would be called wrong.
    """
    orders = [torch.randperm(x.shape[-1]) for _ in range(max(4, 256 // truth.numel()))]
    made = [torch.nn.functional.linear(x[..., o], weight[:, o], bias) for o in orders]
    return max((each.double() - truth).abs().max() for each in made)


@pytest.fixture(params=["native", "PyTorch's"])
def maker(request, monkeypatch):
    """Who makes the products."""
    if request.param == "native":
        assert module.function("linear", torch.float32) is not None, "no C compiler?"
    else:
        monkeypatch.setattr(module, "function", lambda *_: None)
    return request.param


@pytest.mark.parametrize(("d_out", "d_in"), SIZES)
@pytest.mark.parametrize("lead", [(), (1,), (1, 1), (0,), (2, 0)])
@pytest.mark.parametrize("bias", [False, True])
def test_it_is_as_accurate_as_pytorchs(d_out, d_in, lead, bias, maker, generator) -> None:
    weight = torch.randn(d_out, d_in, generator=generator, dtype=torch.float64)
    b = torch.randn(d_out, generator=generator, dtype=torch.float64) if bias else None
    x = torch.randn(*lead, d_in, generator=generator, dtype=torch.float64)
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        given = [None if part is None else part.to(dtype) for part in (x, weight, b)]
        made = linear(*given)
        wide = [None if part is None else part.double() for part in given]
        expected = torch.nn.functional.linear(*wide)
        assert made.dtype == dtype
        assert made.shape == (*lead, d_out)
        if dtype is torch.float64:
            torch.testing.assert_close(made, expected, rtol=0, atol=1e-12 * d_in**0.5)
        elif made.numel():
            error = (made.double() - expected).abs().max()
            bound = ROUNDING[dtype] * expected.abs().max()
            assert error <= 1.5 * usual_error(*given, truth=expected) + bound


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("d_out", "d_in"), SIZES)
def test_its_bits_are_the_same_for_any_number_of_threads(
    dtype, d_out, d_in, generator, monkeypatch
) -> None:
    weight = torch.randn(d_out, d_in, generator=generator).to(dtype)
    x = torch.randn(1, d_in, generator=generator).to(dtype)
    made = []
    for threads in (1, 2, 3, 7):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        made.append(linear(x, weight))
    assert all(torch.equal(one, made[0]) for one in made)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_is_broken_in_a_row_of_the_weight_breaks_one_output(dtype, generator) -> None:
    weight = torch.randn(OUT, 300, generator=generator).to(dtype)
    whole = linear(torch.ones(1, 300, dtype=dtype), weight)
    for broken in (torch.nan, torch.inf, -torch.inf):
        weight[17, 299] = broken
        made = linear(torch.ones(1, 300, dtype=dtype), weight)
        torch.testing.assert_close(made[0, 17].item(), broken, equal_nan=True)
        made[0, 17] = whole[0, 17]
        assert torch.equal(made, whole)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_without_native_code_one_row_is_multiplied_in_parts(
    threads, generator, monkeypatch
) -> None:
    taken = []
    real = module._in_parts
    monkeypatch.setattr(module, "function", lambda *_: None)
    monkeypatch.setattr(module, "_in_parts", lambda *given: taken.append(given[2:]) or real(*given))
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(module, "_HAS_MKL", True)
    weight, bias = torch.randn(OUT, 300, generator=generator), torch.zeros(OUT)
    for rows in (1, 2, 64):
        linear(torch.randn(rows, 300, generator=generator), weight)
        linear(torch.randn(rows, 300, generator=generator), weight, bias)
    linear(torch.randn(1, 300, generator=generator), torch.randn(OUT + 1, 300))
    linear(torch.zeros(1, 300).bfloat16(), weight.bfloat16())
    assert taken == [(2 * threads,)] * 2


@pytest.mark.parametrize("kind", ["strided x", "strided weight", "small", "three types"])
def test_what_is_laid_or_rounded_otherwise_is_multiplied_too(kind, generator) -> None:
    weight, x = torch.randn(256, 260, generator=generator), torch.randn(1, 260, generator=generator)
    match kind:
        case "strided x":
            x = torch.randn(260, 2, generator=generator).t()[:1]
        case "strided weight":
            weight = torch.randn(260, 256, generator=generator).t()
        case "small":
            weight = weight[:3]
        case _:
            with torch.autocast("cpu", torch.bfloat16):
                assert linear(x, weight).dtype == torch.bfloat16
    expected = torch.nn.functional.linear(x, weight)
    torch.testing.assert_close(linear(x, weight), expected, rtol=1e-5, atol=2e-3)


def test_a_part_of_a_larger_tensor_is_its_own_weight(generator) -> None:
    large = torch.randn(600, 256, generator=generator)
    x = torch.randn(3, 512, generator=generator)[1:2, 256:]
    weight = large[100:400]
    expected = torch.nn.functional.linear(x.double(), weight.double())
    torch.testing.assert_close(linear(x, weight).double(), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("lead", [(3,), (2, 5), (1, 7), (70,)])
@pytest.mark.parametrize("size", [(OUT, 300), (301, 300), *SIZES])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_several_rows_have_pytorchs_bits(lead, size, bias, dtype, maker, generator) -> None:
    weight = torch.randn(size, generator=generator).to(dtype)
    b = torch.randn(size[0], generator=generator).to(dtype) if bias else None
    x = torch.randn(*lead, size[1], generator=generator).to(dtype)
    assert torch.equal(linear(x, weight, b), torch.nn.functional.linear(x, weight, b))


@pytest.mark.parametrize(
    ("shape", "weight", "bias"),
    [
        ((3, 301), (OUT, 300), None),
        ((299,), (OUT, 300), None),
        ((2, 150), (OUT, 300), None),
        ((1, 300), (OUT, 300), (OUT + 1,)),
        ((1, 300), (OUT, 300), (3,)),
    ],
)
def test_sizes_that_do_not_fit_are_pytorchs_to_refuse(shape, weight, bias) -> None:
    with torch.no_grad(), pytest.raises(RuntimeError):
        linear(torch.zeros(shape), torch.zeros(weight), None if bias is None else torch.zeros(bias))


def test_rows_of_another_dtype_are_pytorchs_to_refuse() -> None:
    with torch.no_grad(), pytest.raises(RuntimeError):
        linear(torch.zeros(1, 300, dtype=torch.float64), torch.zeros(OUT, 300))


def test_it_is_there_on_this_machine() -> None:
    assert library.function("linear", torch.float32) is not None
    assert library.function("linear", torch.float16) is None
