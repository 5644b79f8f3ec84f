"""Every architecture of GGUF files that can be read."""

from collections.abc import Mapping

from clearhead.errors import CheckpointError
from clearhead.transformer.gguf.architecture import Architecture
from clearhead.transformer.gguf.gemma import GEMMA2, GEMMA3
from clearhead.transformer.gguf.gpt2 import GPT2
from clearhead.transformer.gguf.header import GgufHeader
from clearhead.transformer.gguf.llama import LLAMA, QWEN2, QWEN3
from clearhead.transformer.gguf.phi3 import PHI3

__all__ = ["ARCHITECTURES", "architecture_of"]

#: Every architecture that can be read, by what files call it.
ARCHITECTURES: Mapping[str, Architecture] = {
    one.name: one for one in (LLAMA, QWEN2, QWEN3, GEMMA2, GEMMA3, PHI3, GPT2)
}


def architecture_of(header: GgufHeader) -> Architecture:
    """Find the architecture of a file's model.

    Args:
        header: the file's header.

    Raises:
        CheckpointError: it cannot be read.
    """
    name = header.settings.get("general.architecture")
    if not isinstance(name, str) or name not in ARCHITECTURES:
        raise CheckpointError(
            f"{header.file} cannot be read: it holds a model of the architecture {name!r:.80}; "
            f"readable are {', '.join(ARCHITECTURES)}"
        )
    return ARCHITECTURES[name]
