"""Text, token ids, and the exact bytes each token stands for."""

from clearhead.tokens.pieces import Piece, pieces
from clearhead.tokens.tokenizer import TextTokenizer

__all__ = ["Piece", "TextTokenizer", "pieces"]
