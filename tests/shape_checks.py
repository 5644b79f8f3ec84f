"""How shapes are checked while the tests run: after a call, and only if clearhead did not object.

A test of an error gives a function what its signature forbids, and must meet clearhead's own
message rather than a checker's. So arguments are judged together with the result, once the body has
returned: whoever accepts what its signature forbids is caught, and whoever refuses it is heard.

Only what names a shape is judged here; every other type is pyright's to judge. A function that
names none is left as it is: some libraries count the parameters of what they are given.
"""

import re
from collections.abc import Callable
from typing import Any, TypeVar, get_args

import jaxtyping
from beartype import BeartypeConf, beartype
from jaxtyping import AbstractArray

__all__ = ["check_shapes_of", "checked"]

_Made = TypeVar("_Made", bound=Callable[..., object])

# An int is welcome where a float is: that is what Python's typing says, and not beartype's default.
_beartype = beartype(conf=BeartypeConf(is_pep484_tower=True))


def check_shapes_of(package: str) -> None:
    """Check the shapes in a package's signatures from here on; it must not be imported yet."""
    original = jaxtyping.jaxtyped

    def sparing(*, typechecker: object) -> Callable[[Any], Any]:
        def decorate(made: Any) -> Any:
            hints = getattr(made, "__annotations__", {}).values()
            bare = callable(made) and not isinstance(made, type)
            spared = bare and not any(map(_names_a_shape, hints))
            return made if spared else original(made, typechecker=typechecker)

        return decorate

    jaxtyping.install_import_hook(package, f"{__name__}.checked")
    jaxtyping.jaxtyped = sparing


def checked(function: _Made) -> _Made:
    """Check one of the two functions that jaxtyping makes for each of ours.

    One has the parameters alone and is called before the body: it is left unchecked. The other
    takes the result as well, under a name such as ``ret0``, and is called after the body.
    """
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if not names or not re.fullmatch(r"ret\d+", names[-1]):
        return function
    hints = {name: h if _names_a_shape(h) else Any for name, h in function.__annotations__.items()}
    if all(hint is Any for hint in hints.values()):
        return function
    function.__annotations__ = hints
    return _beartype(function)


def _names_a_shape(hint: object) -> bool:
    if isinstance(hint, str):  # an annotation that waits for a name
        return "Tensor," in hint
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        return True
    return any(_names_a_shape(part) for part in get_args(hint))
