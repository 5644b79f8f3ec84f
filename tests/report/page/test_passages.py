"""Where an answer drew from, before the module runs."""

import pytest

from clearhead.report.figures import percent
from clearhead.report.page.passages import answer_fact, passages
from tests.report.page.answered import answered
from tests.report.test_fragment import Read


@pytest.fixture
def documents(seed):
    return answered((7, 9), seed=seed, names=("<b>one", "two")).tree["look"]["documents"]


@pytest.mark.parametrize("by", ["contribution", "attention"])
def test_every_share_stands_there(documents, by):
    page = Read("".join(passages(documents, by)))
    average = documents["average"][by]
    for share in (*average["segments"], average["elsewhere"], average["answer"], *average["depth"]):
        assert percent(share) in page.text
    assert f"The average over the answer's 6 tokens, by {by}." in page.text
    assert "<b>one" in page.text
    assert not page.open


def test_the_strongest_passage_is_named(documents):
    documents["average"]["attention"] |= {"segments": [0.125, 0.5]}
    assert answer_fact(documents, "attention") == (
        "Of the passages, the answer drew most from two: 50.0% of its attention,"
        " on average over 6 tokens"
    )
    documents["segments"], documents["average"]["attention"]["segments"] = [], []
    documents["average"]["attention"]["elsewhere"] = 0.25
    assert "The answer drew most from between them (the template): 25.0%" in answer_fact(
        documents, "attention"
    )


def test_without_contributions_it_shows_attention(documents):
    documents["average"]["contribution"] = None
    assert ", by attention." in Read("".join(passages(documents, "contribution"))).text


def test_one_token_and_no_question(documents):
    documents["answer"]["stop"] = documents["answer"]["start"] + 1
    documents["question"] = None
    page = Read("".join(passages(documents, "attention")))
    assert "the answer's 1 token," in page.text
    assert ("class", "question") not in page.attributes
