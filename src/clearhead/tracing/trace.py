"""``trace``: run a model once and keep what its attention did."""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from clearhead.errors import InputError, TokenError, TraceError, gathered
from clearhead.masks.places import numbers
from clearhead.pipeline.devices import present_device
from clearhead.pipeline.tap import Site, tapping
from clearhead.tokens.pieces import Piece
from clearhead.tokens.tokenizer import TextTokenizer
from clearhead.tracing.choosing import chosen_layers, chosen_queries, wanted
from clearhead.tracing.inputs import Inputs, are_texts, read_ids, real_tokens
from clearhead.tracing.layer_trace import LayerTrace, value_norms
from clearhead.tracing.models import TraceableModel, traceable
from clearhead.tracing.recorder import KEEPABLE, Recorder, SequencePart
from clearhead.tracing.traced import Trace

__all__ = ["trace"]


def trace(
    model: nn.Module,
    inputs: Inputs,
    *,
    attention_mask: Bool[Tensor, "*batch n"] | Int[Tensor, "*batch n"] | None = None,
    layers: Collection[int] | slice | None = None,
    queries: slice | Collection[int] | None = None,
    keep: Collection[str] = (),
    device: torch.device | str | None = None,
    tokenizer: object = None,
) -> Trace | list[Trace]:
    """Run a model once and keep Q, K, V and L of its attention layers.

    The model computes what it computes without a trace: its logits keep their bits. Whatever is n×m
    is made from what is kept, when asked.

    Args:
        model: a clearhead Transformer or a transformers model.
        inputs: text; ids, as a list, (n,) or (batch, n); chat messages (mappings with role and
            content, through the chat template, begun once); or a list of texts.
        attention_mask: 1 where a token is real: the ids are then a padded batch.
        layers: layers to keep; None is all.
        queries: tokens of each sequence whose Q and L are kept, as a slice or indices; None is all.
            K and V are kept whole, so an answer's rows cost what the KV cache costs.
        keep: further quantities to keep: ``"attention_input"``, ``"context"``, ``"output"``.
        device: where the trace lies; None is where the model computes.
        tokenizer: for a model that brings none.

    Returns:
        One Trace; a list of them for a list of texts, for ids with more than one row and wherever
        an attention mask is given. Padding is left out.

    Raises:
        TokenError: nothing to read, or more than the model's context holds.
        InputError: ids, mask, layers, queries, keep or device do not fit.
        TraceError: the model cannot be traced, or a layer that was expected was not seen.

    Cost: one run of the model without a cache; memory beside it is Q, K, V and L: linear in n.
    """
    adapter = traceable(model)
    words = _words(adapter, tokenizer)
    computes_on = next(model.parameters()).device
    order = _Order(
        adapter=adapter,
        words=words,
        layers=layers,
        queries=queries,
        keep=keep,
        computes_on=computes_on,
        lies_on=computes_on if device is None else present_device(device),
    )
    if are_texts(inputs):
        if attention_mask is not None:
            raise InputError("attention_mask belongs to token ids: texts are not padded here")
        return [made for text in inputs for made in _run(order, read_ids(text, words), None)]
    ids = read_ids(inputs, words)
    traces = _run(order, ids, real_tokens(ids, attention_mask))
    return traces if attention_mask is not None or len(traces) > 1 else traces[0]


@dataclass(frozen=True, eq=False, kw_only=True)
class _Order:
    """What was asked for besides the inputs: the same for every text of a list."""

    adapter: TraceableModel
    words: TextTokenizer | None
    layers: Collection[int] | slice | None
    queries: slice | Collection[int] | None
    keep: Collection[str]
    computes_on: torch.device
    lies_on: torch.device


@dataclass(frozen=True, eq=False)
class _Seen:
    """What one run of the model showed."""

    recorder: Recorder
    ids: Int[Tensor, "batch n"]
    logits: Float[Tensor, "batch vocabulary"] | None
    seconds: float


def _run(
    order: _Order, ids: Int[Tensor, "batch n"], real: Bool[Tensor, "batch n"] | None
) -> list[Trace]:
    adapter, sites = order.adapter, order.adapter.sites()
    _check_length(adapter, ids, real)
    parts = [_part(row, real, order.queries, ids.shape[1]) for row in range(ids.shape[0])]
    chosen = chosen_layers(order.layers, [site.layer for site in sites])
    keep = wanted(order.keep, KEEPABLE)
    recorder = Recorder(
        parts, layers=chosen, keep=keep, layer_count=len(chosen), device=order.lies_on
    )
    ids = ids.to(order.computes_on)
    last = _last(ids, real)
    mask = None if real is None else real.to(ids.device)
    with torch.no_grad(), adapter.running(), tapping(recorder):
        start = time.perf_counter()
        logits = adapter.logits(ids, attention_mask=mask, last=last)
        seconds = time.perf_counter() - start
    _check_seen(adapter, sites, recorder)
    seen = _Seen(recorder, ids, logits, seconds)
    return [_trace(order, seen, index) for index in range(len(parts))]


def _trace(order: _Order, seen: _Seen, index: int) -> Trace:
    adapter, words, ids, part = order.adapter, order.words, seen.ids, seen.recorder.parts[index]
    row = ids[part.batch] if part.tokens is None else ids[part.batch][part.tokens.to(ids.device)]
    token_ids = numbers(row)
    queries = torch.arange(len(token_ids)) if part.queries is None else part.queries
    by_layer: dict[int, LayerTrace] = {}
    # more rows, other places or another device: other kernel calls, whose sums may round otherwise
    whole = len(ids) == 1 and part.tokens is None and part.queries is None
    for site, recorded in seen.recorder.recorded[index].items():
        projection = adapter.output_projection(site)
        if site in adapter.misread:
            recorded.tensors.pop("output", None)
        if projection is not None:
            heads = recorded.tensors["query"].shape[0]
            norms = value_norms(recorded.tensors["value"], projection, heads=heads)
            recorded.tensors["value_norms"] = norms
        same_bits = whole and recorded.tensors["query"].device == ids.device
        by_layer[site.layer] = LayerTrace(recorded, queries, projection, same_bits)
    held = [t for layer in by_layer.values() for t in layer.recorded.tensors.values()]
    return Trace(
        model_name=adapter.name,
        weights_origin=adapter.origin,
        token_ids=tuple(token_ids),
        pieces=tuple(words.pieces(token_ids) if words else [Piece(str(n)) for n in token_ids]),
        by_layer=by_layer,
        queries=queries,
        nbytes=sum(tensor.numel() * tensor.element_size() for tensor in held),
        seconds=seen.seconds,
        context_length=adapter.context_length,
        next_logits=None if seen.logits is None else seen.logits[part.batch].float().cpu(),
        tokenizer=words,
    )


def _words(adapter: TraceableModel, tokenizer: object) -> TextTokenizer | None:
    found = adapter.tokenizer if tokenizer is None else tokenizer
    if found is None or isinstance(found, TextTokenizer):
        return found
    return TextTokenizer.wrap(found)


def _check_length(adapter: TraceableModel, ids: Tensor, real: Tensor | None) -> None:
    longest = ids.shape[1] if real is None else int(real.sum(-1).max())
    if adapter.context_length is not None and longest > adapter.context_length:
        raise TokenError(
            f"the text has {longest:,} tokens, and {adapter.name} reads at most "
            f"{adapter.context_length:,}"
        )


def _part(
    row: int, real: Tensor | None, queries: slice | Collection[int] | None, length: int
) -> SequencePart:
    tokens = None if real is None or bool(real[row].all()) else real[row].nonzero().flatten()
    count = length if tokens is None else len(tokens)
    if queries is None:
        return SequencePart(row, tokens, None)
    return SequencePart(row, tokens, torch.tensor(chosen_queries(queries, count)))


def _last(ids: Tensor, real: Tensor | None) -> Int[Tensor, "batch"]:
    """The place of each row's last real token."""
    if real is None:
        return torch.full((ids.shape[0],), ids.shape[1] - 1, device=ids.device)
    return (real.long() * torch.arange(ids.shape[1])).argmax(-1).to(ids.device)


def _check_seen(adapter: TraceableModel, sites: Sequence[Site], recorder: Recorder) -> None:
    missing = [site.name for site in sites if site not in recorder.seen]
    faults: list[str] = []
    if missing:
        faults.append(
            f"{len(missing)} of its {len(sites)} attention layers compute attention elsewhere and "
            f"were not seen: {', '.join(missing)}"
        )
    strange = sorted(site.name for site in recorder.seen - set(sites))
    if strange:
        faults.append(f"attention happens where no layer was expected: {', '.join(strange)}")
    if faults:
        raise TraceError(gathered(f"{adapter.name} cannot be traced whole", faults))
