"""A small model that reads text and chats."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from clearhead.transformer.model import Transformer


@pytest.fixture
def reader(seeded_weights) -> "Callable[..., Transformer]":
    """Makes a model by the name of its shape; its weights are this test's own."""
    # here and not above: this file is read before shape checks are set up
    from tests.report.documents.readers import reader

    return reader
