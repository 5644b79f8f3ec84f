"""A SentencePiece vocabulary of a GGUF file: spaces are written ▁, unknown characters as bytes.

The file lists pieces with scores. Two neighbours are merged where their union is a piece, the best
piece first; so which pairs merge, and in which order, follows from the list.
"""

from collections.abc import Callable, Sequence

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

__all__ = ["always", "as_they_are", "before_words", "merges_of", "sentence_pieces"]

_SPACE = "▁"


def sentence_pieces(
    tokens: Sequence[str],
    merges: Sequence[tuple[str, str]],
    *,
    unknown: str | None,
    spaces: Callable[[Tokenizer], None],
) -> Tokenizer:
    """Make a tokenizer of a vocabulary.

    Args:
        tokens: its tokens, by id.
        merges: which neighbours merge, the first ones first.
        unknown: the token for what cannot be spelled in bytes, if there is one.
        spaces: says what becomes of spaces.

    Returns:
        The tokenizer.
    """
    vocabulary = {token: place for place, token in enumerate(tokens)}
    made = Tokenizer(
        models.BPE(
            vocab=vocabulary,
            merges=list(merges),
            unk_token=unknown,
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    made.decoder = decoders.Sequence(
        [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    spaces(made)
    return made


def merges_of(tokens: Sequence[str], scores: Sequence[float]) -> list[tuple[str, str]]:
    """Which neighbours merge, best first.

    Args:
        tokens: all tokens.
        scores: one each; higher is better.

    Returns:
        Every pair of tokens whose union is one; where scores are equal, the pair with the longer
        left part goes first.

    Cost: time grows with the letters of all tokens.
    """
    place = {token: n for n, token in enumerate(tokens)}
    found = [
        ((score, len(token[:cut]), len(token[cut:])), place[token[:cut]], place[token[cut:]])
        for token, score in zip(tokens, scores, strict=True)
        for cut in range(1, len(token))
        if token[:cut] in place and token[cut:] in place
    ]
    found.sort(key=lambda pair: pair[0], reverse=True)
    return [(tokens[left], tokens[right]) for _, left, right in found]


def before_words(tokenizer: Tokenizer) -> None:
    """Llama: a text that does not begin with a space is given one.

    Args:
        tokenizer: is changed.
    """
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    _strip_first(tokenizer)


def always(tokenizer: Tokenizer) -> None:
    """Phi-3: every text is given a space, also one that begins with a space.

    Args:
        tokenizer: is changed.
    """
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend(_SPACE), normalizers.Replace(" ", _SPACE)]
    )
    _strip_first(tokenizer)


def as_they_are(tokenizer: Tokenizer) -> None:
    """Gemma: spaces are those of the text.

    Args:
        tokenizer: is changed.
    """
    tokenizer.normalizer = normalizers.Replace(" ", _SPACE)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")


def _strip_first(tokenizer: Tokenizer) -> None:
    """Leave out the space that was given."""
    steps = [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)])
