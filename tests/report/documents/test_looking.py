"""From what is asked to the answer's trace and its shares, on small models."""

import pytest

import clearhead as ch
from clearhead.errors import InputError, TokenError
from clearhead.report.documents.asking import Question
from clearhead.report.documents.looking import look_at_answer
from tests.report.documents.readers import PASSAGES

ASKED = Question(passages=PASSAGES, question="Who sang?", max_new_tokens=7)


def seen_by(model, asked=ASKED, **options):
    return look_at_answer(model, asked, **{"layers": None, "tokenizer": None, **options})


@pytest.mark.parametrize("name", ["Llama", "Gemma", "ALiBi"])
def test_shares_are_those_of_a_trace_that_reads_everything(name, reader):
    model = reader(name)
    seen = seen_by(model)
    documents = seen.documents
    answer = documents.answer
    assert (answer.stop - answer.start, answer.generated, answer.ended_by) == (
        *(7, True),
        "max_new_tokens",
    )
    assert answer.start == documents.prompt_tokens
    whole = ch.trace(model, list(seen.trace.token_ids))
    segments = {one.name: (one.start, one.stop) for one in documents.segments}
    for entry in documents.each:
        for by in ("contribution", "attention"):
            found = whole.sources(entry.position, by=by, segments=segments).segments
            drawn = getattr(entry, by)
            assert list(drawn.segments) == pytest.approx(
                [found[name] for name in segments], abs=1e-5
            )
            assert drawn.elsewhere + drawn.answer == pytest.approx(found["elsewhere"], abs=1e-5)
    assert seen.surveyed.rows == tuple(range(answer.start, answer.stop))


def test_sources_of_the_trace_take_the_same_segments(reader):
    seen = seen_by(reader())
    segments = {one.name: (one.start, one.stop) for one in seen.documents.segments}
    found = seen.trace.sources(seen.documents.answer.start, segments=segments)
    table = found.to_pandas()
    assert table.groupby("segment")["share"].sum()["two.txt"] == pytest.approx(
        seen.documents.each[0].contribution.segments[1], abs=1e-6
    )
    assert set(table["segment"]) == {*segments, "elsewhere"}


def test_a_given_answer_is_looked_at_as_it_is(reader):
    asked = Question(passages=PASSAGES, question="Who sang?", answer="he did")
    for model in (reader(), reader(template=None)):
        seen = seen_by(model, asked)
        answer = seen.documents.answer
        assert (answer.text, answer.generated, answer.ended_by) == ("he did", False, None)
        tokens = seen.trace.tokens[answer.start : answer.stop]
        assert "".join(tokens).strip() == "he did"
        assert seen.trace.queries.tolist() == list(range(answer.start, answer.stop))


def test_messages_and_texts_are_gone_on_with(reader):
    messages = [{"role": "system", "content": "he"}, {"role": "user", "content": "he</s>"}]
    seen = seen_by(reader(), Question(messages, answer="no"), layers=[1])
    assert [one.name for one in seen.documents.segments] == ["system 1", "user 2"]
    assert seen.documents.question is None
    assert seen.plain == {"user 2": ["</s>"]}
    assert seen.trace.layers == (1,)
    text = seen_by(reader(), Question("he sang", max_new_tokens=2))
    assert [one.name for one in text.documents.segments] == ["text"]
    assert text.documents.average.attention.elsewhere == 0


def test_a_token_of_the_prompt_is_refused(reader):
    seen = seen_by(reader(), Question(passages=PASSAGES, question="Who sang?", answer="she did"))
    start, stop = seen.documents.answer.start, seen.documents.answer.stop
    seen.check_token("did")
    seen.check_token(-1)
    with pytest.raises(TokenError) as raised:
        seen.check_token("sang")
    at = seen.trace.find("sang")
    assert str(raised.value) == (
        f"token 'sang' is token {at}, in the prompt: an answer is looked from its own tokens, "
        f"{start} to {stop - 1}"
    )
    with pytest.raises(TokenError) as raised:
        seen.check_token(0)
    assert str(raised.value).startswith("token 0 is in the prompt: an answer is looked from")


def test_what_does_not_fit_is_refused_before_anything_is_read(reader):
    model = reader(context_length=90)
    model.register_forward_pre_hook(lambda *_: pytest.fail("the model was run"))
    with pytest.raises(TokenError) as raised:
        seen_by(model)
    assert str(raised.value).startswith("the prompt takes ")
    assert "What does not fit: 'three' (" in str(raised.value)


def test_what_cannot_fit_is_refused_before_it_is_cut(reader, monkeypatch):
    model = reader(context_length=90)
    words = type(model.clearhead_tokenizer)
    monkeypatch.setattr(words, "placed", lambda *_, **__: pytest.fail("it was cut"))
    with pytest.raises(TokenError) as raised:
        seen_by(model, Question(passages={"a": "he " * 9000}, question="Who?"))
    assert str(raised.value).endswith("What does not fit: 'a' (27,000 bytes)")


@pytest.mark.parametrize("layers", [[7], []])
def test_layers_are_refused_before_anything_is_read(reader, layers):
    model = reader()
    model.register_forward_pre_hook(lambda *_: pytest.fail("the model was run"))
    with pytest.raises(InputError) as raised:
        seen_by(model, layers=layers)
    assert str(raised.value).startswith("layers must choose some of the model's ")


def test_names_of_control_tokens_in_a_given_answer_are_told(reader):
    seen = seen_by(reader(), Question("he</s>", answer="I am </s> him"))
    assert seen.plain == {None: ["</s>"]}


def test_models_without_a_tokenizer_are_refused(reader):
    model = reader()
    words = model.clearhead_tokenizer
    del model.clearhead_tokenizer
    with pytest.raises(InputError) as raised:
        seen_by(model)
    assert str(raised.value) == "this model brings no tokenizer: give tokenizer="
    assert seen_by(model, tokenizer=words).documents.answer.generated
