"""Our own spelling tells every configuration, and is read as strictly as any other."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import CheckpointError, InputError
from clearhead.positions.kinds import Alibi, Learned, Rotary, Sinusoidal, T5Buckets
from clearhead.positions.scaling import (
    DynamicScaling,
    LinearScaling,
    Llama3Scaling,
    LongRopeScaling,
    YarnScaling,
)
from clearhead.transformer.config import Experts, LayerKind, QueryTemperature, TransformerConfig
from clearhead.transformer.families.own import OWN, own_keys
from clearhead.transformer.families.spelling import described

SIZES: dict[str, Any] = {
    "vocabulary_size": 30,
    "context_length": 64,
    "d_model": 32,
    "d_ff": 48,
    "layers": 3,
    "heads": 4,
}
SCALINGS = [
    None,
    LinearScaling(2.0),
    DynamicScaling(2, 32),
    YarnScaling(4.0, 16, 1.1, truncate=False),
    LongRopeScaling((1.0, 1.5, 2.0, 2.5), (1.0, 2.0, 3.0, 1 / 3), 16, 1.2),
    Llama3Scaling(8.0, 1.0, 4.0, 16),
]
POSITIONS = [
    None,
    Learned(2),
    Sinusoidal("halves"),
    Alibi(),
    T5Buckets(8, 11),
    Rotary(theta=3e5, width=4, interleaved=True),
    *(Rotary(scaling=scaling) for scaling in SCALINGS),
]
KINDS = st.builds(
    LayerKind,
    window=st.sampled_from([None, 3]),
    chunk=st.sampled_from([None, 5]),
    rotary=st.sampled_from(["model", "none", Rotary(theta=7.0), *POSITIONS[-4:]]),
    scale=st.sampled_from([None, 0.3, 1]),
    temperature=st.sampled_from([None, QueryTemperature(strength=0.1, floor=3)]),
    experts=st.sampled_from([None, Experts(count=4, chosen=2, d_ff=8, shared=False)]),
    d_ff=st.sampled_from([None, 9]),
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "context_length": st.sampled_from([None, 64]),
    "kv_heads": st.sampled_from([1, 2, 4]),
    "d_k": st.sampled_from([0, 8]),
    "d_v": st.sampled_from([0, 6]),
    "pattern": st.lists(KINDS, min_size=1, max_size=3).map(tuple),
    "positions": st.sampled_from(POSITIONS),
    "embedding_scale": st.sampled_from([1.0, 32**0.5, 3]),
    "embedding_norm": st.booleans(),
    "token_types": st.integers(0, 2),
    "norm": st.sampled_from(["rms", "layer"]),
    "norm_epsilon": st.floats(1e-300, 1e300),
    "norm_offset": st.sampled_from([0.0, 1.0]),
    "norm_place": st.sampled_from(["before", "after", "around"]),
    "parallel": st.booleans(),
    "final_norm": st.booleans(),
    "scale": st.none() | st.floats(1e-9, 1e9),
    "softcap": st.none() | st.floats(1e-9, 1e9),
    "query_key_norm": st.sampled_from([None, "head", "rotated"]),
    "input_bias": st.booleans(),
    "output_bias": st.booleans(),
    "sinks": st.booleans(),
    "activation": st.sampled_from(["gelu", "gelu_tanh", "quick_gelu", "relu", "silu"]),
    "gated": st.booleans(),
    "feed_forward_bias": st.booleans(),
}
HEADS: dict[str, st.SearchStrategy[Any]] = {
    "predicts": st.just(True),
    "logits_transform": st.booleans(),
    "logits_bias": st.booleans(),
    "logits_scale": st.sampled_from([1.0, 0.25]),
    "logits_softcap": st.sampled_from([None, 30.0]),
    "tied_embeddings": st.booleans(),
    "pooler": st.booleans(),
    "kind": st.sampled_from(["decoder", "encoder"]),
}


def attempted(fields: dict[str, Any]) -> TransformerConfig | None:
    try:
        return TransformerConfig(**SIZES | fields)
    except InputError:
        return None


def configs(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[TransformerConfig]:
    return st.fixed_dictionaries(fields).map(attempted).filter(lambda made: made is not None)


ENCODERS = configs(**FIELDS, kind=st.just("encoder"), predicts=st.just(False))


def again(config: TransformerConfig) -> TransformerConfig:
    """A configuration written to a file and read from it."""
    return described(json.loads(json.dumps(own_keys(config)))).config


@given(configs(**FIELDS, **HEADS))
def test_every_configuration_comes_back(config: TransformerConfig) -> None:
    assert again(config) == config
    assert repr(again(config)) == repr(config)  # 1 is not 1.0


@given(ENCODERS, configs(**FIELDS))
def test_every_pair_of_encoder_and_decoder_comes_back(
    encoder: TransformerConfig, decoder: TransformerConfig
) -> None:
    both = attempted({**vars(decoder), "encoder": encoder})
    if both is not None:
        assert again(both) == both


def test_what_is_left_out_has_its_default() -> None:
    told = {"type": "TransformerConfig", **SIZES}
    keys = {"model_type": "clearhead", "transformer": told}
    assert described(keys).config == TransformerConfig(**SIZES)


def test_our_names_stand_for_themselves() -> None:
    stored = OWN.stored(["a.0.weight", "b"], gated=True)
    assert [(one.theirs, one.ours) for one in stored] == [
        ("a.0.weight", ("a.0.weight",)),
        ("b", ("b",)),
    ]


def refused(**changed: Any) -> str:
    told = own_keys(TransformerConfig(**SIZES))["transformer"] | changed
    with pytest.raises(CheckpointError) as caught:
        described({"model_type": "clearhead", "transformer": told})
    return str(caught.value).removeprefix("the config of this clearhead model")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"novelty": 1}, "transformer.novelty is not known here, got 1"),
        ({"heads": "4"}, "transformer.heads must be a whole number, got '4'"),
        ({"heads": True}, "transformer.heads must be a whole number, got True"),
        ({"heads": 4.0}, "transformer.heads must be a whole number, got 4.0"),
        ({"gated": 1}, "transformer.gated must be true or false, got 1"),
        ({"softcap": "x"}, "transformer.softcap must be a number or null, got 'x'"),
        ({"norm": "batch"}, "transformer.norm must be 'rms' or 'layer', got 'batch'"),
        ({"pattern": {}}, "transformer.pattern must be a list, got {}"),
        ({"pattern": [3]}, "transformer.pattern[0] must be LayerKind, got 3"),
        ({"type": "Stack"}, "transformer must be a TransformerConfig, got 'Stack'"),
        (
            {"positions": {"type": "Spiral"}},
            (
                "transformer.positions must be Learned or Sinusoidal or Rotary or Alibi or "
                "T5Buckets or null, got {'type': 'Spiral'}"
            ),
        ),
        (
            {"positions": {"type": "Rotary", "scaling": {"type": "LinearScaling"}}},
            "transformer.positions.scaling.factor is missing",
        ),
        (
            {"positions": {"type": "Rotary", "theta": -1.0}},
            "transformer.positions: Rotary: theta must be a positive finite number, got -1.0",
        ),
        (
            {"heads": 3, "kv_heads": 2},
            "these values make no Transformer: heads (3) must be a multiple of kv_heads (2)",
        ),
    ],
)
def test_a_faulty_value_is_named(changed: dict[str, Any], said: str) -> None:
    assert refused(**changed) == f": {said}"


def test_all_faults_are_told_at_once() -> None:
    kind = {"type": "LayerKind", "window": "3", "experts": {"type": "Experts", "count": 2}}
    assert refused(pattern=[kind], layers=None) == (
        ", 4 faults:\n"
        "  - transformer.layers must be a whole number, got None\n"
        "  - transformer.pattern[0].window must be a whole number or null, got '3'\n"
        "  - transformer.pattern[0].experts.chosen is missing\n"
        "  - transformer.pattern[0].experts.d_ff is missing"
    )


def test_encoders_within_encoders_end_somewhere() -> None:
    told: dict[str, Any] = {"type": "TransformerConfig"}
    for _ in range(100):
        told = {"type": "TransformerConfig", "encoder": told}
    place = "transformer" + ".encoder" * 6
    assert f"{place} must be TransformerConfig or null, got {{'type'" in refused(**told)


@pytest.mark.parametrize("told", [None, 3, [], "x"])
def test_no_configuration_at_all(told: object) -> None:
    with pytest.raises(CheckpointError) as caught:
        described({"model_type": "clearhead", "transformer": told})
    assert str(caught.value) == (
        f"the config of this clearhead model: transformer must be a group of keys, got {told!r}"
    )


def test_another_key_beside_it_is_refused() -> None:
    keys = own_keys(TransformerConfig(**SIZES)) | {"dtype": "float32", "hidden_size": 3}
    with pytest.raises(CheckpointError) as caught:
        described(keys)
    assert str(caught.value) == (
        "the config of this clearhead model: hidden_size is not known here, got 3"
    )
