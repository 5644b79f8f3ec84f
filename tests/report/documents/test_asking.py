"""What is asked for where an answer is looked at, and what is wrong with it."""

import pytest

from clearhead.report.documents.asking import Question, question_faults

FAULTS = {
    "question= is missing: add what is asked about the passages": Question(passages=["a"]),
    "question= is asked with passages= or alone; leave out the text": Question("a", question="b"),
    "text: expected a text to look at, or question=": Question(),
    "question= is empty": Question(question=" \n"),
    "answer= is empty": Question("a", answer=""),
    "answer= must be text, got int": Question("a", answer=3),
    "max_new_tokens= is for an answer that the model writes: leave it or answer= out": Question(
        "a", answer="b", max_new_tokens=3
    ),
    "max_new_tokens must be a whole number of at least 1, got 0": Question("a", max_new_tokens=0),
    "passages= must be texts by name, or a list of texts, got str": Question(
        passages="abc", question="a"
    ),
    "passages= holds no passage": Question(passages={}, question="a"),
    "passages= must be texts by name, got int as 'b'": Question(passages={"b": 3}, question="a"),
    "text: an answer follows a text or a list of chat messages, got one message: give [message]": (
        Question({"role": "user", "content": "a"}, answer="b")
    ),
    "text: an answer follows a text or a list of chat messages, got an empty list: give at least "
    "one message": Question([], answer="b"),
    "text: an answer follows a text or a list of chat messages, got a list of texts: give one "
    "text, or passages= and question=": Question(["a", "c"], answer="b"),
    "text: an answer follows a text or a list of chat messages, got list: give what its tokens "
    "say": Question([5, 6], answer="b"),
    "passage 'passage 2' is empty": Question(passages=["a", " "], question="a"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named(fault):
    assert list(question_faults(FAULTS[fault])) == [fault]


def test_all_faults_are_named_at_once():
    asked = Question(passages=["", "a"], answer="", max_new_tokens=-1)
    assert len(list(question_faults(asked))) == 5


@pytest.mark.parametrize(
    ("asked", "is_asked"),
    [
        (Question("a"), False),
        (Question("a", answer="b"), True),
        (Question("a", max_new_tokens=1), True),
        (Question(question="b"), True),
        (Question(passages=["a"], question="b"), True),
    ],
)
def test_an_answer_is_looked_at_where_anything_says_so(asked, is_asked):
    assert asked.is_asked == is_asked
    assert list(question_faults(asked)) == []


def test_passages_of_a_list_are_numbered():
    assert Question(passages=["x", "y"]).named == {"passage 1": "x", "passage 2": "y"}
    assert Question(passages={"n": "x"}).named == {"n": "x"}
    assert Question(question="q").named == {}


def test_a_passage_without_a_name_is_numbered():
    assert Question(passages={"": "x", "b": "y", " \n": "z"}).named == {
        "passage 1": "x",
        "b": "y",
        "passage 3": "z",
    }
    assert Question(passages={"": "x", "passage 1": "y"}).named == {
        "passage 1 (no name)": "x",
        "passage 1": "y",
    }


def test_all_that_is_read_is_there_by_name():
    asked = Question(passages={"a": "x"}, question="q", answer="b")
    assert asked.texts == {"a": "x", "the question": "q", "the answer": "b"}
    messages = [{"role": "user", "content": "x"}, {"role": "user", "content": None}, {}]
    assert Question(messages).texts == {"message 0": "x"}
    assert Question("t", answer="b").texts == {"the text": "t", "the answer": "b"}


def test_an_answer_has_at_most_64_tokens_unless_more_are_asked_for():
    assert Question(question="q").longest_answer == 64
    assert Question(question="q", max_new_tokens=7).longest_answer == 7
