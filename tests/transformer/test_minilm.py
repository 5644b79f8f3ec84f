"""MiniLM says of sentences what transformers makes of the same weights."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from clearhead.transformer.checkpoint import from_pretrained

SENTENCES = ["cat", "kitten", "stock market"]


@torch.no_grad()
def vectors(model: nn.Module, texts: list[str]) -> Tensor:
    """Of each text the mean of its tokens' last vectors, of length 1, as the model was trained."""
    ids = [model.clearhead_tokenizer.encode(text) for text in texts]
    width = max(map(len, ids))
    real = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in ids])
    padded = torch.tensor([row + [0] * (width - len(row)) for row in ids])
    out = model(padded, attention_mask=real)
    last = out.hidden if hasattr(out, "hidden") else out.last_hidden_state
    assert isinstance(last, Tensor)
    mean = (last * real[..., None]).sum(1) / real.sum(1, keepdim=True)
    return nn.functional.normalize(mean, dim=-1)


@pytest.mark.real_model
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_cat_is_nearer_to_a_kitten_than_to_the_stock_market(
    dtype: str, minilm_folder: Path
) -> None:
    ours, theirs = (
        vectors(from_pretrained("minilm", engine=engine, dtype=dtype), SENTENCES)
        for engine in ("clearhead", "transformers")
    )
    torch.testing.assert_close(ours @ ours.T, theirs @ theirs.T)
    kitten, market = (ours @ ours.T)[0, 1:].tolist()
    assert kitten > 0.7
    assert market < 0.4
    # padding is of no account: each alone says the same
    model = from_pretrained("minilm", dtype=dtype)
    alone = torch.cat([vectors(model, [text]) for text in SENTENCES])
    torch.testing.assert_close(alone, ours)
