"""``generate`` and ``stream``: continue a prompt, whole or as it comes."""

from collections.abc import Collection, Iterator, Sequence
from typing import final

from jaxtyping import Bool, Int
from torch import Tensor, nn

from clearhead.transformer.generation.asking import Asked, prepare
from clearhead.transformer.generation.generated import Generated
from clearhead.transformer.generation.prompts import Prompt
from clearhead.transformer.generation.settings import Sampling
from clearhead.transformer.generation.writing import Writing

__all__ = ["Stream", "generate", "stream"]


def generate(
    model: nn.Module,
    prompt: Prompt,
    *,
    max_new_tokens: int | None = None,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    stop: str | Sequence[str] = (),
    end_tokens: int | Collection[int] | None = None,
    start_tokens: int | Sequence[int] | None = None,
    attention_mask: Bool[Tensor, "*batch n"] | Int[Tensor, "*batch n"] | None = None,
    tokenizer: object = None,
) -> Generated | list[Generated]:
    """Continue a prompt, token by token: the most probable one, unless a temperature is given.

    A model with an encoder reads the prompt with it, and writes from its own start.

    Args:
        model: a clearhead Transformer that predicts tokens.
        prompt: text; chat messages (mappings with role and content); ids, as a list, (n,) or
            (batch, n); or a list of texts, of chats or of ids, of any lengths.
        max_new_tokens: most new tokens. Left out, it is 256 or what the model still reads.
        temperature: 0 takes the most probable token; T draws one from softmax(logits / T).
        top_k: draw from the k most probable tokens only.
        top_p: then draw from the fewest of them that together are this probable.
        seed: gives the same text again; row r of a batch is drawn as it alone with seed + r.
        stop: strings before which a text ends.
        end_tokens: ids that end a text; None is what the model's files name, () is none.
        start_tokens: ids that the decoder of a model with an encoder begins with; None likewise.
        attention_mask: 1 where one of a padded batch's ids is real.
        tokenizer: for a model that brings none.

    Returns:
        What was written. A list of them for a list of texts or chats, for ids with more than one
        row and wherever an attention mask is given.

    Raises:
        TokenError: nothing to read, or more than the model's context holds.
        InputError: an argument is wrong, or there is not enough memory.
        UnsupportedError: the model predicts no next token, or is not ours.

    Cost: each token is read once, with a cache of the whole text; the prompt in parts of 2,048. A
    text that outgrows ``DynamicScaling`` is read again at every step.

    Source: as for :func:`clearhead.transformer.generation.sampling.probabilities`.
    """
    asked = Asked(
        Sampling(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed),
        max_new_tokens=max_new_tokens,
        stop=stop,
        end_tokens=end_tokens,
        start_tokens=start_tokens,
        attention_mask=attention_mask,
        tokenizer=tokenizer,
    )
    writing, several = prepare(model, prompt, asked)
    made = writing.whole()
    return made if several else made[0]


def stream(
    model: nn.Module,
    prompt: Prompt,
    *,
    max_new_tokens: int | None = None,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    stop: str | Sequence[str] = (),
    end_tokens: int | Collection[int] | None = None,
    start_tokens: int | Sequence[int] | None = None,
    tokenizer: object = None,
) -> "Stream":
    """Continue one prompt and give the text as it comes, in whole characters.

    Args:
        model: as for :func:`generate`, and so are all others. It is taken as it is at the first
            token: hooks and taps are heard at any time, what is put in a part's place later is not.
        prompt: one text, one chat, or the ids of one.
        max_new_tokens: most new tokens.
        temperature: 0 takes the most probable token.
        top_k: draw from the k most probable tokens only.
        top_p: then draw from the fewest of them that together are this probable.
        seed: gives the same text again.
        stop: strings before which the text ends.
        end_tokens: ids that end it.
        start_tokens: ids that the decoder of a model with an encoder begins with.
        tokenizer: for a model that brings none.

    Returns:
        The pieces, to be looped over. Joined, they are the text. The model is asked only when the
        next one is wanted.

    Raises:
        TokenError, InputError, UnsupportedError: as for :func:`generate`, before anything is read;
            also where several prompts are given, or there is no tokenizer to make text with.

    Cost: as for :func:`generate`.
    """
    asked = Asked(
        Sampling(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed),
        max_new_tokens=max_new_tokens,
        stop=stop,
        end_tokens=end_tokens,
        start_tokens=start_tokens,
        tokenizer=tokenizer,
        one_text=True,
    )
    writing, _ = prepare(model, prompt, asked)
    return Stream(writing)


@final
class Stream(Iterator[str]):
    """A text as it comes: a loop over it gives pieces of whole characters.

    Whatever ends the loop, :attr:`generated` is what was written until then.

    Args:
        writing: the text on its way.
    """

    def __init__(self, writing: Writing) -> None:
        self._writing = writing
        self._pieces = (writing.rows[0].fresh for _ in writing.steps())

    def __next__(self) -> str:
        """The next piece, as soon as there is one."""
        for piece in self._pieces:
            if piece:
                return piece
        raise StopIteration

    @property
    def generated(self) -> Generated:
        """What was written so far."""
        return self._writing.generated()[0]
