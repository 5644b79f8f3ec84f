"""From the last vectors to a score for every token, by hand."""

import math

import pytest
import torch

from clearhead.transformer.logits import Logits
from tests.accuracy import assert_double
from tests.transformer.test_config import config


@pytest.fixture
def x(generator):
    return torch.randn(2, 5, 32, dtype=torch.float64, generator=generator)


def test_logits_are_products_with_a_row_a_token(x, seeded_weights):
    part = Logits(config()).double()
    assert part.weight.shape == (99, 32)
    assert (part.bias, part.transform, part.norm) == (None, None, None)
    assert torch.equal(part(x), torch.nn.functional.linear(x, part.weight))


def test_everything_at_once_by_hand(x, seeded_weights):
    made = config(
        logits_transform=True, logits_bias=True, logits_scale=0.3, logits_softcap=2.0,
        norm="layer", norm_epsilon=1e-5, activation="gelu",
    )  # fmt: skip
    part = Logits(made).double()
    for parameter in part.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    y = x @ part.transform.weight.T + part.transform.bias
    y = y * (1 + torch.erf(y / math.sqrt(2))) / 2
    mean, variance = y.mean(-1, keepdim=True), y.var(-1, keepdim=True, correction=0)
    y = (y - mean) / (variance + 1e-5).sqrt() * part.norm.weight + part.norm.bias
    raw = 0.3 * y @ part.weight.T + part.bias
    got = part(x)
    assert_double(got, 2.0 * torch.tanh(raw / 2.0))
    assert raw.abs().max() > 2.0 > got.abs().max()


def test_the_head_of_bert_is_bit_for_bit_that_of_transformers(seeded_weights):
    from transformers import BertConfig
    from transformers.models.bert.modeling_bert import BertLMPredictionHead

    theirs = BertLMPredictionHead(BertConfig(hidden_size=32, vocab_size=99))
    ours = Logits(
        config(
            logits_transform=True,
            logits_bias=True,
            norm="layer",
            norm_epsilon=1e-12,
            activation="gelu",
        )
    )
    ours.transform, ours.norm = theirs.transform.dense, theirs.transform.LayerNorm
    ours.weight.data, ours.bias.data = theirs.decoder.weight.data, torch.randn(99)
    theirs.decoder.bias.data = ours.bias.data
    x = torch.randn(2, 5, 32)
    assert torch.equal(ours(x), theirs(x))
