"""The session with shape checks sees what it should, and lets clearhead speak first."""

import pytest
import torch
from jaxtyping import Float, TypeCheckError, jaxtyped
from torch import Tensor

from clearhead.errors import ShapeError
from tests.shape_checks import checked


@jaxtyped(typechecker=checked)
def scores(
    query: Float[Tensor, "n d_k"], key: Float[Tensor, "m d_k"], *, scale: float = 1.0
) -> Float[Tensor, "n m"]:
    """A function as ours are: it refuses some of what its signature forbids."""
    if query.ndim > 2:
        raise ShapeError("query: expected 2 axes")
    return (query[:, : key.shape[1]] @ key.mT * scale).squeeze(0)


@jaxtyped(typechecker=checked)
def named(x: Float[Tensor, "n"] | None, scale: float) -> str:
    """A function with a shape that may be missing, and with another type."""
    return f"{0 if x is None else len(x)} {scale}"


def test_a_shape_inside_another_type_is_seen() -> None:
    assert named(None, 1.0) == "0 1.0"
    with pytest.raises(TypeCheckError, match="named"):
        named(torch.ones(3, 4), 1.0)


def test_what_fits_passes() -> None:
    assert scores(torch.ones(3, 4), torch.ones(5, 4)).shape == (3, 5)


@pytest.mark.parametrize("scale", [2, 2.0, "no float at all"], ids=repr)
def test_other_types_are_left_to_pyright(scale: object) -> None:
    assert named(torch.ones(3), scale) == f"3 {scale}"


def test_arguments_that_do_not_fit_together_are_seen() -> None:
    with pytest.raises(TypeCheckError, match="scores"):
        scores(torch.ones(3, 6), torch.ones(5, 4))


def test_a_wrong_dtype_is_seen() -> None:
    with pytest.raises(TypeCheckError, match="scores"):
        scores(torch.ones(3, 4, dtype=torch.int64), torch.ones(5, 4, dtype=torch.int64))


def test_a_result_of_the_wrong_shape_is_seen() -> None:
    with pytest.raises(TypeCheckError, match="scores"):
        scores(torch.ones(1, 4), torch.ones(5, 4))


def test_an_error_of_ours_comes_first() -> None:
    with pytest.raises(ShapeError, match=r"^query: expected 2 axes$"):
        scores(torch.ones(1, 3, 4), torch.ones(5, 4))
