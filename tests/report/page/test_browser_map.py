"""The grid of heads names its lines, and the large map stands as a table too."""

import numpy as np

from tests.report.fakes import FakeTrace
from tests.report.page.made import made


def test_the_grid_names_layers_and_heads_when_ordered_by_layer(opened, sentence):
    page = opened(sentence.html)
    assert page.page.locator("#head-grid .numbers span").all_text_contents() == ["layer", "0", "1"]
    page.page.locator("button[data-value=share]").click()
    assert page.page.locator("#head-grid .numbers").count() == 0


def test_the_map_of_any_head_as_a_table(opened, sentence):
    page = opened(sentence.html)
    table = page.shown_details("Every cell as a table")
    words = [token.text.strip() for token in sentence.report.strip.tokens]
    for head in (3, 1):
        page.page.locator(f"#h-{head}").click()
        weights = sentence.weights[head].astype(np.float32)
        order = np.argsort(-weights.ravel(), kind="stable")[: (weights > 0).sum()]
        places = [divmod(int(place), len(words)) for place in order]
        assert page.cells(table) == [
            [f"{words[q]} (token {q})", f"{words[k]} (token {k})", f"{weights[q, k]:.3f}"]
            for q, k in places
        ]
    assert page.text("#cell-table p") == "Every cell above 0. exact"


def test_a_large_map_names_its_strongest_cells(opened, seed):
    trace = FakeTrace.of(*(f" w{n}" for n in range(60)), layers=(0,), heads=1)
    page = opened(made(trace, seed=seed, cells=30).html)
    page.shown_details("Every cell as a table")
    more = 30 * 31 // 2 - 300
    assert page.text("#cell-table p") == (
        f"The strongest 300 cells; {more} more are above 0. pooled"
    )
    page.page.locator("button[data-value=sum]").click()
    assert page.page.locator("#cell-table th").all_text_contents()[2] == "sum of weights"
