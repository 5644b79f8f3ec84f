"""One layer of a trace: what is kept is what passed, and what is made again is what was."""

import pytest
import torch
from torch import Tensor

from clearhead.errors import NotKeptError
from clearhead.tracing.layer_trace import value_norms
from clearhead.tracing.models import OutputProjection
from clearhead.tracing.recorder import KEEPABLE
from clearhead.tracing.trace import trace
from clearhead.transformer.model import Transformer
from tests.tracing.families import TRACED, made
from tests.transformer.tiny_models import some_ids, tiny_config


@pytest.fixture(params=["llama", "mistral", "gpt2", "bert", "gemma2", "gpt_oss", "deepseek_v3"])
def model(request, seeded_weights):
    return made(TRACED[request.param])


def test_shapes_are_the_stated_ones(model, ids):
    n = ids.shape[1]
    for layer in trace(model, ids, keep=KEEPABLE):
        heads, kv_heads = layer.query.shape[0], layer.key.shape[0]
        d_k, d_v = layer.query.shape[2], layer.value.shape[2]
        assert {
            "query": tuple(layer.query.shape),
            "key": tuple(layer.key.shape),
            "value": tuple(layer.value.shape),
            "logsumexp": tuple(layer.logsumexp.shape),
            "weights": layer.weights.shape,
            "scores": layer.scores.shape,
            "raw_scores": layer.raw_scores.shape,
            "context": tuple(layer.context.shape),
            "head_outputs": tuple(layer.head_outputs.shape),
            "output": tuple(layer.output.shape),
            "attention_input": tuple(layer.attention_input.shape),
            "value_norms": tuple(layer.value_norms.shape),
        } == {
            "query": (heads, n, d_k),
            "key": (kv_heads, n, d_k),
            "value": (kv_heads, n, d_v),
            "logsumexp": (heads, n),
            "weights": (heads, n, n),
            "scores": (heads, n, n),
            "raw_scores": (heads, n, n),
            "context": (heads, n, d_v),
            "head_outputs": (heads, n, 32),
            "output": (n, 32),
            "attention_input": (n, 32),
            "value_norms": (heads, n),
        }


@pytest.mark.parametrize("length", [1, 2, 40])
def test_what_is_made_again_has_the_bits_of_the_run(length, model, generator):
    ids = torch.randint(3, 99, (1, length), generator=generator)
    kept, again = trace(model, ids, keep=("context", "output")), trace(model, ids)
    for ours, run in zip(again, kept, strict=True):
        assert ours.same_bits
        assert torch.equal(ours.context, run.context)
        assert torch.equal(ours.output, run.output)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_so_it_has_in_every_dtype(dtype, tiny_llama, tiny_gpt2, ids):
    for model in (tiny_llama.to(dtype), tiny_gpt2.to(dtype)):
        kept, again = trace(model, ids, keep=("context", "output")), trace(model, ids)
        for ours, run in zip(again, kept, strict=True):
            assert ours.same_bits
            assert torch.equal(ours.context, run.context)
            assert torch.equal(ours.output, run.output)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("length", [1, 2])
def test_so_it_has_where_a_row_is_multiplied_by_native_code(dtype, length, generator):
    # W_O of as many numbers as native code asks for
    config = tiny_config(d_model=256, d_ff=256)
    model = Transformer(config).eval().to(dtype)
    ids = some_ids(generator, 1, length)
    kept, again = trace(model, ids, keep=("context", "output")), trace(model, ids)
    for ours, run in zip(again, kept, strict=True):
        assert ours.same_bits
        assert torch.equal(ours.context, run.context)
        assert torch.equal(ours.output, run.output)


def test_so_it_has_under_autocast(tiny_llama, ids):
    with torch.autocast("cpu", torch.bfloat16):
        kept, again = trace(tiny_llama, ids, keep=("context", "output")), trace(tiny_llama, ids)
    for ours, run in zip(again, kept, strict=True):
        assert run.output.dtype == torch.bfloat16
        assert torch.equal(ours.output, run.output)


_ONES = torch.ones(2, 11).long()
_PADDED = torch.tensor([[1] * 11, [0] * 3 + [1] * 8])


@pytest.mark.parametrize(
    ("rows", "given", "same"),
    [
        (1, {}, True),
        (1, {"attention_mask": _ONES[:1]}, True),
        (1, {"attention_mask": _PADDED[1:]}, False),
        (2, {}, False),
        (2, {"attention_mask": _ONES}, False),
        (2, {"attention_mask": _PADDED}, False),
        (1, {"queries": [3]}, False),
        (1, {"queries": slice(0, 5)}, False),
    ],
)
def test_where_bits_may_differ_it_is_said(rows, given, same, tiny_llama, tiny_gpt2, ids):
    ids = ids.repeat(rows, 1)
    for model in (tiny_llama, tiny_gpt2):
        again, kept = trace(model, ids, **given), trace(model, ids, **given, keep=KEEPABLE)
        if not isinstance(again, list):
            again, kept = [again], [kept]
        pairs = [(one[at], two[at]) for one, two in zip(again, kept, strict=True) for at in (0, 1)]
        for ours, run in pairs:
            assert ours.same_bits == same
            assert (ours.context - run.context).abs().max() < (1e-30 if same else 1e-5)
            assert (ours.output - run.output).abs().max() < (1e-30 if same else 1e-4)


def test_head_outputs_add_up_to_the_output(model, ids):
    for layer in trace(model, ids):
        bias = layer.projection.bias
        summed = layer.head_outputs.double().sum(0) + (0 if bias is None else bias)
        assert (summed - layer.output).abs().max() <= 1e-5 * layer.output.abs().max()


def test_weights_mix_values_to_the_context(model, ids):
    for layer in trace(model, ids):
        value = layer.value.double().repeat_interleave(len(layer.query) // len(layer.value), 0)
        mixed = layer.weights.to_dense().double() @ value
        assert (mixed - layer.context).abs().max() <= 5e-6 * value.abs().max()
        again = layer.weights.matvec(value.float())
        assert (again - layer.context).abs().max() <= 5e-6 * value.abs().max()


def test_nothing_made_again_asks_for_gradients(model, ids):
    for layer in trace(model, ids):
        for name in ("context", "output", "head_outputs", "value_norms"):
            assert not getattr(layer, name).requires_grad


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (6, 2), (3, 1)])
@pytest.mark.parametrize(("d_v", "d_model"), [(8, 24), (8, 3), (1, 5)])
def test_norms_of_values_are_those_of_each_value_through_its_heads_slice(
    heads, kv_heads, d_v, d_model, generator
):
    value = torch.randn(kv_heads, 7, d_v, generator=generator)
    weight = torch.randn(d_model, heads * d_v, generator=generator)
    got = value_norms(value, OutputProjection(weight, None), heads=heads)
    slices = weight.double().unflatten(1, (heads, d_v))
    for head in range(heads):
        through = value[head // (heads // kv_heads)].double() @ slices[:, head].T
        expected = through.norm(dim=-1)
        assert (got[head] - expected).abs().max() <= 1e-5 * expected.max()


def test_norms_of_values_are_exact_in_float64_and_zero_for_nothing(generator):
    value = torch.randn(1, 3, 4, generator=generator).double()
    value[:, 1] = 0
    weight = torch.randn(6, 4, generator=generator).double()
    got = value_norms(value, OutputProjection(weight, None), heads=1)
    assert got.dtype == torch.float64
    assert (got[0] - (value[0] @ weight.T).norm(dim=-1)).abs().max() < 1e-12
    assert got[0, 1] == 0


# --------------------------------------------------------------------------------------- not kept


def test_an_input_that_was_not_kept_says_what_keeps_it(tiny_llama, ids):
    with pytest.raises(NotKeptError) as caught:
        trace(tiny_llama, ids)[1].attention_input  # noqa: B018 - the look itself is the error
    assert str(caught.value) == (
        'attention_input of layer 1 was not kept: trace again with keep=("attention_input",)'
    )


def test_an_input_that_was_named_and_never_seen_says_so(tiny_llama, ids):
    attention = tiny_llama.model.layers[1].self_attn
    own = attention.forward
    attention.forward = lambda x, **given: own(hidden_states=x, **given)
    tiny_llama.model.layers[1]._modules["self_attn"] = Renamed(attention)
    found = trace(tiny_llama, ids, keep=("attention_input",))
    with pytest.raises(NotKeptError) as caught:
        found[1].attention_input  # noqa: B018 - the look itself is the error
    assert str(caught.value) == (
        "attention_input of layer 1 (model.layers.1.self_attn.inner) was named in keep= and not "
        "seen: its module is handed it neither as its first argument nor as hidden_states=, so it "
        "cannot be kept"
    )
    assert found[0].attention_input.shape == (11, 32)


class Renamed(torch.nn.Module):
    """Hands its attention module X by another name."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, hidden_states: Tensor, **given: object) -> object:
        return self.inner(x=hidden_states, **given)


@pytest.mark.parametrize("name", ["output", "head_outputs", "value_norms"])
def test_what_needs_an_unknown_projection_says_so(name, tiny_llama, ids):
    class Halved(torch.nn.Module):
        def __init__(self, linear):
            super().__init__()
            self.linear = linear

        def forward(self, joined: Tensor) -> Tensor:
            return self.linear(joined / 2)

    attention = tiny_llama.model.layers[2].self_attn
    attention.o_proj = Halved(attention.o_proj)
    found = trace(tiny_llama, ids)
    with pytest.raises(NotKeptError) as caught:
        getattr(found[2], name)
    assert str(caught.value) == (
        f"{name} of layer 2 (model.layers.2.self_attn) cannot be made: there is no one linear "
        "layer that alone was handed this layer's context as it is, so W_O is not known; context, "
        "weights and sources(by='attention') are"
    )
    assert getattr(found[1], name) is not None
    assert found[2].context.shape == (4, 11, 8)


def test_a_layer_says_what_it_is(tiny_llama, ids):
    assert repr(trace(tiny_llama, ids, queries=[1, 2])[1]) == (
        "LayerTrace(layer=1, 'model.layers.1.self_attn', heads=4, queries=2, keys=11)"
    )
