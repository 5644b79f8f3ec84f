"""Released models are loaded strictly: every tensor used, none missing, whatever it is called."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from clearhead.errors import CheckpointError
from clearhead.transformer.config import TransformerConfig
from clearhead.transformer.model_folder import read_folder
from clearhead.transformer.released import outline
from tests.transformer.released_families import RELEASED, loaded, made, saved
from tests.transformer.tiny_models import tiny_config


def rewrite(folder: Path, **changed: Tensor | None) -> None:
    """Change some tensors of a checkpoint; None takes one out."""
    file = folder / "model.safetensors"
    tensors = {**load_file(file), **changed}
    kept = {name: tensor.clone() for name, tensor in tensors.items() if tensor is not None}
    save_file(kept, file)


def tensors_of(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model.safetensors")


def refused(folder: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        loaded(folder)
    return str(caught.value)


def same(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    left, right = one.state_dict(), other.state_dict()
    return left.keys() == right.keys() and all(torch.equal(left[n], right[n]) for n in left)


@pytest.fixture
def llama(seeded_weights, tmp_path):
    return saved(made("llama"), tmp_path)


# ----------------------------------------------------------------------------- every tensor is used


@pytest.mark.parametrize("variant", RELEASED)
def test_every_number_of_a_checkpoint_is_in_the_model(variant, seeded_weights, tmp_path):
    theirs = made(variant)
    model = loaded(saved(theirs, tmp_path))
    count = sum(tensor.numel() for tensor in tensors_of(tmp_path).values())
    # buffers: the table of places of BERT; BART's final bias is a buffer there and a weight here
    assert sum(weight.numel() for weight in model.parameters()) == count
    stored = torch.cat([t.flatten() for t in tensors_of(tmp_path).values()]).sort().values
    ours = torch.cat([weight.detach().flatten() for weight in model.parameters()]).sort().values
    assert torch.equal(ours, stored)
    assert not model.training
    assert not list(model.buffers())
    assert {weight.device.type for weight in model.parameters()} == {"cpu"}


def test_every_wrong_tensor_is_listed(llama):
    rewrite(
        llama,
        **{
            "model.layers.1.self_attn.q_proj.weight": None,
            "model.norm.weight": torch.zeros(31),
            "model.layers.0.mlp.up_proj.weight": torch.zeros(48, 32, dtype=torch.int8),
            "score.weight": torch.zeros(1),
        },
    )
    assert refused(llama) == (
        f"the weights in {llama} do not fit, 4 faults:\n"
        "  - missing model.layers.1.self_attn.q_proj.weight (32, 32)\n"
        "  - unexpected score.weight\n"
        "  - model.layers.0.mlp.up_proj.weight holds I8, expected floating-point numbers\n"
        "  - model.norm.weight has shape (31,), expected (32,)"
    )


def test_tensors_that_are_laid_out_together_are_checked_together(seeded_weights, tmp_path):
    folder = saved(made("gpt2"), tmp_path)
    name = "transformer.h.0.attn.c_attn.weight"
    rewrite(folder, **{name: tensors_of(folder)[name].mT.contiguous()})
    assert refused(folder) == (
        f"the weights in {folder} do not fit: {name} has shape (96, 32), expected (32, 96)"
    )


def test_more_layers_than_tensors_are_refused_before_they_are_built(llama):
    file = llama / "config.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps({**config, "num_hidden_layers": 10**9}))
    with pytest.raises(CheckpointError, match=r"1,000,000,000.* tensors: that cannot be"):
        read_folder(llama)


def test_tensors_that_cannot_be_are_refused(tmp_path):
    config = TransformerConfig(**{**vars(tiny_config()), "d_ff": 2**62})
    with pytest.raises(CheckpointError) as caught:
        outline(config, tmp_path / "config.json")
    assert str(caught.value).startswith(
        f"{tmp_path / 'config.json'} describes tensors that cannot be: "
    )


def test_a_config_that_is_refused_stops_the_loading(llama):
    file = llama / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "attn_cap": 3}))
    assert refused(llama) == "the config of this llama model: attn_cap is not known here, got 3"


# ------------------------------------------------------------------------------- names and twins


@pytest.mark.parametrize(
    "variant", ["llama", "gpt2", "gpt_neox parallel, partial", "bert", "distilbert", "roberta"]
)
def test_a_headless_checkpoint_has_no_prefix(variant, seeded_weights, tmp_path):
    # without a head BERT has a pooler, which its model with a head has not
    headless = f"{variant} headless"
    theirs = made(headless if headless in RELEASED else variant)
    model = loaded(saved(theirs.base_model, tmp_path / "bare"))
    prefix = theirs.base_model_prefix
    assert not any(name.startswith(f"{prefix}.") for name in tensors_of(tmp_path / "bare"))
    assert model.to_logits is None
    # with its prefix it is the same model
    named = {f"{prefix}.{name}": t.clone() for name, t in tensors_of(tmp_path / "bare").items()}
    save_file(named, tmp_path / "bare" / "model.safetensors")
    assert same(loaded(tmp_path / "bare"), model)


def test_a_name_with_another_prefix_is_unexpected(llama):
    tensors = {f"strange.{name}": tensor for name, tensor in tensors_of(llama).items()}
    save_file(tensors, llama / "model.safetensors")
    said = refused(llama)
    assert "missing layers.0.self_attn.q_proj.weight (32, 32)" in said
    assert "unexpected strange.model.layers.0.self_attn.q_proj.weight" in said


@pytest.mark.parametrize(
    ("variant", "twin", "name"),
    [
        ("llama tied", "lm_head.weight", "model.embed_tokens.weight"),
        ("gemma2 windows", "lm_head.weight", "model.embed_tokens.weight"),
        ("gpt2", "lm_head.weight", "transformer.wte.weight"),
        ("gpt_neox tied", "embed_out.weight", "gpt_neox.embed_in.weight"),
        ("bert", "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
        ("bert", "cls.predictions.decoder.bias", "cls.predictions.bias"),
        ("roberta", "lm_head.decoder.bias", "lm_head.bias"),
        ("distilbert", "vocab_projector.weight", "distilbert.embeddings.word_embeddings.weight"),
        ("t5", "encoder.embed_tokens.weight", "shared.weight"),
        ("t5 untied, wide heads", "decoder.embed_tokens.weight", "shared.weight"),
        ("bart", "model.decoder.embed_tokens.weight", "model.shared.weight"),
    ],
)
def test_a_twin_may_be_there_too_or_instead_but_not_differ(
    variant, twin, name, seeded_weights, tmp_path
):
    folder = saved(made(variant), tmp_path)
    plain, value = loaded(folder), tensors_of(folder)[name]
    rewrite(folder, **{twin: value})
    assert same(loaded(folder), plain)
    rewrite(folder, **{twin: value, name: None})
    assert same(loaded(folder), plain)
    rewrite(folder, **{twin: value + 1, name: value})
    assert refused(folder) == (
        f"the weights in {folder} do not fit: {twin} differs from {name}, though the config ties "
        "them"
    )


def test_what_is_tied_is_one_tensor(seeded_weights, tmp_path):
    for variant in ("llama tied", "t5", "bart", "bert"):
        model = loaded(saved(made(variant), tmp_path / variant))
        assert model.to_logits.weight is model.token_embedding.weight
        if model.encoder is not None:
            assert model.encoder.token_embedding.weight is model.token_embedding.weight


def test_a_head_of_its_own_is_no_twin(llama):
    model = loaded(llama)
    assert not torch.equal(model.to_logits.weight, model.token_embedding.weight)


@pytest.mark.parametrize(
    ("variant", "name"),
    [
        ("llama", "model.layers.2.self_attn.rotary_emb.inv_freq"),
        ("mistral", "model.layers.0.self_attn.rotary_emb.inv_freq"),
        ("gpt2", "transformer.h.1.attn.bias"),
        ("gpt2", "transformer.h.1.attn.masked_bias"),
        ("gpt_neox serial", "gpt_neox.layers.0.attention.bias"),
        ("gpt_neox serial", "gpt_neox.layers.0.attention.masked_bias"),
        ("gpt_neox serial", "gpt_neox.layers.0.attention.rotary_emb.inv_freq"),
        ("bert", "bert.embeddings.position_ids"),
        ("bert", "cls.seq_relationship.weight"),
        ("bert", "bert.pooler.dense.bias"),
        ("bert headless", "embeddings.position_ids"),
        ("roberta", "roberta.embeddings.position_ids"),
        ("roberta", "roberta.pooler.dense.weight"),
        ("t5", "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"),
    ],
)
def test_what_changes_nothing_may_be_there(variant, name, seeded_weights, tmp_path):
    folder = saved(made(variant), tmp_path)
    plain = loaded(folder)
    rewrite(folder, **{name: torch.ones(3, dtype=torch.int64)})
    assert same(loaded(folder), plain)
    rewrite(folder, **{name: None, f"{name}s": torch.ones(3)})
    assert refused(folder) == f"the weights in {folder} do not fit: unexpected {name}s"


def test_the_pooler_that_is_used_is_no_leftover(seeded_weights, tmp_path):
    folder = saved(made("bert headless"), tmp_path)
    rewrite(folder, **{"pooler.dense.bias": None})
    assert refused(folder) == (
        f"the weights in {folder} do not fit: missing pooler.dense.bias (32,)"
    )


@pytest.mark.parametrize("variant", ["bert", "bert headless"])
def test_norms_of_the_first_berts_have_gamma_and_beta(variant, seeded_weights, tmp_path):
    folder = saved(made(variant), tmp_path)
    plain = loaded(folder)
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in tensors_of(folder).items()
    }
    assert sum(name.endswith("gamma") for name in old) >= 5
    save_file(old, folder / "model.safetensors")
    assert same(loaded(folder), plain)


# ------------------------------------------------------------------------------ where numbers lie


def test_weights_of_the_files_dtype_stay_mapped_to_it(llama):
    model = loaded(llama)
    file = llama / "model.safetensors"
    content = file.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    with file.open("r+b") as opened:  # in place, which nobody should do
        opened.seek(begin)
        opened.write(bytes(len(content) - begin))
    assert not any(weight.any() for weight in model.parameters())


def test_weights_of_another_dtype_are_copies(llama):
    whole, model = loaded(llama), loaded(llama, torch.bfloat16)
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
    assert same(model, whole.bfloat16())


def test_shards_load_as_one(llama, tmp_path):
    from transformers import LlamaForCausalLM

    shards = tmp_path / "shards"
    LlamaForCausalLM.from_pretrained(llama).save_pretrained(shards, max_shard_size="10KB")
    assert len(list(shards.glob("*.safetensors"))) > 2
    assert same(loaded(shards), loaded(llama))


def test_loading_draws_no_numbers_and_imports_no_compiler(llama):
    code = (
        "import sys; from pathlib import Path; import torch; "
        "from clearhead.transformer.model_folder import read_folder; "
        "from clearhead.transformer.released import load_released; "
        "before = torch.get_rng_state(); "
        f"load_released(read_folder(Path({str(llama)!r})), dtype=torch.float32, device='cpu'); "
        "print(torch.equal(before, torch.get_rng_state()), "
        "'torch._dynamo' in sys.modules, 'transformers' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "False"]
