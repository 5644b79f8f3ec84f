"""Folders that the tests of our Transformer load."""

import pytest

from tests.transformer.tiny_llama import make


@pytest.fixture
def plain_folder(seeded_weights, tmp_path):
    """A grouped-heads Llama without anything special."""
    make().save_pretrained(tmp_path)
    return tmp_path
