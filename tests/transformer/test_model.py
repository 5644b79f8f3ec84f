"""Our decoder: its laws, its places at the tap, what it refuses, and how strictly it loads."""

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from clearhead.errors import CheckpointError, InputError
from clearhead.pipeline.tap import Site, Tap, tapping
from clearhead.transformer.config import TransformerConfig
from clearhead.transformer.model import Transformer
from tests.transformer.tiny_llama import make, some_ids

# ------------------------------------------------------------------------------------------ laws


@torch.no_grad()
def test_a_later_token_never_reaches_an_earlier_one(plain_folder, generator):
    model, ids = Transformer.from_folder(plain_folder), some_ids(generator, 2, 40)
    changed = ids.clone()
    changed[:, 29:] = (changed[:, 29:] + 1) % 99
    before, after = model(ids).logits, model(changed).logits
    assert torch.equal(before[:, :29], after[:, :29])
    assert not torch.equal(before[:, 29:], after[:, 29:])


@torch.no_grad()
@pytest.mark.parametrize("side", ["left", "right"])
def test_what_stands_in_the_padding_changes_nothing(side, plain_folder, generator):
    model, ids = Transformer.from_folder(plain_folder), some_ids(generator, 2, 20)
    real = torch.ones(2, 20, dtype=torch.bool)
    real[1, slice(0, 6) if side == "left" else slice(14, 20)] = False
    other = torch.where(real, ids, (ids + 1) % 99)
    before, after = (model(i, attention_mask=real).logits for i in (ids, other))
    assert torch.equal(before[real], after[real])


@torch.no_grad()
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_amount_changes_nothing(side, plain_folder, generator):
    model = Transformer.from_folder(plain_folder, dtype=torch.float64)
    ids = some_ids(generator, 1, 9)
    alone = model(ids).logits
    for pads in (1, 7, 40):
        filling, ones = some_ids(generator, 1, pads), torch.ones(1, 9, dtype=torch.int64)
        order = slice(None, None, 1 if side == "left" else -1)
        padded = torch.cat((filling, ids)[order], dim=1)
        mask = torch.cat((torch.zeros_like(filling), ones)[order], dim=1)
        got = model(padded, attention_mask=mask).logits[mask.bool()]
        # Norms and angles round to float32 inside: equal up to rare last bits of those.
        assert (got - alone[0]).abs().max() <= 1e-10


@torch.no_grad()
def test_a_mask_of_ones_is_no_mask(plain_folder, generator):
    model, ids = Transformer.from_folder(plain_folder), some_ids(generator, 2, 20)
    ones = torch.ones_like(ids)
    assert torch.equal(model(ids).logits, model(ids, attention_mask=ones).logits)


def test_gradients_reach_every_weight(plain_folder, generator):
    model = Transformer.from_folder(plain_folder)
    model(some_ids(generator, 2, 8)).logits.square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    assert all(p.grad.any() for name, p in model.named_parameters() if "embedding" not in name)


# --------------------------------------------------------------------------------------- the tap


class Names(Tap):
    """Notes which site sends what."""

    def __init__(self) -> None:
        self.sites: list[Site] = []

    def visit(self, site: Site, quantity: str, value: torch.Tensor) -> torch.Tensor:
        if quantity == "query":
            self.sites.append(site)
        return value


@torch.no_grad()
def test_the_tap_sees_every_site_in_order_and_changes_no_bit(plain_folder, generator):
    model, ids, names = Transformer.from_folder(plain_folder), some_ids(generator, 2, 8), Names()
    with tapping(names):
        traced = model(ids).logits
    assert torch.equal(traced, model(ids).logits)
    assert tuple(names.sites) == model.sites()
    assert model.sites() == tuple(Site(i, "self", f"layers.{i}.attention") for i in range(3))
    for site in model.sites():
        weight, bias = model.output_projection(site)
        assert weight is model.get_submodule(site.name).to_output.weight
        assert bias is None


def test_a_site_of_another_model_is_refused(plain_folder):
    model, site = Transformer.from_folder(plain_folder), Site(3, "self", "layers.3.attention")
    with pytest.raises(InputError) as caught:
        model.output_projection(site)
    assert str(caught.value) == f"site must be one of this model's 3 sites, got {site}"


# -------------------------------------------------------------------------------------- bad input


def tiny(**changed: object) -> Transformer:
    sizes = {"vocabulary_size": 9, "context_length": 8, "d_model": 4, "d_ff": 4, "layers": 1}
    heads = {"heads": 1, "kv_heads": 1, "d_k": 4, "d_v": 4}
    return Transformer(TransformerConfig(**{**sizes, **heads, **changed}))


def test_ids_and_mask_that_do_not_fit_are_refused_together():
    with pytest.raises(InputError) as caught:
        tiny()(torch.tensor([[1, 9, -1]]), attention_mask=torch.ones(1, 2, dtype=torch.int64))
    assert str(caught.value) == (
        "the model cannot read this, 2 faults:\n"
        "  - attention_mask must have the shape of ids (1, 3), got (1, 2)\n"
        "  - ids must lie in 0 … 8, got -1 … 9"
    )


def test_ids_without_a_batch_axis_are_refused():
    with pytest.raises(InputError) as caught:
        tiny()(torch.tensor([1, 2]))
    assert str(caught.value) == "the model cannot read this: ids must be (batch, n), got shape (2,)"


def test_ids_that_are_no_whole_numbers_are_refused():
    with pytest.raises(InputError) as caught:
        tiny()(torch.tensor([[1.0]]))
    assert str(caught.value) == (
        "the model cannot read this: ids must be whole numbers, got torch.float32"
    )


@pytest.mark.parametrize(
    ("keep", "fault"),
    [
        (-1, "must be 0 (all) or how many last positions, got -1"),
        (torch.tensor([[0, 1]]), "must list positions, got shape (1, 2)"),
        (torch.tensor([0, -3]), "must lie in -2 … 1, got -3 … 0"),
        (torch.tensor([2]), "must lie in -2 … 1, got 2 … 2"),
    ],
)
def test_positions_that_are_not_there_are_refused(keep, fault):
    with pytest.raises(InputError) as caught:
        tiny()(torch.tensor([[1, 2]]), logits_to_keep=keep)
    assert str(caught.value) == f"the model cannot read this: logits_to_keep {fault}"


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_no_ids_give_no_logits(shape):
    assert tiny()(torch.zeros(shape, dtype=torch.int64)).logits.shape == (*shape, 9)


# ---------------------------------------------------------------------------------------- loading


@torch.no_grad()
def test_a_folder_in_shards_loads_the_same(plain_folder, generator, tmp_path):
    from transformers import LlamaForCausalLM

    ids, shards = some_ids(generator, 1, 9), tmp_path / "shards"
    theirs = LlamaForCausalLM.from_pretrained(plain_folder)
    theirs.save_pretrained(shards, max_shard_size="10KB")
    assert len(list(shards.glob("*.safetensors"))) > 2
    assert torch.equal(Transformer.from_folder(shards)(ids).logits, theirs(ids).logits)


def test_every_wrong_tensor_is_listed(plain_folder):
    file = plain_folder / "model.safetensors"
    tensors = load_file(file)
    del tensors["model.layers.1.self_attn.q_proj.weight"]
    tensors["model.norm.weight"] = torch.zeros(31)
    tensors["score.weight"] = torch.zeros(1)
    save_file(tensors, file)
    with pytest.raises(CheckpointError) as caught:
        Transformer.from_folder(plain_folder)
    assert str(caught.value) == (
        f"the weights in {plain_folder} do not fit, 3 faults:\n"
        "  - missing model.layers.1.self_attn.q_proj.weight (32, 32)\n"
        "  - unexpected score.weight\n"
        "  - model.norm.weight has shape (31,), expected (32,)"
    )


@torch.no_grad()
def test_tied_embeddings_are_one_tensor_and_checked(seeded_weights, generator, tmp_path):
    make(tie_word_embeddings=True).save_pretrained(tmp_path)
    model, ids = Transformer.from_folder(tmp_path), some_ids(generator, 1, 9)
    assert model.to_logits.weight is model.token_embedding.weight

    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    embedding = tensors["model.embed_tokens.weight"]
    save_file({**tensors, "lm_head.weight": embedding.clone()}, file)
    assert torch.equal(Transformer.from_folder(tmp_path)(ids).logits, model(ids).logits)

    save_file({**tensors, "lm_head.weight": embedding + 1}, file)
    with pytest.raises(CheckpointError) as caught:
        Transformer.from_folder(tmp_path)
    assert str(caught.value) == (
        f"the weights in {tmp_path} do not fit: lm_head.weight differs from "
        "model.embed_tokens.weight, though the config ties them"
    )


def test_a_loaded_model_is_ready_and_holds_no_leftover(plain_folder):
    model = Transformer.from_folder(str(plain_folder), dtype=torch.bfloat16)
    assert not model.training
    assert {(p.dtype, p.device.type) for p in model.parameters()} == {(torch.bfloat16, "cpu")}
    assert not list(model.buffers())


def test_loading_draws_no_numbers_and_imports_no_compiler(plain_folder):
    code = (
        "import sys; from clearhead.transformer.model import Transformer; "
        f"Transformer.from_folder({str(plain_folder)!r}); "
        "print('torch._dynamo' in sys.modules, 'transformers' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_a_config_that_is_refused_stops_the_loading(plain_folder):
    file = plain_folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "hidden_act": "gelu"}))
    with pytest.raises(CheckpointError) as caught:
        Transformer.from_folder(plain_folder)
    assert str(caught.value) == (
        "the config of this llama model: hidden_act is 'gelu', only 'silu' is known"
    )
