"""What a family of released models has to say about itself."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from clearhead.transformer.families.keys import ConfigKeys

__all__ = ["Family"]

_NUMBER = re.compile(r"\.(\d+)\.")


@dataclass(frozen=True)
class Family:
    """A family's two tables: its config keys and its tensor names.

    Attributes:
        model_type: what the family's ``config.json`` calls itself.
        fields: reads the config keys into the fields of a ``TransformerConfig``.
        modules: module path in the family's checkpoints by ours; ``{layer}`` is a number.
        harmless: config keys of this family that change no logit.
    """

    model_type: str
    fields: Callable[[ConfigKeys], dict[str, Any]]
    modules: Mapping[str, str]
    harmless: frozenset[str] = frozenset()

    def tensor_name(self, parameter: str) -> str:
        """Name under which the family's checkpoints keep one of our parameters.

        Args:
            parameter: our name, such as ``layers.3.attention.to_query.weight``.

        Returns:
            Theirs, such as ``model.layers.3.self_attn.q_proj.weight``.
        """
        module, _, leaf = parameter.rpartition(".")
        number = _NUMBER.search(module)
        theirs = self.modules[_NUMBER.sub(".{layer}.", module, count=1)]
        return f"{theirs.format(layer=number[1] if number else '')}.{leaf}"
