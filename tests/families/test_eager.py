import pytest
import torch

from families.eager import eager_run
from families.tiny import inputs, text, tiny_model


def test_calls_are_what_the_model_gives_as_attentions() -> None:
    model = tiny_model("llama", "causal")
    run = eager_run(model, text(), output_attentions=True)
    assert len(run.calls) == 4
    for call, given in zip(run.calls, run.output.attentions, strict=True):
        assert torch.equal(call.weights, given)
        assert call.context.shape == (1, 4, 12, 8)


@pytest.mark.parametrize("stack", ["encoder", "decoder", "cross"])
def test_attentions_of_an_encoder_decoder_are_told_apart(stack: str) -> None:
    model = tiny_model("t5", "seq2seq")
    run = eager_run(model, text(), output_attentions=True)
    given = getattr(run.output, f"{stack}_attentions")
    calls = run.stack(stack)
    assert len(calls) == len(given) > 0
    assert all(torch.equal(a.weights, b) for a, b in zip(calls, given, strict=True))


def test_what_was_watched_is_put_back() -> None:
    model = tiny_model("llama", "causal")
    eager_run(model, text())
    from transformers.models.llama import modeling_llama

    assert modeling_llama.eager_attention_forward.__module__ == modeling_llama.__name__


def test_a_sink_that_shortens_c_shortens_the_rows_of_a() -> None:
    model = tiny_model("granite_swa", "causal")
    value: list[torch.Tensor] = []
    project = model.model.layers[0].self_attn.v_proj
    with project.register_forward_hook(lambda *of: value.append(of[-1])):
        call = eager_run(model, text()).calls[0]
    assert bool((call.weights.sum(-1) < 1).all())
    heads = value[0].view(1, 12, 2, 8).transpose(1, 2).repeat_interleave(2, 1)
    torch.testing.assert_close(call.weights @ heads, call.context)


def test_layers_that_compute_attention_themselves_are_not_among_the_calls() -> None:
    model = tiny_model("bloom", "causal")
    run = eager_run(model, text())
    assert run.calls == ()
    with torch.no_grad():
        assert torch.equal(run.output.logits, model(**inputs(model, text())).logits)
