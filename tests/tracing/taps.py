"""Taps that tests put on a model, one run under them, and all that a run might leave behind."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from clearhead.masks import Mask
from clearhead.pipeline.rule import ScoreRule
from clearhead.pipeline.tap import Site, Tap, tapping
from clearhead.tracing.encoder_decoder import EncoderDecoderTrace
from clearhead.tracing.layer_trace import LayerTrace
from clearhead.tracing.models import Source, TraceableModel
from clearhead.tracing.traced import Trace

__all__ = ["Cutting", "Reading", "Replacing", "layers_of", "run", "state"]


@dataclass
class Reading(Tap):
    """Keeps all that passes, in order."""

    seen: list[tuple[Site, str]] = field(default_factory=list)
    values: dict[tuple[Site, str], Tensor] = field(default_factory=dict)
    rules: dict[Site, ScoreRule] = field(default_factory=dict)

    def visit(self, site: Site, quantity: str, value: Tensor) -> Tensor:
        self.seen.append((site, quantity))
        self.values[site, quantity] = value.clone()
        return value

    def rule(self, site: Site, rule: ScoreRule) -> ScoreRule:
        self.rules[site] = rule
        return rule


@dataclass
class Replacing(Tap):
    """Puts something in the place of one quantity of one layer."""

    site: Site
    quantity: str
    make: Callable[[Tensor], Tensor]

    def visit(self, site: Site, quantity: str, value: Tensor) -> Tensor:
        chosen = (site, quantity) == (self.site, self.quantity)
        return self.make(value) if chosen else value


@dataclass
class Cutting(Tap):
    """In one layer, one query may not look at one key."""

    site: Site
    query: int
    key: int

    def rule(self, site: Site, rule: ScoreRule) -> ScoreRule:
        if site != self.site:
            return rule
        cut = Mask.from_mask_mod(
            lambda _b, _h, i, j: ~((i == self.query) & (j == self.key)), batch=1, heads=1
        )
        start = rule.key_start if rule.query_start is None else rule.query_start
        mask = cut if rule.mask is None else rule.mask & cut
        return replace(rule, mask=mask, query_start=start)


@torch.no_grad()
def run(model: TraceableModel, ids: Tensor, *taps: Tap, source: Tensor | None = None) -> Tensor:
    """The logits after each row's last token, with these taps active."""
    last = torch.full((len(ids),), ids.shape[1] - 1)
    read = None if source is None else Source(source, None)
    with model.running(), tapping(*taps):
        logits = model.logits(ids, attention_mask=None, last=last, source=read)
    assert logits is not None
    return logits


def layers_of(found: Trace | EncoderDecoderTrace) -> dict[Site, LayerTrace]:
    """Every layer of a trace, by where it stands."""
    parts = [found] if isinstance(found, Trace) else [found.encoder, found.decoder, found.cross]
    return {layer.recorded.site: layer for part in parts for layer in part}


def state(model: nn.Module) -> dict[str, object]:
    """All that a run might leave behind."""
    parts = list(model.named_modules())
    configs = [getattr(part, "config", None) for _, part in parts]
    return {
        "training": [name for name, part in parts if part.training],
        "hooks": [(name, *map(len, _hooks(part))) for name, part in parts],
        "attention": [getattr(config, "_attn_implementation", None) for config in configs],
        "parameters": [(p.data_ptr(), p._version, p.requires_grad) for p in model.parameters()],
        "gradients": torch.is_grad_enabled(),
    }


def _hooks(part: nn.Module) -> list[dict[int, object]]:
    return [part._forward_hooks, part._forward_pre_hooks, part._backward_hooks]
