"""Named cuts: texts are cut as transformers cuts them."""

import pytest

from tests.transformer.gguf.tiny_gguf import MERGES
from tests.transformer.gguf.tiny_vocabularies import byte_level, inner, ours, texts, theirs


@pytest.mark.parametrize("cut", ["llama-bpe", "llama3", "llama-v3", "qwen2"])
def test_bytes_are_cut_as_transformers_does(cut: str, seed: int) -> None:
    said = byte_level(cut)
    made, oracle = ours("llama", said), theirs("llama", said)
    for text in texts(seed):
        # its conversion leaves Qwen's normal form out, which the released tokenizer has
        usual = text.replace("e\u0301", "é") if cut == "qwen2" else text
        assert inner(made, text) == inner(oracle, usual), text


def test_a_word_that_is_a_token_is_not_merged_from_parts() -> None:
    said = byte_level("llama-bpe") | {"merges": MERGES}
    assert ours("llama", said).encode("123", add_special_tokens=False).tokens == ["123"]
    assert ours("llama", said | {"pre": "qwen2"}).encode("12").tokens == ["1", "2"]
