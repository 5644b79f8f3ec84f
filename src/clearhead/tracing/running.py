"""One run of a model under a recorder, and the traces that come of it."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clearhead.errors import TraceError, gathered
from clearhead.pipeline.tap import Site, tapping
from clearhead.tracing.batches import Batch, Order
from clearhead.tracing.choosing import chosen_layers, wanted
from clearhead.tracing.continuing import HeldText
from clearhead.tracing.encoder_decoder import CrossTrace, EncoderDecoderTrace
from clearhead.tracing.layer_trace import LayerTrace, value_norms
from clearhead.tracing.models import Source, TraceableModel
from clearhead.tracing.recorder import KEEPABLE, Recorder, SequencePart
from clearhead.tracing.traced import Trace

__all__ = ["run_across", "run_alone"]

#: What a stack of an encoder-decoder is called, by the kind of its sites.
_STACKS = {"encoder": "encoder", "self": "decoder", "cross": "decoder"}
_CALLED = {"encoder": "encoder", "self": "decoder self-attention", "cross": "cross-attention"}


@dataclass(frozen=True, eq=False)
class _Run:
    """What one run of the model showed.

    Attributes:
        order: what was asked for.
        recorders: what was kept, by the kind of the sites; by ``""`` for a model of one stack.
        logits: after each row's last token, or None.
        seconds: how long the model ran.
    """

    order: Order
    recorders: Mapping[str, Recorder]
    logits: Float[Tensor, "batch vocabulary"] | None
    seconds: float

    def trace(self, batch: Batch, index: int, *, kind: str) -> Trace:
        """The trace of one sequence."""
        adapter, layers = self.order.adapter, self.layers(batch, index, kind=kind)
        pair, logits = adapter.encoder_decoder, None if kind == "encoder" else self.logits
        length = pair.source_length if pair and kind == "encoder" else adapter.context_length
        return Trace(
            model_name=adapter.name,
            weights_origin=adapter.origin,
            token_ids=batch.token_ids(index),
            pieces=batch.pieces(index),
            by_layer=layers,
            queries=batch.kept_queries(index),
            nbytes=_nbytes(layers),
            seconds=self.seconds,
            context_length=length,
            next_logits=None if logits is None else logits[index].float().cpu(),
            tokenizer=self.order.words,
        )

    def layers(self, batch: Batch, index: int, *, kind: str) -> dict[int, LayerTrace]:
        """The layers of one kind, of one sequence."""
        adapter, recorder = self.order.adapter, self.recorders[kind]
        by_layer: dict[int, LayerTrace] = {}
        # more rows, other places or another device: other kernel calls, whose sums may round
        # otherwise
        whole = len(recorder.parts) == 1 and recorder.parts[0].whole and not batch.held
        for site, recorded in recorder.recorded[index].items():
            projection = adapter.output_projection(site)
            if site in adapter.misread:
                recorded.tensors.pop("output", None)
            if projection is not None:
                heads = recorded.tensors["query"].shape[0]
                norms = value_norms(recorded.tensors["value"], projection, heads=heads)
                recorded.tensors["value_norms"] = norms
            same_bits = whole and recorded.tensors["query"].device == batch.ids.device
            queries = batch.kept_queries(index)
            by_layer[site.layer] = LayerTrace(recorded, queries, projection, same_bits)
        return by_layer


def run_alone(
    order: Order,
    ids: Int[Tensor, "batch n"],
    real: Bool[Tensor, "batch n"] | None,
    *,
    cache: HeldText | None = None,
    held: int = 0,
) -> list[Trace]:
    """Trace a model of one stack.

    Args:
        order: what was asked for.
        ids: the ids, padding included.
        real: which are real; None is all.
        cache: keys and values of the first tokens, which are not read; None is none.
        held: how many those are.

    Returns:
        A trace for each row.
    """
    ids, real = _laid(order, ids, real)
    batch = Batch(order, ids.to(order.computes_on), real, order.queries, held)
    batch.check_length(order.adapter.context_length, called="text")
    layers = [site.layer for site in order.adapter.sites()]
    chosen = chosen_layers(order.layers, {"": layers})[""]
    recorder = _recorder(order, batch.parts, chosen)
    run = _run(order, {"": recorder}, batch, cache=cache)
    return [run.trace(batch, index, kind="") for index in range(len(ids))]


def run_across(
    order: Order,
    ids: Int[Tensor, "batch m"],
    real: Bool[Tensor, "batch m"] | None,
    *,
    target: Int[Tensor, "batch n"],
) -> list[EncoderDecoderTrace]:
    """Trace an encoder-decoder.

    Args:
        order: what was asked for.
        ids: the source's ids, padding included.
        real: which are real; None is all.
        target: the decoder's ids.

    Returns:
        A trace for each row.
    """
    adapter, pair = order.adapter, order.adapter.encoder_decoder
    assert pair is not None
    ids, real = _laid(order, ids, real)
    source = Batch(order, ids.to(order.computes_on), real, None)
    batch = Batch(order, target.to(order.computes_on), None, order.queries)
    source.check_length(pair.source_length, called="source")
    batch.check_length(adapter.context_length, called="target")
    stacks: dict[str, list[int]] = {"encoder": [], "decoder": []}
    for site in adapter.sites():
        if site.kind != "cross":
            stacks[_STACKS[site.kind]].append(site.layer)
    chosen = chosen_layers(order.layers, stacks)
    across = zip(batch.parts, source.parts, strict=True)
    parts = {
        "encoder": source.parts,
        "self": batch.parts,
        "cross": [replace(part, source=read) for part, read in across],
    }
    recorders = {
        kind: _recorder(order, parts[kind], chosen[stack], kind=kind)
        for kind, stack in _STACKS.items()
    }
    run = _run(order, recorders, batch, source=Source(source.ids, source.mask))
    return [_pair(run, source, batch, index) for index in range(len(ids))]


def _laid(
    order: Order, ids: Int[Tensor, "batch n"], real: Bool[Tensor, "batch n"] | None
) -> tuple[Int[Tensor, "batch n"], Bool[Tensor, "batch n"] | None]:
    """Ids so laid that padding moves no token: behind them, where a model counts places alone."""
    if real is None or order.adapter.counts_real_tokens:
        return ids, real
    places = (~real).int().argsort(dim=-1, stable=True)
    return ids.gather(-1, places.to(ids.device)), real.gather(-1, places)


def _pair(run: _Run, source: Batch, target: Batch, index: int) -> EncoderDecoderTrace:
    layers = run.layers(target, index, kind="cross")
    decoder = run.trace(target, index, kind="self")
    cross = CrossTrace(
        model_name=decoder.model_name,
        pieces=decoder.pieces,
        by_layer=layers,
        queries=decoder.queries,
        nbytes=_nbytes(layers),
        source_pieces=source.pieces(index),
    )
    return EncoderDecoderTrace(run.trace(source, index, kind="encoder"), decoder, cross)


def _recorder(
    order: Order, parts: Sequence[SequencePart], layers: set[int], *, kind: str | None = None
) -> Recorder:
    keep, count = wanted(order.keep, KEEPABLE), len(layers)
    return Recorder(
        parts, layers=layers, keep=keep, layer_count=count, device=order.lies_on, kind=kind
    )


def _run(
    order: Order,
    recorders: Mapping[str, Recorder],
    batch: Batch,
    *,
    source: Source | None = None,
    cache: HeldText | None = None,
) -> _Run:
    adapter = order.adapter
    with torch.no_grad(), adapter.running(), tapping(*recorders.values()):
        start = time.perf_counter()
        logits = adapter.logits(
            batch.read, attention_mask=batch.mask, last=batch.last, source=source, cache=cache
        )
        seconds = time.perf_counter() - start
    seen = {site for recorder in recorders.values() for site in recorder.seen}
    _check_seen(adapter, seen, kinds=tuple(recorders))
    return _Run(order, recorders, logits, seconds)


def _check_seen(adapter: TraceableModel, seen: set[Site], *, kinds: Sequence[str]) -> None:
    sites, faults = adapter.sites(), list[str]()
    if not seen and adapter.resting:
        raise TraceError(f"{adapter.name} cannot be traced: none of its attention layers ran")
    for kind in kinds:
        known = [site for site in sites if kind in ("", site.kind)]
        missing = [site.name for site in known if site not in {*seen, *adapter.resting}]
        if missing:
            faults.append(
                f"{len(missing)} of its {len(known)} {_CALLED.get(kind, 'attention')} layers "
                f"compute attention elsewhere and were not seen: {', '.join(missing)}"
            )
    strange = sorted(site.name for site in seen - set(sites))
    if strange:
        faults.append(f"attention happens where no layer was expected: {', '.join(strange)}")
    if faults:
        raise TraceError(gathered(f"{adapter.name} cannot be traced whole", faults))


def _nbytes(layers: Mapping[int, LayerTrace]) -> int:
    held = (t for layer in layers.values() for t in layer.recorded.tensors.values())
    return sum(tensor.numel() * tensor.element_size() for tensor in held)
