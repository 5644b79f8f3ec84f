"""The tokenizer inside a GGUF file, as the files of a Hugging Face folder.

Byte-pair encoding, of bytes or of SentencePiece's pieces. How a text is cut before pairs are merged
is named in the file, not written out; the cuts known here are those of the tokenizers that go by
these names.
"""

import math
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from tokenizers import AddedToken, Tokenizer, decoders, models, processors

from clearhead.errors import CheckpointError
from clearhead.transformer.gguf.cuts import BEGINNING, CUTS
from clearhead.transformer.gguf.header import GgufHeader
from clearhead.transformer.gguf.sentence_pieces import (
    always,
    as_they_are,
    before_words,
    merges_of,
    sentence_pieces,
)

__all__ = ["GgufTokenizer", "read_tokenizer"]

_CONTROL, _USER_DEFINED = 3, 4
# SentencePiece makes pieces of 16; those of spaces alone, and added ones, can be longer
_LONGEST_PIECE = 1000

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


def read_tokenizer(header: GgufHeader) -> GgufTokenizer | None:
    """Build the tokenizer a GGUF file describes.

    Args:
        header: the file's header.

    Returns:
        The tokenizer, or None for a file that says it has none.

    Raises:
        CheckpointError: a kind of tokenizer that is not known here, or lists that make none.
    """
    kind, cut = (header.settings.get(f"tokenizer.ggml.{name}") for name in ("model", "pre"))
    if kind in (None, "none", "no_vocab"):
        return None
    if kind == "gpt2" and isinstance(cut, str) and cut in CUTS:
        tokens = _texts(header, "tokenizer.ggml.tokens")
        tokenizer = _byte_pairs(header, tokens, whole=cut in BEGINNING)
        CUTS[cut](tokenizer)
        tokenizer.decoder = decoders.ByteLevel()
        begins = cut in BEGINNING
    elif kind == "llama" and header.settings.get("general.architecture") in _SPACES:
        tokens = _texts(header, "tokenizer.ggml.tokens")
        tokenizer = _pieces(header, tokens)
        begins = True
    else:
        raise CheckpointError(
            f"{header.file} cannot be read: its tokenizer is of the kind {kind!r:.80} with the "
            f"pre-tokenizer {cut!r:.80}; readable is 'gpt2' with {', '.join(map(repr, CUTS))}, "
            f"and 'llama' in the architectures {', '.join(_SPACES)}"
        )
    _add_marked(header, tokenizer, tokens)
    special_ids = _special_ids(header, len(tokens))
    names = {name: tokens[token_id] for name, token_id in special_ids.items()}
    tokenizer.post_processor = _surroundings(header, names, special_ids, begins=begins)
    config: dict[str, Any] = {
        # Any other class would cut texts its own way instead of as tokenizer.json says.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        **names,
    }
    template = header.settings.get("tokenizer.chat_template")
    if isinstance(template, str):
        config["chat_template"] = template
    return GgufTokenizer(tokenizer, special_ids, config)


# What becomes of spaces in a vocabulary of pieces, by the architecture: the file does not tell.
_SPACES: Mapping[str, Callable[[Tokenizer], None]] = {
    "llama": before_words,
    "phi3": always,
    "gemma2": as_they_are,
    "gemma3": as_they_are,
}


def _texts(header: GgufHeader, name: str) -> list[str]:
    value = header.settings.get(name)
    if not isinstance(value, list) or not all(
        isinstance(entry, str) for entry in cast("list[Any]", value)
    ):
        raise CheckpointError(f"{header.file} cannot be read: expected a list of texts in {name}")
    return cast("list[str]", value)


def _byte_pairs(header: GgufHeader, tokens: list[str], *, whole: bool) -> Tokenizer:
    """The merging of bytes; ``whole`` words that are tokens are not merged from parts."""
    vocabulary = _numbered(header, tokens)
    merges = _merges(header)
    with _refused(header):
        return Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=whole))


def _pieces(header: GgufHeader, tokens: list[str]) -> Tokenizer:
    """The merging of pieces; where the file lists no merges, they follow from its scores."""
    architecture = str(header.settings["general.architecture"])
    spaces = _SPACES[architecture]
    if header.settings.get("tokenizer.ggml.add_space_prefix") is False:
        spaces = as_they_are
    if architecture.startswith("gemma"):
        # Written in spaces there; and merges go by the order of the list, whatever the scores say.
        tokens = ["▁" * len(token) if not token.strip(" ") else token for token in tokens]
        scores = [-float(place) for place in range(len(tokens))]
    else:
        scores = _scores(header, len(tokens))
    _numbered(header, tokens)
    longest = max(map(len, tokens), default=0)
    if longest > _LONGEST_PIECE:
        raise CheckpointError(
            f"{header.file} cannot be read: a token has {longest} letters, "
            f"at most {_LONGEST_PIECE} are readable"
        )
    listed = "tokenizer.ggml.merges" in header.settings
    merges = _merges(header) if listed else merges_of(tokens, scores)
    named = _special_ids(header, len(tokens)).get("unk_token")
    unknown = None if named is None else tokens[named]
    with _refused(header):
        return sentence_pieces(tokens, merges, unknown=unknown, spaces=spaces)


def _numbered(header: GgufHeader, tokens: list[str]) -> dict[str, int]:
    """Ids of the tokens, none of which may stand there twice."""
    vocabulary = {token: token_id for token_id, token in enumerate(tokens)}
    if len(vocabulary) != len(tokens):
        twice = next(token for place, token in enumerate(tokens) if vocabulary[token] != place)
        raise CheckpointError(f"{header.file} cannot be read: the token {twice!r} has two ids")
    return vocabulary


def _merges(header: GgufHeader) -> list[tuple[str, str]]:
    merges = [
        cast("tuple[str, str]", tuple(merge.split(" ")))
        for merge in _texts(header, "tokenizer.ggml.merges")
    ]
    odd = next((merge for merge in merges if len(merge) != 2), None)
    if odd is not None:
        raise CheckpointError(f"{header.file} cannot be read: {odd!r} is no merge of two tokens")
    return merges


def _scores(header: GgufHeader, count: int) -> list[float]:
    scores = header.settings.get("tokenizer.ggml.scores")
    listed = cast("list[object]", scores) if isinstance(scores, list) else []
    if len(listed) != count or not all(map(_is_number, listed)):
        raise CheckpointError(
            f"{header.file} cannot be read: expected {count} numbers in tokenizer.ggml.scores, "
            "one for each token"
        )
    return cast("list[float]", listed)


def _is_number(value: object) -> bool:
    return isinstance(value, float) and not math.isnan(value)


@contextmanager
def _refused(header: GgufHeader) -> Generator[None]:
    """The library refuses merges whose parts are no tokens."""
    try:
        yield
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
    known = tokenizer.get_vocab()
    marked = [
        (token, kind)
        for token, kind in zip(tokens, cast("list[Any]", kinds), strict=True)
        if token in known
    ]
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
    header: GgufHeader, names: Mapping[str, str], ids: Mapping[str, int], *, begins: bool
) -> processors.PostProcessor:
    """The tokens put before and after a text, where the file asks for them."""
    begins = bool(header.settings.get("tokenizer.ggml.add_bos_token", begins))
    before = "bos_token" if begins else None
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
