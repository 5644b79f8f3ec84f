from families.sizes import FILLED, LATENT, LAYERS, OVERRIDES, SIZES
from families.tiny import CLASSES, tiny_model


def test_every_count_of_layers_and_every_filled_field_has_a_size() -> None:
    assert set(LAYERS) <= set(SIZES)
    assert set(FILLED) <= set(SIZES)


def test_latent_attention_has_small_heads() -> None:
    config = tiny_model("deepseek_v3", "causal").config
    assert {name: getattr(config, name) for name in LATENT} == dict(LATENT)


def test_an_override_wins() -> None:
    assert tiny_model("codegen", "causal").config.rotary_dim == OVERRIDES["codegen"]["rotary_dim"]


def test_a_reformer_can_be_made() -> None:
    assert "reformer" in CLASSES["causal"]
    assert tiny_model("reformer", "causal").config.num_hidden_layers == 2
