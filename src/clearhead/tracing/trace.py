"""``trace``: run a model once and keep what its attention did."""

from collections.abc import Collection

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from clearhead.errors import InputError
from clearhead.pipeline.devices import present_device
from clearhead.tokens.tokenizer import TextTokenizer
from clearhead.tracing.batches import Order
from clearhead.tracing.continuing import HeldText, held_tokens
from clearhead.tracing.encoder_decoder import EncoderDecoderTrace
from clearhead.tracing.inputs import Inputs, are_texts, read_ids, real_tokens
from clearhead.tracing.models import traceable
from clearhead.tracing.running import run_across, run_alone
from clearhead.tracing.targets import read_targets, stacked
from clearhead.tracing.traced import Trace

__all__ = ["trace"]


def trace(
    model: nn.Module,
    inputs: Inputs,
    *,
    target: Inputs | None = None,
    attention_mask: Bool[Tensor, "*batch n"] | Int[Tensor, "*batch n"] | None = None,
    layers: Collection[int] | slice | None = None,
    queries: slice | Collection[int] | None = None,
    cache: HeldText | None = None,
    keep: Collection[str] = (),
    device: torch.device | str | None = None,
    tokenizer: object = None,
) -> Trace | EncoderDecoderTrace | list[Trace] | list[EncoderDecoderTrace]:
    """Run a model once and keep Q, K, V and L of its attention layers.

    The model's logits keep their bits. Whatever is n×m is made from what is kept, when asked.

    Args:
        model: a clearhead Transformer or a transformers model.
        inputs: text; ids, as a list, (n,) or (batch, n); chat messages (mappings with role and
            content, through the chat template, begun once); or a list of texts. An encoder-decoder
            reads it as its source.
        target: what an encoder-decoder's decoder reads: a text, put after what it begins with; ids,
            that included; or a list, one for each source. None is what it begins with alone.
        attention_mask: 1 where a token is real: the ids are then a padded batch.
        layers: layers to keep; None is all. Of an encoder-decoder, by their number in each stack.
        queries: tokens of each sequence whose Q and L are kept, as a slice or indices; None is all.
            K and V are kept whole, so an answer's rows cost what the KV cache costs. Of an
            encoder-decoder, tokens of the target; its encoder is kept whole.
        cache: a KVCache that holds the text's first tokens (this is not checked), which are not
            read again and whose rows are not kept; the others are added to it.
        keep: further quantities to keep: ``"attention_input"``, ``"context"``, ``"output"``.
        device: where the trace lies; None is where the model computes.
        tokenizer: for a model that brings none.

    Returns:
        One Trace, or of an encoder-decoder one EncoderDecoderTrace, without padding; a list of them
        for a list of texts, ids with more than one row and wherever an attention mask is given.

    Raises:
        TokenError: nothing to read, or more than the model's context holds.
        InputError: ids, target, mask, layers, queries, cache, keep or device do not fit.
        TraceError: the model cannot be traced, or a layer that was expected was not seen.

    Cost: one run over the tokens that ``cache`` does not hold, and Q, K, V and L: linear in n.
    """
    adapter, computes_on = traceable(model), next(model.parameters()).device
    order = Order(
        adapter=adapter,
        words=_words(adapter.tokenizer if tokenizer is None else tokenizer),
        layers=layers,
        queries=queries,
        keep=keep,
        computes_on=computes_on,
        lies_on=computes_on if device is None else present_device(device),
    )
    batches = _batches(inputs, order.words, attention_mask)
    found = _run(order, batches, target, model=model, cache=cache)
    several = are_texts(inputs) or attention_mask is not None or len(found) > 1
    return found if several else found[0]


_Batches = list[tuple[Int[Tensor, "batch n"], Bool[Tensor, "batch n"] | None]]


def _batches(inputs: Inputs, words: TextTokenizer | None, mask: Tensor | None) -> _Batches:
    """Ids, and which are real: each text alone, and rows of ids together."""
    if not are_texts(inputs):
        ids = read_ids(inputs, words)
        return [(ids, real_tokens(ids, mask))]
    if mask is not None:
        raise InputError("attention_mask belongs to token ids: texts are not padded here")
    return [(read_ids(text, words), None) for text in inputs]


def _run(
    order: Order,
    batches: _Batches,
    target: Inputs | None,
    *,
    model: nn.Module,
    cache: HeldText | None,
) -> list[Trace] | list[EncoderDecoderTrace]:
    """Trace every batch, and set what comes of them in one row."""
    if cache is not None:
        return _continued(order, batches, target, model=model, cache=cache)
    pair = order.adapter.encoder_decoder
    if pair is None:
        if target is not None:
            raise InputError(
                f"target: {order.adapter.name} has no decoder that looks at another text; give all "
                "it is to read as one"
            )
        return [made for ids, real in batches for made in run_alone(order, ids, real)]
    count = sum(len(ids) for ids, _ in batches)
    targets = read_targets(target, order.words, start=pair.start_tokens, count=count)
    found: list[EncoderDecoderTrace] = []
    for ids, real in batches:
        own = stacked(targets[len(found) :][: len(ids)])
        found += run_across(order, ids, real, target=own)
    return found


def _continued(
    order: Order, batches: _Batches, target: Inputs | None, *, model: nn.Module, cache: HeldText
) -> list[Trace]:
    """Trace what follows the tokens that a cache holds."""
    beside = {
        "an encoder-decoder": order.adapter.encoder_decoder is not None,
        "target=": target is not None,
        "attention_mask=": batches[0][1] is not None,
        "a list of texts": len(batches) > 1,
    }
    refused = [what for what, given in beside.items() if given]
    if refused:
        raise InputError(f"cache: one text is traced from a cache, without {' and '.join(refused)}")
    ids, _ = batches[0]
    held = held_tokens(cache, model=model, ids=ids)
    return run_alone(order, ids, None, cache=cache, held=held)


def _words(tokenizer: object) -> TextTokenizer | None:
    if tokenizer is None or isinstance(tokenizer, TextTokenizer):
        return tokenizer
    return TextTokenizer.wrap(tokenizer)
