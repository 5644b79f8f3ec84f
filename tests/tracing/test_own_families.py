"""Our own Transformer with every family's weights: its traces are what transformers computes."""

import copy

import pytest
import torch

import clearhead as ch
from clearhead.tracing.encoder_decoder import EncoderDecoderTrace
from clearhead.tracing.trace import trace
from clearhead.transformer.model import Transformer
from tests.tracing.closeness import assert_as_near
from tests.tracing.families import OURS, made, with_attention
from tests.tracing.padding import padded

TARGET = torch.tensor([[2, 50, 6, 7, 50]])
ALONE = [name for name in OURS if name not in ("t5", "bart")]


def ours(theirs, folder) -> Transformer:
    theirs.save_pretrained(folder)
    model = ch.from_pretrained(folder, engine="clearhead")
    assert isinstance(model, Transformer)
    return model


def eager(model):
    return with_attention(model, "eager"), with_attention(copy.deepcopy(model).double(), "eager")


@torch.no_grad()
@pytest.mark.parametrize("family", ALONE)
def test_weights_and_logits_are_those_of_eager(family, seeded_weights, tmp_path, ids):
    theirs = made(OURS[family])
    found = trace(ours(theirs, tmp_path), ids)
    peer, truth = (model(ids, output_attentions=True) for model in eager(theirs))
    assert len(found.layers) == len(peer.attentions)
    for layer, near, true in zip(found, peer.attentions, truth.attentions, strict=True):
        assert_as_near(layer.weights.to_dense(), near[0], true[0])
    if found.causal:
        assert_as_near(found.next_logits, peer.logits[0, -1], truth.logits[0, -1])


@torch.no_grad()
@pytest.mark.parametrize("family", ["t5", "bart"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_so_they_are_of_encoder_decoders(family, side, seeded_weights, tmp_path, generator):
    theirs, (ids, real) = made(OURS[family]), padded(generator, side=side)
    model = ours(theirs, tmp_path)
    assert isinstance(trace(model, ids[0]), EncoderDecoderTrace)
    for row, found in enumerate(trace(model, ids, target=TARGET, attention_mask=real)):
        given = {"input_ids": ids[row, real[row].bool()][None], "decoder_input_ids": TARGET}
        peer, truth = (one(**given, output_attentions=True) for one in eager(theirs))
        for part, name in (
            (found.encoder, "encoder_attentions"),
            (found.decoder, "decoder_attentions"),
            (found.cross, "cross_attentions"),
        ):
            rows = zip(part, getattr(peer, name), getattr(truth, name), strict=True)
            for layer, near, true in rows:
                assert_as_near(layer.weights.to_dense(), near[0], true[0])
        assert_as_near(found.decoder.next_logits, peer.logits[0, -1], truth.logits[0, -1])


@pytest.mark.parametrize(("family", "start"), [("t5", (0,)), ("bart", (2, 0))])
def test_a_decoder_begins_as_its_files_say(family, start, seeded_weights, tmp_path):
    theirs = made(OURS[family])
    theirs.generation_config.forced_bos_token_id = start[1] if len(start) > 1 else None
    model = ours(theirs, tmp_path)
    assert trace(model, [5, 6, 7]).decoder.token_ids == start
