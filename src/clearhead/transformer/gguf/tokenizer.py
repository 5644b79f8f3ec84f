"""The tokenizer inside a GGUF file, as the files of a Hugging Face folder.

Byte-level byte-pair encoding only. How a text is cut before pairs are merged is named in the file,
not written out; the cuts known here are those of the tokenizers that go by these names.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

from clearhead.errors import CheckpointError
from clearhead.transformer.gguf.header import GgufHeader

__all__ = ["GgufTokenizer", "read_tokenizer"]

_CONTROL, _USER_DEFINED = 3, 4

_IDS = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
}


@dataclass(frozen=True, slots=True)
class GgufTokenizer:
    """A tokenizer and what is said about it.

    Args:
        tokenizer: the tokenizer.
        special_ids: ids of the tokens named ``bos_token``, ``eos_token`` and so on.
        config: what its ``tokenizer_config.json`` holds.
    """

    tokenizer: Tokenizer
    special_ids: dict[str, int]
    config: dict[str, Any]


def read_tokenizer(header: GgufHeader) -> GgufTokenizer:
    """Build the tokenizer a GGUF file describes.

    Args:
        header: the file's header.

    Returns:
        The tokenizer.

    Raises:
        CheckpointError: a kind of tokenizer that is not known here, or lists that make none.
    """
    settings = header.settings
    kind, cut = settings.get("tokenizer.ggml.model"), settings.get("tokenizer.ggml.pre")
    if kind != "gpt2" or not isinstance(cut, str) or cut not in _CUTS:
        raise CheckpointError(
            f"{header.file} cannot be read: its tokenizer is of the kind {kind!r} with the "
            f"pre-tokenizer {cut!r}; readable is 'gpt2' with {', '.join(map(repr, _CUTS))}"
        )
    tokens = _texts(header, "tokenizer.ggml.tokens")
    tokenizer = _byte_pairs(header, tokens)
    tokenizer.pre_tokenizer = _CUTS[cut]()
    tokenizer.decoder = decoders.ByteLevel()
    _add_marked(header, tokenizer, tokens)
    special_ids = _special_ids(header, len(tokens))
    names = {name: tokens[token_id] for name, token_id in special_ids.items()}
    tokenizer.post_processor = _surroundings(header, names, special_ids)
    config: dict[str, Any] = {
        # Any other class would cut texts its own way instead of as tokenizer.json says.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        **names,
    }
    template = settings.get("tokenizer.chat_template")
    if isinstance(template, str):
        config["chat_template"] = template
    return GgufTokenizer(tokenizer, special_ids, config)


def _smollm() -> pre_tokenizers.PreTokenizer:
    """Each digit alone, then GPT-2's words."""
    words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), words])


def _gpt2() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.ByteLevel(add_prefix_space=False)


_CUTS: Mapping[str, Callable[[], pre_tokenizers.PreTokenizer]] = {
    "smollm": _smollm,
    "gpt-2": _gpt2,
}


def _texts(header: GgufHeader, name: str) -> list[str]:
    value = header.settings.get(name)
    if not isinstance(value, list) or not all(
        isinstance(entry, str) for entry in cast("list[Any]", value)
    ):
        raise CheckpointError(f"{header.file} cannot be read: expected a list of texts in {name}")
    return cast("list[str]", value)


def _byte_pairs(header: GgufHeader, tokens: list[str]) -> Tokenizer:
    """The merging itself; the library refuses merges whose parts are no tokens."""
    vocabulary = {token: token_id for token_id, token in enumerate(tokens)}
    if len(vocabulary) != len(tokens):
        twice = next(token for place, token in enumerate(tokens) if vocabulary[token] != place)
        raise CheckpointError(f"{header.file} cannot be read: the token {twice!r} has two ids")
    merges = [
        cast("tuple[str, str]", tuple(merge.split(" ")))
        for merge in _texts(header, "tokenizer.ggml.merges")
    ]
    odd = next((merge for merge in merges if len(merge) != 2), None)
    if odd is not None:
        raise CheckpointError(f"{header.file} cannot be read: {odd!r} is no merge of two tokens")
    try:
        return Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    except Exception as fault:
        raise CheckpointError(f"{header.file} cannot be read: its merges: {fault}") from fault


def _add_marked(header: GgufHeader, tokenizer: Tokenizer, tokens: list[str]) -> None:
    """Keep whole in any text what the file marks as control or as added by a user."""
    kinds = header.settings.get("tokenizer.ggml.token_type", [0] * len(tokens))
    if not isinstance(kinds, list) or len(cast("list[Any]", kinds)) != len(tokens):
        raise CheckpointError(
            f"{header.file} cannot be read: expected {len(tokens)} entries in "
            "tokenizer.ggml.token_type, one for each token"
        )
    marked = list(zip(tokens, cast("list[Any]", kinds), strict=True))
    library = cast("Any", tokenizer)  # its two methods are typed in part
    library.add_special_tokens([_whole(token) for token, kind in marked if kind == _CONTROL])
    library.add_tokens([_whole(token) for token, kind in marked if kind == _USER_DEFINED])


def _whole(token: str) -> AddedToken:
    """A token that is matched in the text as it stands, before anything is cut."""
    return AddedToken(token, normalized=False)


def _special_ids(header: GgufHeader, count: int) -> dict[str, int]:
    """Ids of the named tokens, each of which has to be one of the tokens."""
    found: dict[str, int] = {}
    for name, setting in _IDS.items():
        token_id = header.settings.get(f"tokenizer.ggml.{setting}")
        if token_id is None:
            continue
        if type(token_id) is not int or not 0 <= token_id < count:
            raise CheckpointError(
                f"{header.file} cannot be read: tokenizer.ggml.{setting} is {token_id!r}, "
                f"but there are {count} tokens"
            )
        found[name] = token_id
    return found


def _surroundings(
    header: GgufHeader, names: Mapping[str, str], ids: Mapping[str, int]
) -> processors.PostProcessor:
    """The tokens put before and after a text, where the file asks for them."""
    before = "bos_token" if header.settings.get("tokenizer.ggml.add_bos_token") else None
    after = "eos_token" if header.settings.get("tokenizer.ggml.add_eos_token") else None
    used = [name for name in (before, after) if name]
    unnamed = [name for name in used if name not in names]
    if unnamed:
        raise CheckpointError(f"{header.file} cannot be read: it asks for a {unnamed[0]} it lacks")
    if not used:
        return processors.ByteLevel(trim_offsets=False)
    return processors.TemplateProcessing(
        single=[*([names[before]] if before else []), "$A", *([names[after]] if after else [])],
        special_tokens=[(names[name], ids[name]) for name in dict.fromkeys(used)],
    )
