"""A small model of our own that reads text and chats, and what it is asked."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from clearhead.transformer.model import Transformer

# clearhead is imported where it is needed: this file is read before shape checks are set up

TEMPLATE = (
    "{% for m in messages %}<s>{{ m.role }}\n{{ m.content }}</s>\n{% endfor %}"
    "{{ '<s>assistant\n' }}"
)
PASSAGES = {"one.txt": "he sang of the sea", "two.txt": "he he he", "three": "é😀 and more"}


@pytest.fixture
def reader(seeded_weights) -> "Callable[..., Transformer]":
    """Makes a model by the name of its shape, with a token for every byte."""

    def made(name: str = "Llama", *, template: str | None = TEMPLATE, **different) -> object:
        from dataclasses import replace

        from clearhead.tokens.tokenizer import TextTokenizer
        from tests.tokens.tiny import byte_level
        from tests.tracing.shapes import ALONE, drawn

        sizes = {"vocabulary_size": 261, "context_length": 500}
        model = drawn(replace(ALONE[name], **{**sizes, **different}))
        model.clearhead_name = "tiny"
        model.clearhead_tokenizer = TextTokenizer(
            TextTokenizer.wrap(byte_level())._backend, template=template
        )
        return model

    return made
