"""A small model that reads text, and the ids that the tests look at."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from transformers import PreTrainedModel

    from clearhead.transformer.config import TransformerConfig
    from clearhead.transformer.model import Transformer

# clearhead is imported where it is needed: this file is read before shape checks are set up

TEMPLATE = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"


@pytest.fixture
def ids(generator) -> "torch.Tensor":
    """One row of eleven tokens."""
    import torch

    return torch.randint(3, 99, (1, 11), generator=generator)


@pytest.fixture
def draw(seeded_weights) -> "Callable[[TransformerConfig], Transformer]":
    """Makes a model of our own; its weights are this test's own."""
    from tests.tracing.shapes import drawn

    return drawn


@pytest.fixture
def text_model(seeded_weights) -> "PreTrainedModel":
    """A small Llama with a token for every byte, that begins every text with <s> and chats."""
    from clearhead.tokens.tokenizer import TextTokenizer
    from tests.tokens.tiny import byte_level
    from tests.tracing.families import DECODERS, made

    model = made(DECODERS["llama"], vocab_size=300)
    model.clearhead_tokenizer = TextTokenizer(
        TextTokenizer.wrap(byte_level(begins=True))._backend,
        template=TEMPLATE,
        special_tokens={"bos_token": "<s>"},
    )
    return model
