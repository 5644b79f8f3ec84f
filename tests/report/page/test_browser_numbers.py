"""Every number that the page shows is the one in the values, for any token, head and measure."""

import numpy as np
import pytest

from clearhead.report.figures import length, percent
from clearhead.report.sentences import drew_from, facts, link_cells, source_cells
from tests.report.fakes import FakeTrace
from tests.report.page.made import made

TOKENS = (0, 5, 8, 11)
BOTH = ("contribution", "attention")


def choose(page, token, by):
    page.page.locator(f"#t-{token}").click()
    page.page.locator(f"#strip-controls button[data-value={by}]").click()
    page.settled()


def label(sentence, position, token):
    name = sentence.report.strip.tokens[position].text.replace(" ", "␣")
    return f"⟦{name}⟧" if position == token else name


def test_at_first_the_page_says_what_python_said(opened, sentence):
    report = sentence.report
    static = opened(sentence.html, script=False)
    living = opened(sentence.html)
    for page in (static, living):
        assert page.text("#title") == drew_from(report.strip)
        told = [page.text("#answer"), *page.page.locator("#facts li").all_text_contents()]
        assert told == [f"{fact}." for fact in facts(report)]
        shown = [tuple(row[:3]) for row in page.cells("#sources")]
        assert shown == list(source_cells(report.strip))
        assert [tuple(row) for row in page.cells("#links")] == list(link_cells(report))
    for part in ("#which", "#notes", "#next", "#legend"):
        assert static.text(part) == living.text(part)


@pytest.mark.parametrize("by", BOTH)
def test_sources_and_links_of_any_token(opened, sentence, by):
    page = opened(sentence.html)
    for token in TOKENS:
        choose(page, token, by)
        shares = sentence.shares(by)[token]
        order = [p for p in np.argsort(-shares, kind="stable") if shares[p] > 0][:5]
        shown = [row[:3] for row in page.cells("#sources")]
        assert shown == [
            [percent(shares[p].item()), label(sentence, p, token), str(p)] for p in order
        ]
        links = {name: part.values[token] for name, part in sentence.tree["links"][by].items()}
        assert page.cells("#links") == [
            [
                str(links["head"][k] // 2),
                str(links["head"][k] % 2),
                label(sentence, int(links["position"][k]), token),
                str(links["position"][k]),
                f"{links['weight'][k]:.3f}",
                length(links["length"][k].item()),
                percent(links["share"][k].item()),
            ]
            for k in range(8)
            if links["share"][k] > 0
        ]
        assert (
            page.text("#title")
            == f"Where ⟦{label(sentence, token, -1).strip('␣')}⟧ drew from, by {by}"
        )


@pytest.mark.parametrize("by", BOTH)
def test_every_source_as_a_table(opened, sentence, by):
    page = opened(sentence.html)
    table = page.shown_details("Every listed source as a table")
    for token in TOKENS:
        choose(page, token, by)
        brought, read = (sentence.shares(name)[token] for name in BOTH)
        parts = sentence.lengths if by == "contribution" else sentence.weights
        own = brought if by == "contribution" else read
        order = [p for p in np.argsort(-own, kind="stable") if own[p] > 0]
        heads = parts[:, token].argmax(0)
        assert page.cells(table) == [
            [
                str(rank),
                label(sentence, p, token),
                str(p),
                percent(brought[p].item()),
                percent(read[p].item()),
                f"layer {heads[p] // 2}, head {heads[p] % 2}",
            ]
            for rank, p in enumerate(order, 1)
        ]


def test_every_head_as_a_table(opened, sentence):
    page = opened(sentence.html)
    table = page.shown_details("Every head as a table")
    for token in TOKENS:
        choose(page, token, "attention")
        brought, read = (sentence.head_shares(name)[token] for name in BOTH)
        top = sentence.weights[:, token]
        kinds = ("previous token (score 0.93)", "induction (score 0.50)", "–", "–")
        assert page.cells(table) == [
            [
                str(head // 2),
                str(head % 2),
                percent(brought[head].item()),
                percent(read[head].item()),
                f"{np.float32(top[head].max()):.3f}",
                f"{label(sentence, top[head].argmax(), token)} ({top[head].argmax()})",
                kinds[head],
            ]
            for head in range(4)
        ]
        for head in range(4):
            assert page.text(f"#h-{head} .head-share") == percent(read[head].item())


def test_the_readout_of_every_token(opened, sentence):
    page = opened(sentence.html)
    choose(page, 8, "contribution")
    shares = sentence.shares("contribution")[8]
    ranks = np.argsort(np.argsort(-shares, kind="stable"), kind="stable") + 1
    heads = sentence.lengths[:, 8].argmax(0)
    for position in range(9):
        page.page.locator(f"#t-{position}").hover()
        assert page.text("#readout") == (
            f"{label(sentence, position, 8)} token {position}: {percent(shares[position].item())}"
            f" of the incoming contribution exact, rank {ranks[position]},"
            f" most through layer {heads[position] // 2}, head {heads[position] % 2}."
        )
    page.page.locator("#t-10").hover()
    assert page.text("#readout") == "␣tired token 10: came later, so it cannot reach ⟦it⟧."


def test_what_is_not_listed_shows_its_bound(opened, seed):
    trace = FakeTrace.of(*(f" w{n}" for n in range(60)), layers=(0,), heads=1)
    page = made(trace, seed=seed, listed_from=0.02)
    below = page.tree["sources"]["below"].values
    token = int(below[:-1].argmax())
    shown = opened(page.html)
    shown.page.locator(f"#t-{token}").click()
    bound = f"{-(-below[token] * 1000 // 1) / 1000:.1%}"
    hidden = set(range(token + 1)) - set(
        page.tree["sources"]["position"]
        .values[slice(*page.tree["sources"]["start"].values[token : token + 2])]
        .tolist()
    )
    shown.page.locator(f"#t-{min(hidden)}").hover()
    assert f"at most {bound} of the incoming contribution truncated" in shown.text("#readout")
