"""Masks as values: who may look at whom, by absolute position, never formed as n×m."""

from clearhead.masks.algebra import And, Full, Not, Or, full_mask
from clearhead.masks.library import Causal, causal_mask
from clearhead.masks.mask import Mask, MaskPredicate
from clearhead.masks.node import Node, Verdict
from clearhead.masks.stored import Padding, padding_mask

__all__ = [
    "And",
    "Causal",
    "Full",
    "Mask",
    "MaskPredicate",
    "Node",
    "Not",
    "Or",
    "Padding",
    "Verdict",
    "causal_mask",
    "full_mask",
    "padding_mask",
]
