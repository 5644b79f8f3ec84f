"""How released models name their settings and tensors: one readable table a family.

A family's file says two things: which of its config keys becomes which of our fields, and under
which name its checkpoints keep each of our modules.
"""

from collections.abc import Mapping

from clearhead.transformer.families.family import Family
from clearhead.transformer.families.llama import LLAMA

__all__ = ["FAMILIES"]

#: Every family this Transformer reads, by its ``model_type``.
FAMILIES: Mapping[str, Family] = {family.model_type: family for family in (LLAMA,)}
