"""One tokenizer type for text, ids, chat messages and the bytes behind each token."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast, final

from tokenizers import Tokenizer

from clearhead.errors import TokenError
from clearhead.tokens.backend import Backend, FileBackend, HostBackend
from clearhead.tokens.chat import ChatTemplate, default_template
from clearhead.tokens.files import copied, read_files, special_names
from clearhead.tokens.pieces import Piece, pieces
from clearhead.tokens.placing import PlacedText, placed_text
from clearhead.tokens.written import Written, written

__all__ = ["TextTokenizer"]


@final
class TextTokenizer:
    """Text to token ids and back, and the exact bytes each token stands for.

    Made by `from_folder` out of a ``tokenizer.json``, or by `wrap` out of a tokenizer in memory.

    Args:
        backend: what encodes and decodes.
        template: the chat template, or None for a model that was not taught to chat.
        special_tokens: ``bos_token``, ``eos_token`` and so on, as text.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        template: str | None = None,
        special_tokens: Mapping[str, str] | None = None,
    ) -> None:
        self._backend = backend
        self._special_tokens = dict(special_tokens or {})
        self._template = ChatTemplate(template, self._special_tokens) if template else None

    @classmethod
    def from_folder(cls, folder: str | Path) -> "TextTokenizer":
        """Read the tokenizer of a model folder.

        The truncation and padding that a ``tokenizer.json`` may ask for are left out: a text is
        given whole, or not at all.

        Args:
            folder: holds ``tokenizer.json`` and, where there are any, ``tokenizer_config.json``,
                ``special_tokens_map.json`` and ``chat_template.jinja``.

        Returns:
            The tokenizer.

        Raises:
            CheckpointError: a file that is missing or cannot be read.
        """
        files = read_files(Path(folder))
        return cls(
            FileBackend(files.tokenizer),
            template=files.template,
            special_tokens=files.special_tokens,
        )

    @classmethod
    def wrap(cls, tokenizer: object) -> "TextTokenizer":
        """Take a tokenizer that is in memory: ours, a ``tokenizers.Tokenizer`` or transformers'.

        Args:
            tokenizer: the tokenizer; it is not changed. Padding and truncation of a
                ``tokenizers.Tokenizer`` are left out.

        Returns:
            The tokenizer.

        Raises:
            TokenError: an object of another kind.
        """
        if isinstance(tokenizer, cls):
            return tokenizer
        if isinstance(tokenizer, Tokenizer):
            return cls(FileBackend(copied(tokenizer)))
        host = cast(Any, tokenizer)
        if not hasattr(host, "convert_ids_to_tokens"):
            raise TokenError(
                "tokenizer: expected a TextTokenizer, a tokenizers.Tokenizer or a "
                f"transformers tokenizer, got {type(tokenizer).__name__}"
            )
        inner = getattr(host, "backend_tokenizer", None)
        backend = FileBackend(inner, host) if isinstance(inner, Tokenizer) else HostBackend(host)
        return cls(
            backend,
            template=default_template(getattr(host, "chat_template", None)),
            special_tokens=special_names(host.special_tokens_map),
        )

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Token ids of a text.

        Args:
            text: the text; it may be empty.
            special: put the tokens around it that the model expects, such as one that begins it.

        Returns:
            The ids.

        Raises:
            TokenError: a text that is no valid Unicode.
        """
        _check_unicode(text)
        return self._backend.encode(text, special=special)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids, special tokens included.

        Args:
            ids: the ids.

        Raises:
            TokenError: ids that stand for no token.
        """
        unknown = sorted({token_id for token_id in ids if self._spelled(token_id) is None})
        if unknown:
            raise TokenError(self._no_such(unknown))
        return self._backend.decode(list(ids))

    def chat(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """Token ids of chat messages, as the chat template writes them, ready for an answer.

        A tokenizer that begins every text with a token begins a chat with it too, once, whether the
        template writes it or not.

        Args:
            messages: one mapping a message, each with ``role`` and ``content``.

        Returns:
            The ids.

        Raises:
            TokenError: no chat template, messages of a wrong form, or a template that refuses them.
        """
        if self._template is None:
            raise TokenError("this model has no chat template: give it text instead of messages")
        ids = self.encode(self._template.render(messages), special=False)
        first = self._first
        if first is None:
            return ids
        own = next((place for place, token_id in enumerate(ids) if token_id != first), len(ids))
        return [first] * (own > 0 or self._begins_texts) + ids[own:]

    def written(self, messages: Sequence[Mapping[str, Any]]) -> Written:
        """Chat messages as the chat template writes them, and where what each says stands.

        Args:
            messages: one mapping a message, each with ``role`` and ``content``, which is text.

        Raises:
            TokenError: as for :meth:`chat`, or the template changes what a message says.
        """
        if self._template is None:
            raise TokenError("this model has no chat template: give it text instead of messages")
        return written(self._template, messages)

    def placed(self, text: str, *, contents: Sequence[range] = ()) -> PlacedText:
        """Token ids of a text with the characters each stands for, begun as every text is, once.

        Args:
            text: the text, with control tokens by name.
            contents: the parts of it in which such a name is plain text.

        Raises:
            TokenError: the tokenizer does not say where its tokens stand, or no valid Unicode.
        """
        _check_unicode(text)
        first, once = self._first, self._begins_texts
        return placed_text(self._backend, text, contents=contents, begins=first, once=once)

    def token_bytes(self, token_id: int) -> bytes:
        """The exact bytes of text that a token stands for; a special token stands for its own name.

        Args:
            token_id: the token's id.

        Raises:
            TokenError: an id that stands for no token.
        """
        token = self._spelled(token_id)
        if token is None:
            raise TokenError(self._no_such([token_id]))
        return self._backend.token_bytes(token_id, token)

    def pieces(self, ids: Sequence[int]) -> list[Piece]:
        """Tokens as a person reads them: whole characters, marks of word pieces, special names.

        Args:
            ids: the ids, in the order of the text. One that stands for no token (a model's table
                may have more rows than its tokenizer has tokens) shows as its number, ``<50300>``.

        Returns:
            One piece an id.
        """
        spelled = [self._spelled(token_id) for token_id in ids]
        shown = [
            f"<{token_id}>".encode() if token is None else self._shown(token_id, token)
            for token_id, token in zip(ids, spelled, strict=True)
        ]
        special = {
            place
            for place, token_id in enumerate(ids)
            if spelled[place] is None or self._backend.is_special(token_id)
        }
        return pieces(shown, special=special)

    def special_id(self, name: str) -> int | None:
        """The id of a token by what it is for, or None where the tokenizer names none.

        Args:
            name: such as ``bos_token`` or ``eos_token``.
        """
        token = self._special_tokens.get(name)
        return None if token is None else self._backend.token_id(token)

    def save(self, folder: str | Path) -> None:
        """Write the files that `from_folder` and transformers read.

        Args:
            folder: a folder that is there.
        """
        config: dict[str, Any] = {
            # any other class would cut texts its own way instead of as tokenizer.json says
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": False,
            **self._special_tokens,
        }
        if self._template is not None:
            config["chat_template"] = self._template.source
        self._backend.save(Path(folder), config)

    @property
    def vocabulary_size(self) -> int:
        """How many tokens there are, added ones included."""
        return self._backend.size()

    @property
    def chats(self) -> bool:
        """True when there is a chat template."""
        return self._template is not None

    def __repr__(self) -> str:
        return f"TextTokenizer({self.vocabulary_size} tokens)"

    @cached_property
    def _first(self) -> int | None:
        """The id of the token that begins a text, where the tokenizer names one."""
        return self.special_id("bos_token")

    @cached_property
    def _begins_texts(self) -> bool:
        """True when every encoded text begins with that token."""
        return self._backend.encode("a", special=True)[:1] == [self._first]

    def _spelled(self, token_id: int) -> str | None:
        # The library counts ids without a sign and overflows on others.
        return self._backend.spelled(token_id) if 0 <= token_id < 2**32 else None

    def _shown(self, token_id: int, token: str) -> bytes:
        """A token's bytes with the mark of word continuation left on."""
        mark = self._backend.continues()
        if mark and token.startswith(mark):
            return token.encode()
        return self._backend.token_bytes(token_id, token)

    def _no_such(self, unknown: Sequence[int]) -> str:
        listed = ", ".join(str(token_id) for token_id in unknown[:10])
        return (
            f"ids: no token has the id {listed} (the vocabulary has {self.vocabulary_size} tokens)"
        )


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as fault:
        code = f"U+{ord(text[fault.start]):04X}"
        raise TokenError(
            f"text: expected valid Unicode, got the lone surrogate {code} at character "
            f"{fault.start}; was it read from bytes that are no UTF-8?"
        ) from fault
