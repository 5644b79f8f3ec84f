"""Small tokenizers of each spelling, made here so that no file has to be fetched."""

import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

ALPHABET = pre_tokenizers.ByteLevel.alphabet()


def byte_level(*, begins: bool = False) -> Tokenizer:
    """Every byte, a few merges, two special tokens; with `begins` every text starts with <s>."""
    vocabulary = ["<s>", "</s>", *sorted(ALPHABET), "he", "Ġhe", "ðŁ"]
    tokenizer = Tokenizer(
        models.BPE(
            vocab={token: place for place, token in enumerate(vocabulary)},
            merges=[("h", "e"), ("Ġ", "he"), ("ð", "Ł")],
        )
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>", "</s>"])
    if begins:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 0)]
        )
    return tokenizer


def sentence_piece() -> Tokenizer:
    """Spaces as ▁, unknown characters as bytes, and one added token of two spaces."""
    tokens = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "b", "▁a"]
    tokenizer = Tokenizer(
        models.BPE(
            vocab={token: place for place, token in enumerate(tokens)},
            merges=[("▁", "a")],
            unk_token="<unk>",
            byte_fallback=True,
        )
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.add_special_tokens(["<unk>"])
    tokenizer.add_tokens([AddedToken("▁▁", normalized=True, special=False)])
    return tokenizer


def word_piece() -> Tokenizer:
    """Words of a lower-case vocabulary, cut with ##."""
    tokens = ["[UNK]", "[CLS]", "[SEP]", "walk", "##ing", "##s"]
    vocabulary = {token: place for place, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(["[UNK]", "[CLS]", "[SEP]"])
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return tokenizer


def saved(folder: Path, tokenizer: Tokenizer | None = None, **config: object) -> Path:
    """Put a tokenizer and its configuration into a folder."""
    (tokenizer or byte_level()).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder
