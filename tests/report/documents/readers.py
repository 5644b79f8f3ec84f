"""A small model of our own that reads text, byte by byte, and chats."""

from dataclasses import replace

from clearhead.tokens.tokenizer import TextTokenizer
from clearhead.transformer.model import Transformer
from tests.tokens.tiny import byte_level
from tests.tracing.shapes import ALONE, drawn

__all__ = ["PASSAGES", "TEMPLATE", "reader"]

TEMPLATE = (
    "{% for m in messages %}<s>{{ m.role }}\n{{ m.content }}</s>\n{% endfor %}"
    "{{ '<s>assistant\n' }}"
)
PASSAGES = {"one.txt": "he sang of the sea", "two.txt": "he he he", "three": "é😀 and more"}


def reader(
    name: str = "Llama", *, template: str | None = TEMPLATE, **different: object
) -> Transformer:
    """A model by the name of its shape; draw inside ``seeded_weights``."""
    sizes = {"vocabulary_size": 261, "context_length": 500}
    model = drawn(replace(ALONE[name], **{**sizes, **different}))
    model.clearhead_name = "tiny"
    model.clearhead_tokenizer = TextTokenizer(
        TextTokenizer.wrap(byte_level())._backend, template=template
    )
    return model
