"""What a family of released models has to say about itself."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from clearhead.transformer.families.keys import ConfigKeys
from clearhead.transformer.families.layout import Alone, Layout

__all__ = ["Family", "Stored"]

_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)|^\d+(?=\.)")


@dataclass(frozen=True, slots=True)
class Stored:
    """One tensor of a checkpoint.

    Attributes:
        theirs: its name there.
        ours: names of our parameters that it holds, in order.
        layout: how it holds them.
    """

    theirs: str
    ours: tuple[str, ...]
    layout: Layout


@dataclass(frozen=True, kw_only=True)
class Family:
    """A family's tables: its classes, its config keys and its tensor names.

    Attributes:
        model_type: what the family's ``config.json`` calls itself.
        architectures: what each of its classes fixes, as fields of a ``TransformerConfig``; the
            first is meant where a file names none.
        fields: reads the config keys into the fields of a ``TransformerConfig``.
        modules: our module, or the layout of several, by the module in the family's checkpoints;
            ``{layer}`` is a number.
        plain_modules: instead of ``modules`` where the feed-forward part is not gated; None is the
            same.
        prefix: begins all names but a head's; checkpoints without a head may leave it out.
        twins: names that a checkpoint may hold too, by the name they must equal.
        ignored: tensors that change nothing here, as a pattern for the whole name.
        harmless: config keys of this family that change no logit.
    """

    model_type: str
    architectures: Mapping[str, Mapping[str, Any]]
    fields: Callable[[ConfigKeys], dict[str, Any]]
    modules: Mapping[str, str | Layout]
    plain_modules: Mapping[str, str | Layout] | None = None
    prefix: str = ""
    twins: Mapping[str, str] = field(default_factory=dict[str, str])
    ignored: str = r"(?!)"
    harmless: frozenset[str] = frozenset()

    def stored(self, parameters: Iterable[str], *, gated: bool) -> list[Stored]:
        """Where the family's checkpoints keep our parameters.

        Args:
            parameters: our names, such as ``layers.3.attention.to_query.weight``.
            gated: whether the model's feed-forward part is.

        Returns:
            The tensors of a checkpoint that hold them, under names such as
            ``model.layers.3.self_attn.q_proj.weight``.

        Raises:
            KeyError: the family has no tensor for a parameter.
        """
        places = {
            module: (theirs, place, layout)
            for theirs, layout in self._layouts(gated=gated)
            for place, module in enumerate(layout.ours)
        }
        found: dict[str, tuple[Layout, dict[int, str]]] = {}
        for name in parameters:
            number = _NUMBER.search(name)
            path = _NUMBER.sub("{layer}", name, count=1)
            module, _, leaf = path.rpartition(".")
            theirs, place, layout = places[path] if path in places else places[module]
            if path not in places:
                theirs = f"{theirs}.{leaf}"
            theirs = theirs.replace("{layer}", number[0] if number else "")
            found.setdefault(theirs, (layout, {}))[1][place] = name
        return [
            Stored(theirs, tuple(names[place] for place in sorted(names)), layout)
            for theirs, (layout, names) in found.items()
        ]

    def _layouts(self, *, gated: bool) -> Iterable[tuple[str, Layout]]:
        plain = self.plain_modules
        modules = self.modules if gated or plain is None else plain
        for theirs, ours in modules.items():
            yield theirs, Alone(ours) if isinstance(ours, str) else ours
