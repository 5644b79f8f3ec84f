"""What is asked for is checked before anything is read; every refusal in words."""

import pytest
import torch
from torch import nn

from clearhead.errors import InputError, TokenError, UnsupportedError
from clearhead.tokens.tokenizer import TextTokenizer
from clearhead.transformer.generation import asking
from clearhead.transformer.generation.asking import Asked, prepare
from clearhead.transformer.generation.rereading import OutgrowingReader
from clearhead.transformer.generation.settings import Sampling
from tests.tokens import tiny as tokenizers
from tests.transformer.generation.test_rereading import SCALED
from tests.transformer.tiny_models import tiny

WORDS = TextTokenizer.wrap(tokenizers.byte_level())


def refused(model: nn.Module, prompt: object = (1, 2), **asked: object) -> str:
    """The words of a refusal, before the model was run."""
    model.register_forward_pre_hook(lambda *_: pytest.fail("the model was run"))
    with pytest.raises((InputError, UnsupportedError)) as caught:
        prepare(model, prompt, Asked(**{"sampling": Sampling(), **asked}))
    return str(caught.value)


def test_all_faults_are_told_at_once() -> None:
    told = refused(
        tiny(),
        sampling=Sampling(temperature=-1, top_k=0),
        max_new_tokens=0,
        stop=["a", ""],
        end_tokens=[29],
        start_tokens=3,
    )
    assert told == (
        "cannot generate, 7 faults:\n"
        "  - max_new_tokens must be a whole number of at least 1, got 0\n"
        "  - temperature must be 0 (the most probable token) or a positive number, got -1\n"
        "  - top_k must be a whole number of at least 1, got 0\n"
        "  - stop must be a text or several, none of them empty, got ''\n"
        "  - stop: this model brings no tokenizer to find a text with: give tokenizer=\n"
        "  - end_tokens must be token ids from 0 to 28, got [29]\n"
        "  - start_tokens: this model has no encoder; what it begins with is the prompt"
    )


@pytest.mark.parametrize("given", [1.5, "x", True, torch.tensor([1])])
def test_what_lists_no_tokens(given) -> None:
    listed = [given] if isinstance(given, float | bool) else list(given)
    for name in ("end_tokens", "start_tokens"):
        told = refused(tiny("norms around"), **{name: given})
        assert told == f"cannot generate: {name} must be token ids from 0 to 28, got {listed}"


@pytest.mark.parametrize("given", [5, None, [5]])
def test_what_is_no_stop_string(given) -> None:
    got = given[0] if isinstance(given, list) else given
    assert refused(tiny(), stop=given, tokenizer=WORDS) == (
        f"cannot generate: stop must be a text or several, none of them empty, got {got}"
    )


def test_models_that_predict_no_next_token() -> None:
    end = (
        ", and predicts no next token; a decoder that predicts is needed, such as "
        "from_pretrained('smollm2')"
    )
    assert refused(tiny("masked")) == f"generate: this model is an encoder{end}"
    assert refused(tiny(predicts=False)) == (
        f"generate: this model is a decoder without logits{end}"
    )


def test_models_that_are_not_ours(tiny_gpt2) -> None:
    assert refused(tiny_gpt2) == (
        "generate: GPT2LMHeadModel is transformers' own model: call its model.generate(...), or "
        'load it with engine="clearhead" where that reads it'
    )
    told = "model: expected a clearhead Transformer, got Linear"
    assert refused(nn.Linear(1, 1)) == told


def test_a_decoder_with_an_encoder_begins_somewhere() -> None:
    assert refused(tiny("norms around")) == (
        "start_tokens: this model writes with a decoder of its own, and nothing says which token "
        "that begins with: give its id"
    )
    told = refused(tiny("norms around"), [1] * 65, start_tokens=0)
    assert "the prompt has 65 tokens, and the encoder reads at most 64" in told


def test_one_text_is_one_prompt_with_text() -> None:
    assert refused(tiny(), one_text=True) == (
        "cannot generate: stream: this model brings no tokenizer to make text with: give tokenizer="
    )
    assert refused(tiny(), [[1], [2, 3]], one_text=True, tokenizer=WORDS) == (
        "stream: expected one prompt, got a list of 2; generate continues several"
    )


def test_too_long_a_prompt_is_no_work() -> None:
    model = tiny()
    model.register_forward_pre_hook(lambda *_: pytest.fail("the model was run"))
    with pytest.raises(
        TokenError, match="the prompt has 64 tokens, and the model reads at most 64"
    ):
        prepare(model, [1] * 64, Asked(Sampling()))


def test_too_little_memory_is_told_with_need_and_available(monkeypatch) -> None:
    monkeypatch.setattr(asking, "available_bytes", lambda: 10_000)
    # 3 layers · 2 rows · 2 heads · (4 + 4) · 62 slots · 8 bytes
    assert refused(tiny(), [[1], [1, 2]], max_new_tokens=60) == (
        "not enough memory: this takes 0.0476 MB for a cache of 2 × 62 tokens, and 0.01 MB are "
        "available; ask for fewer tokens or rows, or load the model in a smaller dtype"
    )


def test_a_stop_string_that_names_a_control_token_is_one() -> None:
    model = tiny(vocabulary_size=300)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    writing, _ = prepare(
        model, [5], Asked(Sampling(), tokenizer=WORDS, stop=["<s>"], max_new_tokens=3)
    )
    (found,) = writing.whole()  # all logits are equal, and 0 is the first
    assert (found.stopped_by, found.stopped_at, found.text) == ("end_token", 0, "")


def test_a_cache_is_as_long_as_it_must_be() -> None:
    writing, _ = prepare(tiny(), [[1] * 5, [1] * 9], Asked(Sampling(), max_new_tokens=7))
    assert writing._reader._cache.capacity == 16
    model = tiny(positions=SCALED, context_length=48)
    writing, _ = prepare(model, [1] * 5, Asked(Sampling(), max_new_tokens=7))
    assert writing._reader._cache.capacity == 12
    writing, _ = prepare(model, [1] * 5, Asked(Sampling(), max_new_tokens=8))
    assert isinstance(writing._reader, OutgrowingReader)
