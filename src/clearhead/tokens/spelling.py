"""What a vocabulary's spelling of a token stands for, in bytes of text.

Four spellings are in use. A byte-level vocabulary writes each byte as one visible character. A
sentence-piece vocabulary writes a space as ``▁`` and may write a lone byte as ``<0xE2>``. A
word-piece vocabulary marks a piece that continues a word (``##ing``). Some byte-pair vocabularies
mark the end of a word (``ing</w>``).
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from tokenizers import Tokenizer

__all__ = ["Spelling", "spelling_of"]

_SPACE = "\u2581"
_LONE_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@dataclass(frozen=True, slots=True)
class Spelling:
    """How a vocabulary writes the bytes of its tokens.

    Args:
        byte_level: every character stands for one byte.
        space: the character that stands for a space, or None.
        lone_bytes: ``<0xE2>`` stands for the byte 0xE2.
        continues: the mark of a piece that continues a word, or "".
        ends: the mark of a piece that ends a word, or "".
    """

    byte_level: bool = False
    space: str | None = None
    lone_bytes: bool = False
    continues: str = ""
    ends: str = ""

    def to_bytes(self, token: str) -> bytes:
        """Bytes of text that a token of the vocabulary stands for.

        Args:
            token: the token as the vocabulary writes it.

        Returns:
            Its bytes; a mark of word continuation stands for none, a mark of word end for a space.
        """
        if self.byte_level:
            return b"".join(_byte(character) for character in token)
        lone = _LONE_BYTE.fullmatch(token) if self.lone_bytes else None
        if lone:
            return bytes.fromhex(lone[1])
        if self.space:
            token = token.replace(self.space, " ")
        if self.ends and token.endswith(self.ends):
            token = token.removesuffix(self.ends) + " "
        return token.removeprefix(self.continues).encode()


def spelling_of(tokenizer: Tokenizer) -> Spelling:
    """Find out how a tokenizer's vocabulary is spelled, from the steps that decode it.

    Args:
        tokenizer: the tokenizer; its vocabulary is not read.

    Returns:
        The spelling.
    """
    steps = [
        *_steps(tokenizer.decoder),
        *_steps(tokenizer.pre_tokenizer),
        *_steps(tokenizer.normalizer),
    ]
    kinds = {step.get("type") for step in steps}
    model: object = tokenizer.model  # BPE, WordPiece, Unigram or WordLevel, each with its own marks
    return Spelling(
        byte_level="ByteLevel" in kinds,
        space=_space(steps),
        lone_bytes="ByteFallback" in kinds or bool(getattr(model, "byte_fallback", False)),
        continues=getattr(model, "continuing_subword_prefix", None) or "",
        ends=getattr(model, "end_of_word_suffix", None) or "",
    )


def _steps(component: object) -> Iterator[Mapping[str, Any]]:
    """A component's steps as plain values, however deep its sequences nest."""
    if component is None:
        return
    # The state is the same JSON that tokenizer.json holds for this component.
    state = json.loads(cast(Any, component).__getstate__())
    pending = [state]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            step = cast("dict[str, Any]", value)
            yield step
            pending.extend(step.values())
        elif isinstance(value, list):
            pending.extend(cast("list[Any]", value))


def _space(steps: list[Mapping[str, Any]]) -> str | None:
    """The character that stands for a space: Metaspace's, or one that is replaced with a space."""
    for step in steps:
        if step.get("type") == "Metaspace":
            return str(step.get("replacement", _SPACE))
        pattern: Any = step.get("pattern")
        if (
            step.get("type") == "Replace"
            and pattern == {"String": _SPACE}
            and step.get("content") == " "
        ):
            return _SPACE
    return None


@lru_cache(maxsize=1)
def _alphabet() -> Mapping[str, int]:
    """Byte-level alphabet (Radford et al. 2019): the byte each character stands for.

    Visible Latin-1 characters stand for themselves, the other 68 bytes for U+0100 and up, in order.
    """
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = sorted(set(range(256)) - set(visible))
    spelled = {chr(byte): byte for byte in visible}
    return spelled | {chr(0x100 + place): byte for place, byte in enumerate(hidden)}


def _byte(character: str) -> bytes:
    """One character of a byte-level token; one outside the alphabet was added as plain text."""
    byte = _alphabet().get(character)
    return character.encode() if byte is None else bytes([byte])
