"""Taps that tests put on a model, one run under them, and all that a run might leave behind."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from clearhead.masks import Mask
from clearhead.pipeline.rule import ScoreRule
from clearhead.pipeline.tap import Site, Tap, tapping
from clearhead.tracing.models import TraceableModel

__all__ = ["Cutting", "Reading", "Replacing", "run", "state"]


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
        return replace(rule, mask=cut if rule.mask is None else rule.mask & cut)


@torch.no_grad()
def run(model: TraceableModel, ids: Tensor, *taps: Tap) -> Tensor:
    """The logits after each row's last token, with these taps active."""
    last = torch.full((len(ids),), ids.shape[1] - 1)
    with model.running(), tapping(*taps):
        logits = model.logits(ids, attention_mask=None, last=last)
    assert logits is not None
    return logits


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
