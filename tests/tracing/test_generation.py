"""``attn_implementation="clearhead"``: caches, generation and training through it."""

import pytest
import torch
from transformers import DynamicCache, GenerationConfig

import clearhead as ch
from clearhead.errors import UnsupportedError
from tests.tracing.closeness import assert_as_near, same_until_a_tie
from tests.tracing.families import DECODERS, TRACED, made, with_attention
from tests.tracing.padding import padded, positions

ch.register_attention()


@torch.no_grad()
@pytest.mark.parametrize("family", [*DECODERS, "gemma2", "gpt_oss", "llama4", "deepseek_v3"])
@pytest.mark.parametrize("padding", [False, True])
@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_greedy_generation_is_that_of_eager(family, padding, cache, seeded_weights, generator):
    model = made(TRACED[family])
    ids, real = padded(generator, side="left")
    settings = GenerationConfig(
        max_new_tokens=9,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
        cache_implementation=cache,
        disable_compile=True,
        output_logits=True,
        return_dict_in_generate=True,
    )
    mask = real if padding else torch.ones_like(real)
    ours, peer = (
        with_attention(model, name).generate(ids, attention_mask=mask, generation_config=settings)
        for name in ("clearhead", "eager")
    )
    same_until_a_tie(ours.sequences, peer.sequences, peer.logits)


@torch.no_grad()
@pytest.mark.parametrize("family", [*DECODERS, "gemma2", "llama4"])
def test_a_cached_run_in_pieces_is_the_whole_run(family, seeded_weights, generator):
    model = with_attention(made(TRACED[family]), "clearhead")
    ids = torch.randint(3, 99, (2, 12), generator=generator)
    whole = model(ids).logits
    truth = with_attention(model, "eager").double()(ids).logits
    cache = DynamicCache(config=model.config)
    parts = ids.split([5, 1, 4, 2], dim=1)
    pieces = [model(part, cache=cache, use_cache=True).logits for part in parts]
    assert_as_near(torch.cat(pieces, 1), whole, truth)


# ----------------------------------------------------------------------------------------- training


@pytest.mark.parametrize("family", TRACED)
def test_a_step_of_training_has_eagers_gradients(family, seeded_weights, generator):
    model = made(TRACED[family], attention_dropout=0.0, attn_pdrop=0.0, hidden_dropout_prob=0.0)
    model.config.attention_probs_dropout_prob = 0.0
    ids, real = padded(generator, side="left")
    ids, real = ids[:2], real[:2]
    labels = ids.masked_fill(real == 0, -100)
    labels[1, 3] = -100  # a decoder foresees it from padding, which every implementation fills anew
    gradients = {}
    for name, dtype in (("clearhead", torch.float32), ("eager", torch.float32)):
        trained = with_attention(model, name).to(dtype)
        places = positions(real) + (2 if family == "roberta" else 0)
        trained(ids, attention_mask=real, position_ids=places, labels=labels).loss.backward()
        gradients[name] = {
            path: parameter.grad
            for path, parameter in trained.named_parameters()
            if parameter.grad is not None
        }
    assert gradients["clearhead"].keys() == gradients["eager"].keys()
    top = max(float(g.abs().max()) for g in gradients["eager"].values())
    for path, gradient in gradients["eager"].items():
        assert (gradients["clearhead"][path] - gradient).abs().max() <= 1e-5 * top, path


def test_training_with_attention_dropout_is_refused_and_says_how_not_to(seeded_weights):
    model = with_attention(made(DECODERS["gpt2"]), "clearhead").train()
    with pytest.raises(UnsupportedError) as caught:
        model(torch.tensor([[3, 4, 5]]))
    assert str(caught.value) == (
        "GPT2Attention asks attention for what clearhead does not do: dropout=0.1 (call "
        "model.eval(), or set attention dropout to 0)"
    )
