"""A configuration in clearhead's own spelling: every field of a TransformerConfig, as JSON.

For models that no released family can describe. The names are those of the fields, a value that is
one of several kinds says which under ``type``, and what is left out has its default, so that files
stay readable when a field is added.
"""

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from clearhead.errors import InputError
from clearhead.transformer.config import TransformerConfig
from clearhead.transformer.families.family import Family, Stored
from clearhead.transformer.families.keys import ConfigKeys
from clearhead.transformer.families.layout import Alone

__all__ = ["OWN", "own_keys"]

_GROUP = "transformer"
# An encoder with a pattern of kinds with rotary positions with a scaling: deeper goes no config.
_DEEPEST = 6
_WORDS: Mapping[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    NoneType: "null",
}


def own_keys(config: TransformerConfig) -> dict[str, Any]:
    """The keys of a ``config.json`` that hold a configuration in our own spelling.

    Args:
        config: the configuration.
    """
    return {"model_type": "clearhead", _GROUP: _written(config)}


def _written(value: object) -> object:
    if isinstance(value, tuple):
        return [_written(one) for one in cast("tuple[object, ...]", value)]
    if not is_dataclass(value) or isinstance(value, type):
        return value
    told = {one.name: _written(getattr(value, one.name)) for one in fields(value)}
    return {"type": type(value).__name__, **told}


def _fields(keys: ConfigKeys) -> dict[str, Any]:
    """The fields that the file tells; its faults are noted."""
    group = keys.value(_GROUP)
    if not isinstance(group, Mapping):
        keys.refuse(_GROUP, f"must be a group of keys, got {group!r:.80}")
        return {}
    reader = _Reader()
    read = reader.fields(TransformerConfig, cast("Mapping[str, object]", group), _GROUP)
    keys.faults += reader.faults
    return read


class _Reader:
    """Reads values by their declared types, and notes every fault with its place."""

    def __init__(self) -> None:
        self.faults: list[str] = []

    def fields(self, made: type, told: Mapping[str, object], place: str) -> dict[str, Any]:
        """What is told of the fields of a class."""
        if told.get("type") != made.__name__:
            self._fault(place, f"a {made.__name__}", told.get("type"))
        known = _declared(made)
        for name in sorted(told.keys() - known.keys() - {"type"}):
            self.faults.append(f"{place}.{name} is not known here, got {told[name]!r:.80}")
        for name, (_, needed) in known.items():
            if needed and name not in told:
                self.faults.append(f"{place}.{name} is missing")
        return {
            name: self.value(known[name][0], value, f"{place}.{name}")
            for name, value in told.items()
            if name in known
        }

    def value(self, hint: Any, value: object, place: str) -> Any:
        """A value of a declared type; whatever stands there, where it is of none."""
        options = _options(hint)
        if isinstance(value, Mapping):
            told = cast("Mapping[str, object]", value)
            made = next((one for one in options if _name(one) == told.get("type")), None)
            if made is not None and place.count(".") < _DEEPEST:
                return self._made(made, told, place)
        elif isinstance(value, list):
            inner = next((get_args(one)[0] for one in options if get_origin(one) is tuple), None)
            if inner is not None:
                listed = enumerate(cast("list[object]", value))
                return tuple(self.value(inner, one, f"{place}[{n}]") for n, one in listed)
        elif any(_is(one, value) for one in options):
            return value
        self._fault(place, " or ".join(map(_name, options)), cast("object", value))
        return None

    def _made(self, made: type, told: Mapping[str, object], place: str) -> Any:
        before = len(self.faults)
        read = self.fields(made, told, place)
        if len(self.faults) > before:
            return None
        try:
            return made(**read)
        except InputError as fault:
            self.faults.append(f"{place}: {' '.join(str(fault).split())}")
            return None

    def _fault(self, place: str, expected: str, got: object) -> None:
        self.faults.append(f"{place} must be {expected}, got {got!r:.80}")


@cache
def _declared(made: type) -> dict[str, tuple[Any, bool]]:
    """Type of each field of a class, and whether it has to be told."""
    hints = get_type_hints(made)
    listed = cast("Iterable[Field[Any]]", fields(cast("Any", made)))
    return {one.name: (hints[one.name], one.default is MISSING) for one in listed}


def _options(hint: Any) -> list[Any]:
    """The types that a declared type allows, one by one."""
    if get_origin(hint) in (Union, UnionType):
        return [option for one in get_args(hint) for option in _options(one)]
    return [hint]


def _is(option: Any, value: object) -> bool:
    """Whether a plain value is of a plain type; a whole number is a number too."""
    if get_origin(option) is Literal:
        return value in get_args(option)
    if option is float:
        return type(value) in (int, float)
    return option in (int, str, bool, NoneType) and type(value) is option


def _name(option: Any) -> str:
    if get_origin(option) is Literal:
        return " or ".join(map(repr, get_args(option)))
    return "a list" if get_origin(option) is tuple else _WORDS.get(option, option.__name__)


class _Own(Family):
    """Our own names stand for themselves."""

    def stored(self, parameters: Iterable[str], *, gated: bool) -> list[Stored]:
        """Each parameter under its own name."""
        del gated
        return [Stored(name, (name,), Alone(name)) for name in parameters]


#: Not among the released families: its files are written by clearhead alone.
OWN = _Own(model_type="clearhead", architectures={"Transformer": {}}, fields=_fields, modules={})
