"""SentencePiece vocabularies: texts are cut as transformers cuts them."""

from pathlib import Path
from typing import Any

import pytest

from clearhead.errors import CheckpointError
from clearhead.transformer.gguf.header import GgufHeader
from clearhead.transformer.gguf.sentence_pieces import merges_of
from clearhead.transformer.gguf.tokenizer import read_tokenizer
from tests.transformer.gguf.tiny_vocabularies import (
    PIECES,
    byte_level,
    inner,
    ours,
    sentence_piece,
    texts,
    theirs,
)


@pytest.mark.parametrize("architecture", ["llama", "phi3", "gemma2", "gemma3"])
def test_pieces_are_cut_as_transformers_does(architecture: str, seed: int) -> None:
    said = sentence_piece(seed)
    if architecture.startswith("gemma"):
        said["tokens"] = [piece.replace("▁▁", "  ") for piece in PIECES]
    made, oracle = ours(architecture, said), theirs(architecture, said)
    for text in texts(seed):
        assert inner(made, text) == inner(oracle, text), text
        ids = inner(made, text)
        assert made.decode(ids, skip_special_tokens=False) == oracle.decode(
            ids, skip_special_tokens=False
        )


@pytest.mark.parametrize(
    ("architecture", "said", "begins"),
    [
        ("llama", sentence_piece(0), True),
        ("llama", sentence_piece(0, add_bos_token=False), False),
        ("llama", byte_level("llama-bpe"), True),
        ("qwen2", byte_level("qwen2"), False),
    ],
)
def test_which_texts_begin_with_a_token(
    architecture: str, said: dict[str, Any], begins: bool
) -> None:
    first = said["bos_token_id"]
    assert (ours(architecture, said).encode("he").ids[0] == first) == begins


def test_a_space_is_given_only_where_the_file_wants_one() -> None:
    assert ours("llama", sentence_piece(0)).encode("a").tokens[1:] == ["▁a"]
    without = sentence_piece(0, add_space_prefix=False)
    assert ours("llama", without).encode("a").tokens[1:] == ["a"]


def test_merges_follow_from_scores() -> None:
    tokens, scores = ["a", "b", "ab", "ba", "aba"], [0.0, 0.0, -1.0, -0.5, -2.0]
    expected = [("b", "a"), ("a", "b"), ("ab", "a"), ("a", "ba")]
    assert merges_of(tokens, scores) == expected
    listed = sentence_piece(0, merges=["h e"])
    assert ours("llama", listed).encode("hello", add_special_tokens=False).tokens == [
        "▁",
        "he",
        "l",
        "l",
        "o",
    ]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"scores": None},
            f"expected {len(PIECES)} numbers in tokenizer.ggml.scores, one for each token",
        ),
        (
            {"scores": [float("nan")] * len(PIECES)},
            f"expected {len(PIECES)} numbers in tokenizer.ggml.scores, one for each token",
        ),
        (
            {"tokens": ["a" * 1001], "scores": [0.0], "token_type": [1]},
            "a token has 1001 letters, at most 1000 are readable",
        ),
        ({"tokens": ["a", "a"], "scores": [0.0] * 2}, "the token 'a' has two ids"),
        (
            {"merges": ["h zz"]},
            "its merges: Error while initializing BPE: Token `zz` out of vocabulary",
        ),
    ],
)
def test_what_makes_no_tokenizer_is_named(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        ours("llama", sentence_piece(0, **changed))
    assert str(caught.value) == f"x.gguf cannot be read: {said}"


def test_a_file_without_a_tokenizer_has_none() -> None:
    for kind in (None, "none", "no_vocab"):
        named = {"tokenizer.ggml.model": kind}
        assert read_tokenizer(GgufHeader(Path("x.gguf"), named, {})) is None
