"""The two kinds of tokenizer behind TextTokenizer, with one face."""

import json
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol, final, runtime_checkable

from tokenizers import Tokenizer

from clearhead.tokens.spelling import spelling_of

__all__ = ["Backend", "FileBackend", "HostBackend"]


@runtime_checkable
class Backend(Protocol):
    """What TextTokenizer needs of a tokenizer."""

    def encode(self, text: str, *, special: bool) -> list[int]:
        """Token ids of a text, with or without the tokens a model expects around it."""
        ...

    def placed(self, text: str, *, plain: bool) -> list[tuple[int, int, int]] | None:
        """Each token with its first character and its last plus one; None where that is not known.

        No tokens are put around the text. With ``plain`` the name of a control token is plain text.
        """
        ...

    def decode(self, ids: list[int]) -> str:
        """Text of token ids, special tokens included."""
        ...

    def spelled(self, token_id: int) -> str | None:
        """The token as the vocabulary writes it, or None for an id that stands for none."""
        ...

    def token_bytes(self, token_id: int, token: str) -> bytes:
        """Bytes of text the token stands for."""
        ...

    def is_special(self, token_id: int) -> bool:
        """True for a control token."""
        ...

    def continues(self) -> str:
        """The mark of a piece that continues a word, or ""."""
        ...

    def size(self) -> int:
        """How many tokens there are."""
        ...

    def save(self, folder: Path, config: dict[str, Any]) -> None:
        """Write the files of a tokenizer, with what is said about it."""
        ...

    def token_id(self, token: str) -> int | None:
        """The id of a token, or None."""
        ...


@final
class FileBackend:
    """A tokenizer as ``tokenizer.json`` describes it.

    Args:
        tokenizer: the tokenizer.
        host: the object to encode and decode with instead, where a transformers tokenizer wraps it.
    """

    def __init__(self, tokenizer: Tokenizer, host: Any = None) -> None:
        self._tokenizer = tokenizer
        self._host = host
        self._spelling = spelling_of(tokenizer)
        self._added = tokenizer.get_added_tokens_decoder()

    def encode(self, text: str, *, special: bool) -> list[int]:
        """Token ids, by the host's own way where there is one."""
        if self._host is not None:
            return list(self._host.encode(text, add_special_tokens=special, verbose=False))
        return list(self._tokenizer.encode(text, add_special_tokens=special).ids)

    def placed(self, text: str, *, plain: bool) -> list[tuple[int, int, int]]:
        """Each token with its characters, by the host's own way where there is one."""
        if self._host is not None:
            told = self._host(
                text,
                add_special_tokens=False,
                return_offsets_mapping=True,
                split_special_tokens=plain,
                verbose=False,
            )
            both = zip(told["input_ids"], told["offset_mapping"], strict=True)
            return [(token_id, start, stop) for token_id, (start, stop) in both]
        before = self._tokenizer.encode_special_tokens
        self._tokenizer.encode_special_tokens = plain
        try:
            found = self._tokenizer.encode(text, add_special_tokens=False)
        finally:
            self._tokenizer.encode_special_tokens = before
        return [(one, *span) for one, span in zip(found.ids, found.offsets, strict=True)]

    def decode(self, ids: list[int]) -> str:
        """Text, by the host's own way where there is one."""
        if self._host is not None:
            return str(self._host.decode(ids))
        return self._tokenizer.decode(ids, skip_special_tokens=False)

    def spelled(self, token_id: int) -> str | None:
        """The vocabulary's spelling."""
        return self._tokenizer.id_to_token(token_id)

    def token_bytes(self, token_id: int, token: str) -> bytes:
        """Bytes by the vocabulary's spelling; an added token stands for its own text."""
        added = self._added.get(token_id)
        # One matched after normalization is spelled as that spells it: "▁▁" is two spaces.
        if added is None or (added.normalized and not added.special and self._spelling.space):
            return self._spelling.to_bytes(token)
        return token.encode()

    def is_special(self, token_id: int) -> bool:
        """True for a token that was added as special."""
        added = self._added.get(token_id)
        return added is not None and added.special

    def continues(self) -> str:
        """Word piece's mark; a byte-pair vocabulary has none to show."""
        return self._spelling.continues

    def size(self) -> int:
        """Tokens of the model and added ones."""
        return self._tokenizer.get_vocab_size(with_added_tokens=True)

    def save(self, folder: Path, config: dict[str, Any]) -> None:
        """The host's own files where there is one, else ``tokenizer.json`` and what is said."""
        if self._host is not None:
            self._host.save_pretrained(folder)
            return
        self._tokenizer.save(str(folder / "tokenizer.json"))
        text = json.dumps(config, indent=2, ensure_ascii=False)
        (folder / "tokenizer_config.json").write_text(text + "\n", encoding="utf-8")

    def token_id(self, token: str) -> int | None:
        """The id of a token, or None."""
        return self._tokenizer.token_to_id(token)


@final
class HostBackend:
    """A transformers tokenizer written in Python, with no ``tokenizer.json`` behind it.

    Args:
        host: the tokenizer.
    """

    def __init__(self, host: Any) -> None:
        self._host = host
        self._special = frozenset[int](host.all_special_ids)

    def encode(self, text: str, *, special: bool) -> list[int]:
        """Token ids."""
        return list(self._host.encode(text, add_special_tokens=special))

    def placed(self, text: str, *, plain: bool) -> list[tuple[int, int, int]] | None:
        """Each token with its characters, counted in bytes; None where those are not the text's."""
        ids = self._host.encode(text, add_special_tokens=False, split_special_tokens=plain)
        spelled = ((one, self.spelled(one) or "") for one in ids)
        parts = [self.token_bytes(one, token) for one, token in spelled]
        if b"".join(parts) != text.encode():
            return None
        owner = [place for place, letter in enumerate(text) for _ in letter.encode()]
        ends = list(accumulate(map(len, parts)))
        return [
            (one, owner[end - len(part)] if part else end, owner[end - 1] + 1 if part else end)
            for one, part, end in zip(ids, parts, ends, strict=True)
        ]

    def decode(self, ids: list[int]) -> str:
        """Text."""
        return str(self._host.decode(ids))

    def spelled(self, token_id: int) -> str | None:
        """The vocabulary's spelling, or None past its end."""
        known = 0 <= token_id < self.size()
        return self._host.convert_ids_to_tokens(token_id) if known else None

    def token_bytes(self, token_id: int, token: str) -> bytes:
        """Bytes of the text the tokenizer makes of this one token alone."""
        if token_id in self._special:
            return token.encode()
        text = str(self._host.convert_tokens_to_string([token]))
        if text and "\ufffd" not in text:
            return text.encode()
        # A vocabulary of single bytes writes each as the character of that number.
        return token.encode("latin-1") if len(token) == 1 and ord(token) < 256 else token.encode()

    def is_special(self, token_id: int) -> bool:
        """True for a control token."""
        return token_id in self._special

    def continues(self) -> str:
        """None to show."""
        return ""

    def size(self) -> int:
        """How many tokens there are."""
        return len(self._host)

    def save(self, folder: Path, config: dict[str, Any]) -> None:
        """The host's own files, which say it all."""
        del config
        self._host.save_pretrained(folder)

    def token_id(self, token: str) -> int | None:
        """The id of a token, or None."""
        found = self._host.convert_tokens_to_ids(token)
        return found if isinstance(found, int) else None
