import pytest
import torch

from families.tiny import FAMILIES, NotMadeError, class_name, inputs, target, text, tiny_model


def test_the_tasks_are_three() -> None:
    assert list(FAMILIES) == ["causal", "masked", "seq2seq"]
    assert "llama" in FAMILIES["causal"]
    assert "bert" in FAMILIES["masked"]
    assert "t5" in FAMILIES["seq2seq"]


def test_a_class_is_the_first_of_several() -> None:
    assert class_name("llama", "causal") == "LlamaForCausalLM"


def test_a_model_is_small_ready_and_always_the_same() -> None:
    before = torch.random.get_rng_state()
    one, other = tiny_model("llama", "causal"), tiny_model("llama", "causal")
    assert torch.equal(torch.random.get_rng_state(), before)
    assert not one.training
    assert one.dtype == torch.float32
    assert sum(weight.numel() for weight in one.parameters()) < 100_000
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_there_are_fewer_heads_of_keys_and_windows_are_short() -> None:
    config = tiny_model("gemma3_text", "causal").config
    assert (config.num_attention_heads, config.num_key_value_heads) == (4, 2)
    assert config.sliding_window == 5
    assert set(config.layer_types) == {"sliding_attention", "full_attention"}


def test_a_causal_model_of_an_encoder_family_is_a_decoder() -> None:
    assert tiny_model("bert", "causal").config.is_decoder
    assert not tiny_model("bert", "masked").config.is_decoder


def test_parts_of_a_model_are_small_too() -> None:
    config = tiny_model("gemma3", "causal").config
    assert config.text_config.hidden_size == 32
    assert config.vision_config.hidden_size == 32


def test_an_encoder_decoder_reads_a_target() -> None:
    ids = text()
    called = inputs(tiny_model("t5", "seq2seq"), ids)
    assert torch.equal(called["decoder_input_ids"], target(ids))
    assert target(ids).shape == (1, 7)


def test_what_cannot_be_made_says_why() -> None:
    with pytest.raises(NotMadeError, match=r"^its first run: ValueError: inputs_embeds and shared"):
        tiny_model("gemma4_unified_assistant", "causal")
