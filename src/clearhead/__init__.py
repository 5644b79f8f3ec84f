"""clearhead: self-attention and the Transformer around it, as a glass house.

Importing this package imports nothing heavy: a public name is fetched from its home when it is
first used, so that a question which needs no tensors is answered at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.errors import (
        CheckpointError,
        ClearheadError,
        DownloadError,
        InputError,
        MaskError,
        NotKeptError,
        OutOfRangeError,
        ShapeError,
        TokenError,
        TraceError,
        UnknownModelError,
        UnsupportedError,
    )
    from clearhead.masks.algebra import Mask
    from clearhead.masks.library import (
        causal_mask,
        chunked_mask,
        document_mask,
        full_mask,
        padding_mask,
        prefix_lm_mask,
        sliding_window_mask,
    )
    from clearhead.pipeline.attention import attention
    from clearhead.pipeline.matrix import AttentionMatrix
    from clearhead.pipeline.result import AttentionResult
    from clearhead.pipeline.rule import ScoreRule
    from clearhead.positions.absolute import LearnedPositions, SinusoidalPositions
    from clearhead.positions.bias import AlibiBias, T5RelativeBias
    from clearhead.positions.kinds import Alibi, Learned, Rotary, Sinusoidal, T5Buckets
    from clearhead.positions.rotary import RotaryEmbedding
    from clearhead.report.look import look
    from clearhead.tracing.huggingface import register_attention
    from clearhead.tracing.trace import trace
    from clearhead.tracing.traced import Trace
    from clearhead.transformer.attention import MultiHeadAttention
    from clearhead.transformer.cache import KVCache
    from clearhead.transformer.checkpoint import from_pretrained
    from clearhead.transformer.config import LayerKind, TransformerConfig
    from clearhead.transformer.generation.generate import generate, stream
    from clearhead.transformer.generation.generated import Generated
    from clearhead.transformer.model import Transformer

__version__ = "0.1.0"

__all__ = [
    # attention
    "attention",
    "AttentionResult",
    "AttentionMatrix",
    "ScoreRule",
    "register_attention",
    # masks
    "Mask",
    "causal_mask",
    "chunked_mask",
    "document_mask",
    "full_mask",
    "padding_mask",
    "prefix_lm_mask",
    "sliding_window_mask",
    # models
    "from_pretrained",
    "Transformer",
    "TransformerConfig",
    "LayerKind",
    "MultiHeadAttention",
    "KVCache",
    # generating
    "generate",
    "Generated",
    "stream",
    # positions: the parts, and what a configuration calls them
    "LearnedPositions",
    "SinusoidalPositions",
    "RotaryEmbedding",
    "AlibiBias",
    "T5RelativeBias",
    "Learned",
    "Sinusoidal",
    "Rotary",
    "Alibi",
    "T5Buckets",
    # looking
    "trace",
    "Trace",
    "look",
    # errors
    "ClearheadError",
    "CheckpointError",
    "DownloadError",
    "InputError",
    "MaskError",
    "NotKeptError",
    "OutOfRangeError",
    "ShapeError",
    "TokenError",
    "TraceError",
    "UnknownModelError",
    "UnsupportedError",
]

_NAMES_OF_MODULE = {
    "clearhead.errors": [name for name in __all__ if name.endswith("Error")],
    "clearhead.masks.mask": ["Mask"],
    "clearhead.masks.library": [name for name in __all__ if name.endswith("_mask")],
    "clearhead.pipeline.attention": ["attention"],
    "clearhead.pipeline.matrix": ["AttentionMatrix"],
    "clearhead.pipeline.result": ["AttentionResult"],
    "clearhead.pipeline.rule": ["ScoreRule"],
    "clearhead.positions.absolute": ["LearnedPositions", "SinusoidalPositions"],
    "clearhead.positions.bias": ["AlibiBias", "T5RelativeBias"],
    "clearhead.positions.kinds": ["Alibi", "Learned", "Rotary", "Sinusoidal", "T5Buckets"],
    "clearhead.positions.rotary": ["RotaryEmbedding"],
    "clearhead.report.look": ["look"],
    "clearhead.tracing.huggingface": ["register_attention"],
    "clearhead.tracing.trace": ["trace"],
    "clearhead.tracing.traced": ["Trace"],
    "clearhead.transformer.checkpoint": ["from_pretrained"],
    "clearhead.transformer.attention": ["MultiHeadAttention"],
    "clearhead.transformer.cache": ["KVCache"],
    "clearhead.transformer.config": ["LayerKind", "TransformerConfig"],
    "clearhead.transformer.generation.generate": ["generate", "stream"],
    "clearhead.transformer.generation.generated": ["Generated"],
    "clearhead.transformer.model": ["Transformer"],
}
_HOME = {name: module for module, names in _NAMES_OF_MODULE.items() for name in names}


def __getattr__(name: str) -> object:
    """Fetch a public name from its home, once."""
    if name not in _HOME:
        raise AttributeError(f"module 'clearhead' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, fetched or not."""
    return sorted({*globals(), *__all__})
