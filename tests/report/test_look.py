"""``look`` traces a text once and shows itself."""

import json

import pytest

import clearhead
from clearhead.errors import InputError
from clearhead.report.look import Look, look
from tests.report.documents.readers import reader
from tests.tracing.shapes import ACROSS, drawn


@pytest.fixture
def calls(monkeypatch, animal):
    """A library that loads and traces without a model; what it was asked for."""
    made = []

    def trace(model, text, **options):
        made.append((model, text, options))
        return [animal, animal] if isinstance(text, list) else animal

    def from_pretrained(name):
        made.append((name,))
        return f"<{name}>"

    monkeypatch.setitem(vars(clearhead), "from_pretrained", from_pretrained)
    monkeypatch.setitem(vars(clearhead), "trace", trace)
    return made


def test_a_model_is_traced_as_it_is_and_a_name_is_loaded(calls):
    model = object()
    look(model, "text", layers=[1], tokenizer="t")
    look("smollm2", "text")
    assert calls == [
        (model, "text", {"layers": [1], "tokenizer": "t"}),
        ("smollm2",),
        ("<smollm2>", "text", {"layers": None, "tokenizer": None}),
    ]


def test_it_shows_itself(calls, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    seen = look("smollm2", "text", token=" it", top=3)
    assert isinstance(seen, Look)
    assert "⟦it⟧ drew most from animal (token 1)" in repr(seen)
    assert str(seen) == repr(seen)
    assert not repr(seen).endswith("\n")
    assert seen._repr_html_().startswith("<div")
    assert json.loads(seen.to_json())["strip"]["target"] == 8
    assert len(seen.report.heads.rows) == 3


def test_a_batch_is_refused(calls):
    with pytest.raises(InputError) as raised:
        look("smollm2", ["a", "b"])
    assert str(raised.value) == (
        "text: expected one sequence; got a batch of 2; look at each on its own"
    )


def test_what_no_model_could_answer_is_refused_before_one_is_loaded(calls):
    with pytest.raises(InputError) as raised:
        look("smollm2", "text", by="size", top=0)
    assert str(raised.value) == (
        "cannot look, 2 faults:\n"
        "  - by: expected contribution or attention; got 'size'\n"
        "  - top: expected at least 1; got 0"
    )
    assert calls == []


def test_an_encoder_decoder_is_refused_before_it_runs(calls, seeded_weights):
    with pytest.raises(InputError) as raised:
        look(drawn(ACROSS["T5"]), "text")
    assert str(raised.value) == (
        "an encoder-decoder cannot be looked at yet: ask clearhead.trace(model, source, target=…) "
        "for its .cross.sources(token), the source tokens that a token of the target drew from"
    )
    assert calls == []


# ---------------------------------------------------------------------------------------- an answer


def test_an_answer_is_looked_at_from_its_first_token(seeded_weights):
    model = reader()
    seen = look(model, passages=["he", "she"], question="Who?", answer="he did", top=3)
    documents = seen.report.documents
    assert seen.report.strip.target == documents.answer.start
    assert [one.name for one in documents.segments] == ["passage 1", "passage 2", "question"]
    assert seen.report.notes[0].subject == "answer"
    assert len(seen.report.heads.rows) == 3
    later = look(model, passages=["he", "she"], question="Who?", answer="he did", token="did")
    assert later.report.strip.asked == "did"
    assert later.report.documents == documents


def test_it_is_saved_as_a_page(seeded_weights, tmp_path):
    seen = look(reader(), "he sang", max_new_tokens=3)
    values = seen.save(tmp_path / "page.html", command="a command")
    assert values.tree["command"] == "a command"
    assert values.tree["rows"] == list(seen.surveyed.rows)
    assert (tmp_path / "page.html").read_text("utf-8").count("a command") >= 1
    assert "surveyed" not in repr(seen)


def test_what_is_asked_wrongly_is_refused_before_a_model_is_loaded(calls):
    with pytest.raises(InputError) as raised:
        look("smollm2", "text", passages=[], answer="", by="size")
    assert str(raised.value) == (
        "cannot look, 4 faults:\n"
        "  - by: expected contribution or attention; got 'size'\n"
        "  - question= is missing: add what is asked about the passages\n"
        "  - answer= is empty\n"
        "  - passages= holds no passage"
    )
    assert calls == []
