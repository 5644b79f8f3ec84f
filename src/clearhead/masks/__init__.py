"""Masks as values: who may look at whom, by absolute position, never formed as n×m.

``mask.py`` is what people hold, ``node.py`` what a kind of mask writes, ``algebra.py`` joins them,
``library.py`` names them. ``arithmetic.py`` and ``stored.py`` are the named kinds, ``tensor.py``
and ``flex.py`` those from elsewhere, ``selection.py`` a mask seen at chosen positions.
"""

from clearhead.masks.algebra import And, Full, Not, Or
from clearhead.masks.arithmetic import Causal, Chunked, PrefixLM, SlidingWindow
from clearhead.masks.flex import MaskMod
from clearhead.masks.library import (
    causal_mask,
    chunked_mask,
    document_mask,
    full_mask,
    padding_mask,
    prefix_lm_mask,
    sliding_window_mask,
)
from clearhead.masks.mask import Mask
from clearhead.masks.node import MaskPredicate, Verdict
from clearhead.masks.selection import Selected
from clearhead.masks.stored import Document, Padding
from clearhead.masks.tensor import TensorMask

__all__ = [
    "And",
    "Causal",
    "Chunked",
    "Document",
    "Full",
    "Mask",
    "MaskMod",
    "MaskPredicate",
    "Not",
    "Or",
    "Padding",
    "PrefixLM",
    "Selected",
    "SlidingWindow",
    "TensorMask",
    "Verdict",
    "causal_mask",
    "chunked_mask",
    "document_mask",
    "full_mask",
    "padding_mask",
    "prefix_lm_mask",
    "sliding_window_mask",
]
