"""The page of a real trace shows what the trace itself says."""

import pytest

from clearhead.report.build import build_report
from clearhead.report.figures import percent
from clearhead.report.page.html import page_html
from clearhead.report.page.values import page_values
from clearhead.tracing.trace import trace
from tests.tracing.shapes import ALONE, drawn

IDS = [7, 3, 41, 41, 12, 88, 3, 5, 60, 2, 19, 4]


@pytest.mark.parametrize("name", ["Llama", "Gemma", "ALiBi", "sinks", "BERT"])
def test_shares_links_and_weights_are_the_traces(opened, name, seeded_weights):
    traced = trace(drawn(ALONE[name]), IDS)
    report = build_report(traced, token=9)
    page = opened(page_html(report, page_values(traced, report).to_json()))
    for by in ("contribution", "attention"):
        page.page.locator(f"#strip-controls button[data-value={by}]").click()
        for token in (9, 4, 11):
            page.page.locator(f"#t-{token}").click()
            page.settled()
            sources = traced.sources(token, by=by, top=1)
            shown = {int(row[2]): row[0] for row in page.cells("#sources")}
            for position, share in shown.items():
                assert close(share, sources.share[position].item())
            layer, head, _, position, weight, *_ = page.cells("#links")[0]
            true = traced[int(layer)].weights[int(head), token][int(position)].item()
            assert abs(float(weight) - true) <= 0.0005 + 1e-6


@pytest.mark.parametrize("name", ["Llama", "Gemma", "ALiBi", "sinks", "BERT"])
def test_steps_end_in_the_traces_weights(opened, name, seeded_weights):
    traced = trace(drawn(ALONE[name]), IDS)
    report = build_report(traced, token=9)
    page = opened(page_html(report, page_values(traced, report).to_json()))
    for head in range(3):
        page.page.locator(f"#h-{head}").click()
        page.settled()
        page.page.locator("figure.step:nth-child(3) summary", has_text="As a table").click()
        layer, place = divmod(head, traced.heads)
        true = traced[layer].weights[place, 9]
        for position, _, weight in page.cells("figure.step:nth-child(3) table"):
            assert abs(float(weight) - true[int(position)].item()) <= 0.00005 + 1e-5


def close(shown, true):
    """One decimal of a percentage; a share between two of them may fall either way."""
    return shown in {percent(true * (1 - 1e-5)), percent(true), percent(true * (1 + 1e-5))}
