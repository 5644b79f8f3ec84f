"""Small vocabularies as GGUF files have them, and tokenizers that ours and transformers make."""

import random
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers.integrations.gguf import convert_gguf_tokenizer

from clearhead.transformer.gguf.header import GgufHeader
from clearhead.transformer.gguf.tokenizer import read_tokenizer
from tests.transformer.gguf.tiny_gguf import MERGES, TOKENS

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
LETTERS = [*"▁abcdehlort,.!1234567890\n"]
WORDS = ["▁a", "he", "▁he", "hel", "lo", "▁hello", "ed", "or", "▁to", "12", "▁▁", "▁▁▁▁", "red"]
PIECES = ["<unk>", "<s>", "</s>", *BYTES, *LETTERS, *WORDS, "<user>"]
KINDS = [2, 3, 3, *[6] * 256, *[1] * len(LETTERS + WORDS), 4]


def sentence_piece(seed: int, **changed: Any) -> dict[str, Any]:
    """Settings of a vocabulary of pieces with random scores; None leaves one out."""
    chance = random.Random(seed)
    scores = [0.0] * 259 + [-chance.random() * 100 for _ in LETTERS + WORDS] + [0.0]
    said = {"model": "llama", "tokens": PIECES, "scores": scores, "token_type": KINDS}
    ids = {"bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0}
    return said | ids | changed


def byte_level(cut: str) -> dict[str, Any]:
    added = ["12", "123", "Ġ1", "th", "Ġth"]
    merges = [*MERGES, "1 2", "12 3", "Ġ 1", "t h", "Ġ th"]
    kinds = [3, 3, *[1] * 258, 4, *[1] * len(added)]
    said = {"model": "gpt2", "pre": cut, "tokens": TOKENS + added, "merges": merges}
    return said | {"token_type": kinds, "bos_token_id": 0, "eos_token_id": 1}


def ours(architecture: str, said: dict[str, Any]) -> Tokenizer:
    named = {f"tokenizer.ggml.{name}": value for name, value in said.items() if value is not None}
    read = read_tokenizer(
        GgufHeader(Path("x.gguf"), named | {"general.architecture": architecture}, {})
    )
    assert read is not None
    return read.tokenizer


def theirs(architecture: str, said: dict[str, Any]) -> Tokenizer:
    renamed = {"model": "tokenizer_type", "pre": "pre_tokenizer_type"}
    told = {renamed.get(name, name): value for name, value in said.items()}
    return convert_gguf_tokenizer(architecture, told)[0]


def texts(seed: int) -> list[str]:
    chance = random.Random(seed)
    parts = ["hello", " ", "  ", "    ", "red", "a", "12", "3456", "\n", "to", "ordered", "<user>"]
    parts += [
        "é",
        "e\u0301",
        "😀",
        "日",
        "'ll",
        "'S",
        "the",
        "they",
        "!",
        ",.",
        "\r\n\n",
        "<s>",
        "\t",
    ]
    return ["".join(chance.choices(parts, k=chance.randrange(1, 12))) for _ in range(400)]


def inner(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False).ids
