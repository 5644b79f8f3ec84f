"""How texts are cut before pairs of bytes are merged, by the names that GGUF files have for it."""

from collections.abc import Callable, Mapping

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

__all__ = ["BEGINNING", "CUTS"]


def _smollm(tokenizer: Tokenizer) -> None:
    """Each digit alone, then GPT-2's words."""
    words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    digits = pre_tokenizers.Digits(individual_digits=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, words])


def _gpt2(tokenizer: Tokenizer) -> None:
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)


def _words(tokenizer: Tokenizer, digits: str) -> None:
    """Words with what stands before them, so many digits at a time, signs, line ends, spaces."""
    cut = pre_tokenizers.Split(
        Regex(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
            + digits
            + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        ),
        "isolated",
    )
    letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([cut, letters])


def _llama3(tokenizer: Tokenizer) -> None:
    _words(tokenizer, r"\p{N}{1,3}")


def _qwen2(tokenizer: Tokenizer) -> None:
    tokenizer.normalizer = normalizers.NFC()
    _words(tokenizer, r"\p{N}")


#: How texts are cut, by the name of the pre-tokenizer.
CUTS: Mapping[str, Callable[[Tokenizer], None]] = {
    "smollm": _smollm,
    "gpt-2": _gpt2,
    "llama-bpe": _llama3,
    "llama3": _llama3,
    "llama-v3": _llama3,
    "qwen2": _qwen2,
}
#: Those whose texts begin with a token where nothing is said, and whose words are whole where they
#: are tokens.
BEGINNING = ("llama-bpe", "llama3", "llama-v3")
