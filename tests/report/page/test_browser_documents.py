"""An answer out of passages: shares by passage and by depth, folds with names, a long prompt."""

import pytest

from clearhead.report.figures import percent
from clearhead.report.page.passages import answer_fact
from tests.report.page.answered import answered


@pytest.fixture
def three(seed):
    return answered((12, 20, 9), seed=seed)


def shown_shares(page, table):
    return [row[0] for row in page.cells(table)]


def judge(page, entry):
    shares = [*entry["segments"], entry["elsewhere"], entry["answer"]]
    assert shown_shares(page, "#by-passage") == list(map(percent, shares))
    assert shown_shares(page, "#by-depth") == list(map(percent, entry["depth"]))


def test_average_each_token_and_both_measures(opened, three):
    documents = three.tree["look"]["documents"]
    judge(opened(three.html, script=False), documents["average"]["contribution"])
    page = opened(three.html)
    for by in ("contribution", "attention"):
        page.page.locator(f"#strip-controls button[data-value={by}]").click()
        judge(page, documents["average"][by])
        assert page.text("#whose") == f"The average over the answer's 6 tokens, by {by}."
        page.page.locator("#documents-controls button[data-value=token]").click()
        for entry in documents["each"][2:4]:
            page.page.locator(f"#t-{entry['position']}").click()
            judge(page, entry[by])
            assert f"(token {entry['position']}) alone, by {by}." in page.text("#whose")
        page.page.locator("#documents-controls button[data-value=average]").click()


def test_each_token_of_the_answer_as_a_table(opened, three):
    page = opened(three.html)
    table = page.shown_details("Each token of the answer")
    each = three.tree["look"]["documents"]["each"]
    for row, entry in zip(page.cells(table), each, strict=True):
        shares = entry["contribution"]
        told = [*shares["segments"], shares["elsewhere"], shares["answer"]]
        assert row[1:] == [str(entry["position"]), *map(percent, told)]
    assert "the row before it is the one that wrote it. exact" in page.text("#each")
    page.page.locator(f"{table} button").nth(1).click()
    judge(page, each[1]["contribution"])


def test_a_token_of_the_answer_without_a_row_is_no_button(opened, three):
    three.tree["look"]["documents"]["each"][0]["position"] = 3
    page = opened(three.html)
    table = page.shown_details("Each token of the answer")
    assert page.cells(table)[0][:2] == ["␣w3", "3"]
    assert page.page.locator(f"{table} button").count() == 5


def test_the_head_line_is_about_the_answer(opened, three):
    static, living = opened(three.html, script=False), opened(three.html)
    fact = f"{answer_fact(three.tree['look']['documents'], 'contribution')}."
    for page in (static, living):
        assert page.text("#title") == "Where the answer drew from, by contribution"
        assert page.text("#answer") == fact
        assert page.text(".eyebrow") == "clearhead · attention, seen from an answer"
        assert page.text("#drew-title") == "Where ⟦w50⟧ drew from, by contribution"
        assert page.page.locator("#facts li").count() == 3


def test_it_says_what_it_is_and_what_it_is_not(opened, three):
    told = opened(three.html, script=False).text("#documents")
    assert "which positions' vectors were read" in told
    assert "no proof of cause" in told
    assert "Who was tired?" in told
    assert "The animal." in told


def test_passages_fold_under_name_length_and_share(opened, seed):
    long = answered((400, 300, 500), seed=seed)
    page = opened(long.html)
    shares = long.shares("contribution")[-1]
    parts = long.tree["look"]["documents"]["segments"]
    for place, part in enumerate(parts):
        head = page.page.locator(f"#p-{place}")
        share = percent(shares[part["start"] : part["stop"]].sum(dtype=float))
        count = part["stop"] - part["start"]
        said = f"passage {place + 1} · {count} tokens · {share} of ⟦w{long.rows[-1]}⟧'s"
        assert head.text_content()[2:] == said
        was = head.text_content()[0]
        inside = page.page.locator(f"#p-{place} + .prose.inside")
        assert inside.count() == (was == "▾")
        head.click()
        assert head.text_content()[0] == {"▾": "▸", "▸": "▾"}[was]
        assert inside.count() == (was == "▸")


def test_eight_thousand_tokens_open_with_few_elements(opened, seed):
    long = answered((999,) * 8, seed=seed, answer=20)
    page = opened(long.html)
    assert page.page.locator("#strip .t").count() < 800
    assert len(long.html) < 8_000_000
    page.page.locator("#strip .fold, #strip .passage").first.click()
    page.page.locator(f"#t-{long.rows[3]}").click()
    page.settled()
    assert page.text("#which").startswith(f"Token {long.rows[3]} of ")
