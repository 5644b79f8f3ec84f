"""The answer: what the model writes, most probable token by token, and the trace of its rows."""

from dataclasses import replace

import pytest
import torch

import clearhead as ch
from clearhead.errors import InputError, TraceError, UnsupportedError
from clearhead.report.documents.answering import check_answers, traced, write_answer
from tests.tracing.shapes import ALONE

PROMPT = [5, 9, 200, 7, 33, 90, 41]


def words_of(model):
    return model.clearhead_tokenizer


@pytest.mark.parametrize("name", ["Llama", "GPT-2", "Gemma", "ALiBi", "sinks"])
def test_it_is_what_generate_writes_and_the_prompt_is_read_once(name, reader):
    model = reader(name)
    made = write_answer(model, PROMPT, words_of(model), most=9)
    plain = ch.generate(model, PROMPT, max_new_tokens=9, end_tokens=())
    assert made.ids == plain.token_ids
    assert made.text == plain.text
    assert made.ended_by == "max_new_tokens"
    read = counted(model)
    found = traced(*(model, PROMPT, made.ids), cache=made.cache, layers=None, words=words_of(model))
    assert read == [9]
    assert found.token_ids == (*PROMPT, *made.ids)
    assert found.queries.tolist() == list(range(7, 16))
    whole = ch.trace(model, [*PROMPT, *made.ids], queries=slice(7, None))
    for ours, theirs in zip(found, whole, strict=True):
        assert (ours.weights.to_dense() - theirs.weights.to_dense()).abs().max() < 1e-5


def counted(model) -> list[int]:
    """How many tokens each call of a model reads, from now on."""
    read: list[int] = []
    model.register_forward_pre_hook(
        lambda _module, given, _more: read.append(given[0].shape[1]), with_kwargs=True
    )
    return read


def with_a_turn(write) -> tuple[list[int], tuple[int, ...], int]:
    """A prompt, its answer, and the place of an answer's token that the answer lacked so far."""
    for last in range(5, 90):
        prompt = [*PROMPT, last]
        ids = write(prompt)
        new = [place for place in range(1, len(ids)) if ids[place] not in ids[:place]]
        if new:
            return prompt, ids, new[0]
    raise AssertionError("every answer repeats its first token")


def test_the_token_that_ends_it_is_none_of_it(reader):
    model = reader()
    prompt, ids, end = with_a_turn(
        lambda prompt: ch.generate(model, prompt, max_new_tokens=6, end_tokens=()).token_ids
    )
    words_of(model)._special_tokens["eos_token"] = words_of(model)._spelled(ids[end])
    made = write_answer(model, prompt, words_of(model), most=9)
    assert made.ids == ids[:end]
    assert made.ended_by == "end_token"
    found = traced(*(model, prompt, made.ids), cache=made.cache, layers=[1], words=words_of(model))
    assert found.token_ids == (*prompt, *ids[:end])
    assert found.layers == (1,)


def test_an_answer_that_ends_at_once_is_refused(reader, monkeypatch):
    from clearhead.transformer.generation import asking
    from clearhead.transformer.generation.endings import Endings

    model = reader()
    everything = tuple(range(261))
    monkeypatch.setattr(asking, "endings_of", lambda _model, _words: Endings(end=everything))
    with pytest.raises(InputError) as raised:
        write_answer(model, PROMPT, words_of(model), most=9)
    assert str(raised.value) == (
        "the model's answer is empty: it ended as soon as it began; give an answer to look at, or "
        "ask otherwise"
    )


def test_a_model_of_transformers_answers_with_its_own_generate(tiny_llama, reader, tmp_path):
    words = words_of(reader())
    tiny_llama.save_pretrained(tmp_path)
    ours = ch.from_pretrained(tmp_path, engine="clearhead")
    tiny_llama.generation_config.eos_token_id = None

    def write(prompt: list[int]) -> tuple[int, ...]:
        made = write_answer(tiny_llama, prompt, words, most=6)
        plain = ch.generate(ours, prompt, max_new_tokens=6, end_tokens=(), tokenizer=words)
        assert (made.ids, made.text, made.cache) == (plain.token_ids, plain.text, None)
        assert made.ended_by == "max_new_tokens"
        return made.ids

    prompt, ids, end = with_a_turn(lambda prompt: write([token % 99 for token in prompt]))
    prompt = [token % 99 for token in prompt]
    found = traced(*(tiny_llama, prompt, ids), cache=None, layers=None, words=words)
    assert found.queries.tolist() == list(range(len(prompt), len(prompt) + 6))
    for named in (ids[end], [ids[end], 298]):
        tiny_llama.generation_config.eos_token_id = named
        again = write_answer(tiny_llama, prompt, words, most=6)
        assert (again.ids, again.ended_by) == (ids[:end], "end_token")


def test_a_model_of_transformers_answers_greedily_whatever_its_own_settings_say(tiny_llama, reader):
    words = words_of(reader())
    tiny_llama.generation_config.eos_token_id = None
    prompt = [5, 5, 5, 9, 5, 9]
    tokens = list(prompt)
    for _ in range(8):
        with torch.no_grad():
            tokens.append(int(tiny_llama(torch.tensor([tokens])).logits[0, -1].argmax()))
    own = tiny_llama.generation_config
    own.repetition_penalty, own.no_repeat_ngram_size = 5.0, 1
    own.suppress_tokens, own.forced_eos_token_id = [tokens[6]], 3
    made = write_answer(tiny_llama, prompt, words, most=8)
    assert made.ids == tuple(tokens[6:])
    assert tiny_llama.generation_config is own


def test_what_a_window_forgot_is_read_again(reader):
    model = reader("Gemma", context_length=None)
    prompt = [(7 * place) % 250 + 3 for place in range(400)]
    made = write_answer(model, prompt, words_of(model), most=3)
    read = counted(model)
    found = traced(*(model, prompt, made.ids), cache=made.cache, layers=None, words=words_of(model))
    assert read == [403]
    assert found.queries.tolist() == [400, 401, 402]
    assert found[0].key.shape[1] == 403


def test_a_model_that_looks_both_ways_is_refused(reader, tiny_bert, draw):
    model = draw(replace(ALONE["BERT"], vocabulary_size=261))
    for one, name in ((model, "ours"), (tiny_bert, "theirs"), (object(), "none")):
        with pytest.raises(UnsupportedError) as raised:
            check_answers(one, name)
        assert str(raised.value) == (
            f"{name} predicts no next token, so that it gives no answer to look at; a model that "
            "does is needed, such as from_pretrained('smollm2')"
        )
    check_answers(reader(), "a decoder")
    with pytest.raises(TraceError) as refused:
        traced(*(model, PROMPT, [5]), cache=None, layers=None, words=words_of(reader()))
    assert str(refused.value) == (
        "Transformer lets tokens look at later ones, so that what its answer drew from the prompt "
        "is not what it drew while it was written"
    )


@pytest.fixture
def draw(seeded_weights):
    from tests.tracing.shapes import drawn

    return drawn
