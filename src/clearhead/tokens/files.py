"""The tokenizer files of a model folder."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tokenizers import Tokenizer

from clearhead.errors import CheckpointError, TokenError
from clearhead.tokens.chat import default_template

__all__ = ["TokenizerFiles", "copied", "read_files", "special_names"]

_KINDS = ("bos", "eos", "unk", "pad", "sep", "cls", "mask")


@dataclass(frozen=True, slots=True)
class TokenizerFiles:
    """What a model folder says about its tokenizer.

    Args:
        tokenizer: the tokenizer, without the truncation and padding its file may ask for.
        template: the chat template, or None.
        special_tokens: ``bos_token``, ``eos_token`` and so on, as text.
    """

    tokenizer: Tokenizer
    template: str | None
    special_tokens: dict[str, str]


def read_files(folder: Path) -> TokenizerFiles:
    """Read ``tokenizer.json`` and the files that stand beside it.

    Args:
        folder: the model's folder.

    Returns:
        What they hold.

    Raises:
        CheckpointError: a file that is missing or cannot be read.
    """
    file = folder / "tokenizer.json"
    if not file.is_file():
        raise CheckpointError(f"{folder} holds no tokenizer.json")
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as fault:
        raise CheckpointError(f"{file} cannot be read: {fault}") from fault
    tokenizer.no_truncation()
    tokenizer.no_padding()
    config = _read_json(folder / "tokenizer_config.json")
    named = _read_json(folder / "special_tokens_map.json") | config
    return TokenizerFiles(tokenizer, _template(folder, config), special_names(named))


def copied(tokenizer: Tokenizer) -> Tokenizer:
    """The same tokenizer without padding and truncation; the caller's own keeps them.

    Args:
        tokenizer: the caller's.

    Raises:
        TokenError: it cannot be copied.
    """
    try:
        copy = Tokenizer.from_str(tokenizer.to_str())
    except Exception as fault:  # the library raises plain Exception here
        raise TokenError(
            f"tokenizer: its steps cannot be written down ({fault}); expected steps of the "
            "tokenizers library, not ones written in Python"
        ) from fault
    copy.no_truncation()
    copy.no_padding()
    return copy


def special_names(named: Mapping[str, Any]) -> dict[str, str]:
    """Special tokens by name, as text.

    Args:
        named: a configuration that writes one as text or as a mapping with its content.
    """
    found: dict[str, str] = {}
    for name in (f"{kind}_token" for kind in _KINDS):
        content = named.get(name)
        if isinstance(content, Mapping):
            content = cast("Mapping[str, Any]", content).get("content")
        # transformers gives a special token as a text or as an object that reads as its text.
        if content is not None:
            found[name] = str(content)
    return found


def _template(folder: Path, config: Mapping[str, Any]) -> str | None:
    """The chat template: a file of its own goes before the configuration's entry."""
    file = folder / "chat_template.jinja"
    if not file.is_file():
        return default_template(config.get("chat_template"))
    try:
        return file.read_text(encoding="utf-8")
    except ValueError as fault:
        raise CheckpointError(f"{file} cannot be read: {fault}") from fault


def _read_json(file: Path) -> dict[str, Any]:
    """A JSON file's object; an absent file is an empty one."""
    if not file.is_file():
        return {}
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as fault:
        raise CheckpointError(f"{file} cannot be read: {fault}") from fault
    if not isinstance(value, dict):
        raise CheckpointError(f"{file} cannot be read: expected a JSON object")
    return cast("dict[str, Any]", value)
