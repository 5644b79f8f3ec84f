"""Bars and tables of the static page."""

from clearhead.report.page.tables import bar, table


def test_a_bar_is_as_wide_as_its_share():
    assert 'width="12.50" height="8"' in bar(0.125)
    assert 'aria-hidden="true"' in bar(0.125)


def test_a_table_escapes_headings_and_marks_columns():
    assert table("x", ("a<", "b", ""), [("1", "<i>2</i>", "3")], numbers=(0,)) == (
        '<div class="scroll"><table id="x"><thead><tr><th scope="col" class="number">a&lt;</th>'
        '<th scope="col">b</th><td></td></tr></thead><tbody><tr><td class="number">1</td>'
        '<td><i>2</i></td><td class="picture">3</td></tr></tbody></table></div>'
    )
