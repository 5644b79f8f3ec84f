"""What is observed of a model while it runs: W_O alone, O whole, or neither."""

import pytest
import torch
from torch import Tensor, nn

from clearhead.errors import NotKeptError
from clearhead.pipeline.tap import Site
from clearhead.tracing.huggingface_watch import Watch, watch_of
from clearhead.tracing.models import traceable
from clearhead.tracing.trace import trace
from tests.tracing.taps import Replacing, run

UNKNOWN = (
    "{} of layer 1 (model.layers.1.self_attn) cannot be made: there is no one linear layer that "
    "alone was handed this layer's context as it is, so W_O is not known; context, weights and "
    "sources(by='attention') are"
)


class Wrapped(nn.Module):
    """What adapters put around a linear layer; ``base_layer`` is what they call it."""

    def __init__(self, base: nn.Linear):
        super().__init__()
        self.base_layer = base
        self.down, self.up = (nn.Linear(*sizes, bias=False) for sizes in ((32, 3), (3, 32)))


class Added(Wrapped):
    """LoRA: a second product of the context is added."""

    def forward(self, x: Tensor) -> Tensor:
        return self.base_layer(x) + self.up(self.down(x))


class AddedInPlace(Wrapped):
    """LoRA that writes into what the first layer gave."""

    def forward(self, x: Tensor) -> Tensor:
        result = self.base_layer(x)
        result += self.up(self.down(x))
        return result


class AddedInAnotherDtype(Wrapped):
    """LoRA whose own numbers are wider: its layers are handed a copy of the context."""

    def forward(self, x: Tensor) -> Tensor:
        return self.base_layer(x) + self.up.double()(self.down.double()(x.double())).to(x.dtype)


class Scaled(Wrapped):
    """IA3: what the layer gave is scaled."""

    def forward(self, x: Tensor) -> Tensor:
        return self.base_layer(x) * self.up.weight[:, 0]


class Subclass(nn.Linear):
    """A linear layer with a forward of its own."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * 2


def subclass(base: nn.Linear) -> Subclass:
    made = Subclass(32, 32, bias=False)
    made.load_state_dict(base.state_dict())
    return made


def leaving(model, ids) -> Tensor:
    """What leaves layer 1's attention module, without any trace."""
    seen = []
    attention = model.model.layers[1].self_attn
    hook = attention.register_forward_hook(lambda _module, _args, output: seen.append(output[0]))
    with torch.no_grad():
        model(ids)
    hook.remove()
    return seen[0][0]


@pytest.mark.parametrize("wrap", [Added, AddedInPlace, AddedInAnotherDtype, Scaled, subclass])
def test_a_projection_that_is_not_all_of_w_o_is_not_taken_for_it(
    wrap, tiny_llama, ids, seeded_weights
):
    attention = tiny_llama.model.layers[1].self_attn
    attention.o_proj = wrap(attention.o_proj)
    found = trace(tiny_llama, ids)
    for name in ("output", "head_outputs", "value_norms"):
        with pytest.raises(NotKeptError) as caught:
            getattr(found[1], name)
        assert str(caught.value) == UNKNOWN.format(name)
    with pytest.raises(NotKeptError) as caught:
        found.sources()
    assert str(caught.value) == UNKNOWN.format("contributions")
    assert found.sources(by="attention").share.sum() == pytest.approx(1, abs=1e-6)
    assert found.sources(layers=[0, 2]).share.sum() == pytest.approx(1, abs=1e-6)
    # O is what leaves the wrapper: kept, it is right
    kept = trace(tiny_llama, ids, keep=("output",))[1]
    assert torch.equal(kept.output, leaving(tiny_llama.float(), ids))


def test_what_is_around_a_linear_layer_and_changes_nothing_is_seen_through(tiny_llama, ids):
    plain = trace(tiny_llama, ids)
    for layer in tiny_llama.model.layers:
        layer.self_attn.o_proj = nn.Sequential(layer.self_attn.o_proj, nn.Dropout(0.5))
    found = trace(tiny_llama, ids)
    for ours, before in zip(found, plain, strict=True):
        assert torch.equal(ours.output, before.output)
        assert torch.equal(ours.value_norms, before.value_norms)


def test_an_output_that_was_a_part_of_it_is_not_kept(tiny_llama, ids, seeded_weights):
    """Two products of C, added by the attention module itself."""
    attention = tiny_llama.model.layers[1].self_attn
    first, second = attention.o_proj, nn.Linear(32, 32, bias=False)
    attention.second = second

    class Both:
        def __call__(self, x: Tensor) -> Tensor:
            return first(x) + second(x)

    del attention.o_proj
    attention.first = first
    object.__setattr__(attention, "o_proj", Both())
    for keep in ((), ("output",)):
        found = trace(tiny_llama, ids, keep=keep)
        with pytest.raises(NotKeptError) as caught:
            found[1].output  # noqa: B018 - the look itself is the error
        assert str(caught.value) == UNKNOWN.format("output")
        assert found[0].output.shape == found[2].output.shape == (11, 32)
    assert torch.equal(found[1].context, trace(tiny_llama, ids, keep=("context",))[1].context)


def test_a_replaced_output_replaces_all_that_leaves_a_wrapper(tiny_llama, ids, seeded_weights):
    attention = tiny_llama.model.layers[1].self_attn
    attention.o_proj = Added(attention.o_proj)
    watched = traceable(tiny_llama)
    nothing = run(watched, ids, Replacing(watched.sites()[1], "output", torch.zeros_like))
    with torch.no_grad():
        attention.o_proj.base_layer.weight.zero_()
        attention.o_proj.up.weight.zero_()
    assert torch.equal(run(watched, ids), nothing)


def test_a_model_put_right_again_shows_its_projection_again(tiny_llama, ids, seeded_weights):
    attention = tiny_llama.model.layers[1].self_attn
    attention.o_proj = Added(attention.o_proj)
    added, plain = Added.forward, lambda wrapped, x: wrapped.base_layer(x)
    with traceable(tiny_llama).running():
        for forward, known in ((added, False), (plain, True), (added, False)):
            attention.o_proj.forward = forward.__get__(attention.o_proj)
            assert (trace(tiny_llama, ids)[1].projection is not None) == known


def test_a_model_is_watched_once_however_often_it_is_asked_for(tiny_llama):
    attention = tiny_llama.model.layers[0].self_attn
    sites = {attention: Site(0, "self", "model.layers.0.self_attn")}
    watch = Watch(sites)
    assert watch.site(attention) == sites[attention]
    with watch.watching(tiny_llama) as outermost:
        assert outermost
        assert watch_of(sites) is watch
        with watch_of(sites).watching(tiny_llama) as inner:
            assert not inner
        assert len(attention._forward_pre_hooks) == 1
    assert watch_of(sites) is not watch
    assert len(attention._forward_pre_hooks) == 0
