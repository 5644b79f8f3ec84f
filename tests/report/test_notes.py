"""What stands under the numbers."""

from dataclasses import replace

from clearhead.report.notes import notes_for, notes_for_answer
from clearhead.report.parts import FirstToken, HeadRow, HeadTable
from tests.report.documents.test_parts import DOCUMENTS


def _rows(*sources):
    rows = tuple(HeadRow(0, 0, source, "x", 0.5, 1.0, 0.1) for source in sources)
    return HeadTable(rows, reading_first_token=sum(source == 0 for source in sources))


QUIET = FirstToken("The", attention=0.1, contribution_share=0.05, soaks=False)
SOAKS = FirstToken("The", attention=0.6, contribution_share=0.05, soaks=True)


def test_every_report_says_that_a_weight_is_not_an_explanation():
    (*_, limits) = notes_for("attention", _rows(1), QUIET)
    assert limits.text.startswith("A weight is not an explanation: it says which position's vector")
    assert "not proof of cause" in limits.text


def test_contribution_is_explained_and_cited():
    note = next(n for n in notes_for("attention", _rows(1), QUIET) if n.subject == "contribution")
    assert "weight × length of the transformed value" in note.text
    assert note.source == (
        "Kobayashi et al. 2020, Attention is Not Only a Weight:"
        " Analyzing Transformers with Vector Norms"
    )


def test_the_share_is_explained_as_it_was_measured():
    told = {by: notes_for(by, _rows(1), QUIET)[1].text for by in ("attention", "contribution")}
    assert "source's weights" in told["attention"]
    assert "source's contributions" in told["contribution"]


def test_first_tokens_are_explained_where_they_matter():
    subjects = {
        "quiet": [note.subject for note in notes_for("attention", _rows(1, 0), QUIET)],
        "rows": [note.subject for note in notes_for("attention", _rows(1, 0, 0), QUIET)],
        "soaks": [note.subject for note in notes_for("attention", _rows(1), SOAKS)],
    }
    assert {name: "first token" in told for name, told in subjects.items()} == {
        "quiet": False,
        "rows": True,
        "soaks": True,
    }


def test_the_note_on_first_tokens_cites_both_papers_and_the_measured_numbers():
    note = notes_for("contribution", _rows(1), SOAKS)[0]
    assert note.text.endswith(
        "here it takes 60.0% of the attention and brings 5.0% of the contribution."
    )
    assert (
        "Xiao et al. 2023, Efficient Streaming Language Models with Attention Sinks" in note.source
    )
    assert "Kobayashi et al. 2020" in note.source


def test_an_answer_says_what_its_shares_are_not():
    (only,) = notes_for_answer(DOCUMENTS, {})
    assert "which positions' vectors the answer's tokens read" in only.text
    assert "no proof of what caused the answer" in only.text


def test_control_tokens_in_a_passage_are_named_as_what_they_were_read_as():
    plain = {"a\x1b.txt": ["</s>", "<s>", "</s>"], "": ["<s>"]}
    _, first, second = notes_for_answer(DOCUMENTS, plain)
    assert first.text == (
        "What reads </s>, <s> in 'a␛.txt' is the name of a control token of this model; it was read"
        " as plain text, so that nothing in there could end or begin a message."
    )
    assert "in the name of a passage is" in second.text
    _, third = notes_for_answer(DOCUMENTS, {None: ["</s>"]})
    assert "What reads </s> in the answer is the name of" in third.text


def test_an_answer_that_was_cut_says_so():
    cut = replace(DOCUMENTS, answer=replace(DOCUMENTS.answer, ended_by="max_new_tokens"))
    *_, last = notes_for_answer(cut, {})
    assert last.text == "The answer was cut at 1 token; max_new_tokens changes that."
    given = replace(cut, answer=replace(cut.answer, generated=False, ended_by=None))
    assert len(notes_for_answer(given, {})) == 1
