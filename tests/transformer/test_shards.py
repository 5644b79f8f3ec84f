"""Parameters under a family's names, dealt out to files of a size."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from clearhead.errors import InputError
from clearhead.positions.kinds import Learned
from clearhead.transformer.config import TransformerConfig
from clearhead.transformer.families.known import FAMILIES
from clearhead.transformer.families.own import OWN
from clearhead.transformer.model import Transformer
from clearhead.transformer.shards import commonest_dtype, cut, pieces_of, size_in_bytes, write


def model_of(**changed: Any) -> Transformer:
    sizes: dict[str, Any] = {"vocabulary_size": 30, "context_length": 8, "d_model": 16, "d_ff": 24}
    return Transformer(TransformerConfig(**sizes | {"layers": 2, "heads": 2} | changed))


def test_shared_parameters_are_one_piece() -> None:
    model = model_of(tied_embeddings=True)
    names = [piece.name for piece in pieces_of(model, FAMILIES["llama"])]
    assert names[0] == "model.embed_tokens.weight"
    assert "lm_head.weight" not in names
    assert len(names) == len(set(names)) == len(list(model.parameters()))


def test_a_model_without_a_head_has_no_prefix() -> None:
    names = [piece.name for piece in pieces_of(model_of(predicts=False), FAMILIES["llama"])]
    assert names[:2] == ["embed_tokens.weight", "layers.0.self_attn.q_proj.weight"]


def test_a_piece_is_what_its_tensors_make() -> None:
    model = model_of()
    piece = pieces_of(model, OWN)[0]
    weights = model.token_embedding.weight
    assert (piece.name, piece.shape, piece.kind) == ("token_embedding.weight", (30, 16), "F32")
    assert piece.nbytes == 4 * weights.numel()
    assert bytes(piece.content(heads=2)) == weights.detach().numpy().tobytes()


def test_several_of_ours_in_one_of_theirs(tmp_path: Path) -> None:
    layers = {"norm": "layer", "gated": False, "feed_forward_bias": True, "input_bias": True}
    model = model_of(**layers, output_bias=True, positions=Learned())
    write([pieces_of(model, FAMILIES["gpt2"])], tmp_path, heads=2)
    read = load_file(tmp_path / "model.safetensors")
    attention = model.layers[1].attention
    parts = [attention.to_query, attention.to_key, attention.to_value]
    joined = torch.cat([part.weight for part in parts]).T
    assert torch.equal(read["transformer.h.1.attn.c_attn.weight"], joined)
    bias = torch.cat([part.bias for part in parts])
    assert torch.equal(read["transformer.h.1.attn.c_attn.bias"], bias)


def test_a_model_on_fewer_bits_says_so() -> None:
    model = model_of().bfloat16()
    model.final_norm.float()
    assert commonest_dtype(pieces_of(model, OWN)) == "bfloat16"


@pytest.mark.parametrize("limit", [1, 1000, 2000, 10**9])
def test_files_keep_the_order_and_the_limit(limit: int) -> None:
    pieces = pieces_of(model_of(), OWN)
    files = cut(pieces, limit)
    assert [piece for held in files for piece in held] == pieces
    for held in files:
        assert len(held) == 1 or sum(piece.nbytes for piece in held) <= limit
    for held, following in pairwise(files):
        assert sum(piece.nbytes for piece in held) + following[0].nbytes > limit


def test_several_files_have_an_index(tmp_path: Path) -> None:
    pieces = pieces_of(model_of(), OWN)
    names = write(cut(pieces, 2000), tmp_path, heads=2)
    index = json.loads((tmp_path / names[0]).read_text())
    assert names[0] == "model.safetensors.index.json"
    assert index["metadata"] == {"total_size": sum(piece.nbytes for piece in pieces)}
    assert list(index["weight_map"]) == [piece.name for piece in pieces]
    for name in names[1:]:
        told = {key for key, file in index["weight_map"].items() if file == name}
        assert load_file(tmp_path / name).keys() == told


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (7, 7),
        ("7B", 7),
        ("5GB", 5 * 10**9),
        ("1.5 kb", 1500),
        ("2MiB", 2 * 2**20),
        ("1TB", 10**12),
        (" 3 KB ", 3000),
    ],
)
def test_sizes_in_words(size: int | str, expected: int) -> None:
    assert size_in_bytes(size) == expected


def test_faults_are_told_at_once() -> None:
    model = model_of(layers=1)
    model.final_norm = nn.LayerNorm(16)
    model.token_embedding.weight.data = torch.ones(30, 16, dtype=torch.float8_e4m3fn)
    with pytest.raises(InputError) as caught:
        pieces_of(model, OWN)
    assert str(caught.value) == (
        "this model cannot be saved, 2 faults:\n"
        "  - unexpected final_norm.bias\n"
        "  - token_embedding.weight holds torch.float8_e4m3fn, expected one of torch.float64, "
        "torch.float32, torch.float16, torch.bfloat16"
    )
