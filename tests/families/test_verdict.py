from types import SimpleNamespace

import pytest
import torch

import clearhead as ch
from families import verdict as judged
from families.verdict import TOLERANCE, verdict


def test_a_family_that_agrees_is_traced() -> None:
    made = verdict("llama", "causal")
    assert (made.kind, made.layers, made.why) == ("traced", 4, "")
    assert made.class_name == "LlamaForCausalLM"
    assert made.error is not None
    assert 0 < made.error <= TOLERANCE


def test_every_attention_of_an_encoder_decoder_counts() -> None:
    made = verdict("t5", "seq2seq")
    assert (made.kind, made.layers, made.why) == ("traced", 8, "")  # of which two stacks have four


def test_a_family_that_is_refused_says_why() -> None:
    made = verdict("mamba", "causal")
    assert (made.kind, made.layers, made.error) == ("refused", 0, None)
    assert made.why.startswith("MambaForCausalLM cannot be traced")


def test_a_family_that_cannot_be_made_says_why() -> None:
    made = verdict("gemma4_unified_assistant", "causal")
    assert made.kind == "not made"
    assert made.why.startswith("its first run: ")


def test_a_trace_of_other_numbers_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def shifted(*given: object, **named: object) -> object:
        made = ch.trace(*given, **named)
        return SimpleNamespace(layers=(), next_logits=made.next_logits + 1)

    monkeypatch.setattr(judged, "trace", shifted)
    made = verdict("llama", "causal")
    assert made.kind == "WRONG"
    assert made.error == pytest.approx(1)
    assert made.why == ("weights were not compared: eager attention ran 4 times for 0 all layers")


def test_an_error_that_is_not_ours_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> object:
        raise TypeError("no mask\nat all")

    monkeypatch.setattr(judged, "trace", failing)
    made = verdict("llama", "causal")
    assert (made.kind, made.why) == ("WRONG", "TypeError: no mask at all")


def test_another_shape_and_nan_differ_without_bound() -> None:
    one = torch.zeros(2)
    assert judged._difference(one, torch.zeros(3)) == torch.inf
    assert judged._difference(one, torch.full((2,), torch.nan)) == torch.inf
    assert judged._difference(torch.full((2,), torch.nan), one) == torch.inf
    assert judged._difference(one, torch.ones(2)) == 1
