"""Where an answer drew from, in a terminal: nothing is wider than it is, and nothing acts on it."""

from dataclasses import replace

import pytest
from rich.console import Group

from clearhead.report.documents.parts import Documents
from clearhead.report.documents.text import documents_sections
from clearhead.report.terminal import Terminal, rendered
from clearhead.report.text import render_text
from clearhead.report.visible import cells
from tests.report.conftest import HOSTILE
from tests.report.documents.made import documents, drawn_from


def section(made: Documents, width: int = 80) -> str:
    parts = documents_sections(made, drawn_from(made).strip, width)
    return rendered(Group(*parts), Terminal(width))


def test_it_shows_passages_depth_and_every_token():
    assert section(documents("a.txt", "b.txt")) == (
        """Where the answer drew from, passage by passage
Question: Who sang?
Answer: he did
The average over the answer's 2 tokens, by contribution.

share  passage                      tokens
50.0%  a.txt                             1  ━━━━━━━━━━━━━━━━━━
25.0%  b.txt                             1  ━━━━━━━━━
 0.0%  between them (the template)
25.0%  the answer itself, so far            ━━━━━━━━━

share  by depth: positions
37.5%                  0–4  ━━━━━━━━━━━━━━━━━━━
37.5%                  5–9  ━━━━━━━━━━━━━━━━━━━

Each token of the answer
A row is what its token read once it stood there, on the way to the next one;
the row before it wrote it.
position  token  share  most, of these, from  in order
      10  ␣w10   50.0%  a.txt                 █▇
      11  ␣w11   50.0%  a.txt                 █▇
"""
    )


def test_it_stands_before_the_strip_in_the_whole_view():
    text = render_text(drawn_from(documents("a.txt")), Terminal(80))
    order = ["passage by passage", "Each token of the answer", "Where ⟦w10⟧ drew from"]
    assert sorted(order, key=text.index) == order


def test_without_contribution_it_shows_attention():
    assert "by attention." in section(documents("a", known=False))


def test_without_passages_the_template_is_what_is_left():
    text = section(documents(tokens=1, question=None))
    assert "Question:" not in text
    assert "The average over the answer's 1 token," in text
    assert "75.0%  between them (the template)" in text


def test_a_long_answer_is_cut_and_says_so():
    text = section(documents("a", tokens=70))
    assert text.endswith("… and 6 more; --json has every token.\n")
    assert text.count("\n      ") <= 70


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal_and_nothing_acts_on_it(width):
    names = [*HOSTILE, "x" * 300]
    made = documents(*names, question="\x1b[31m" + "y" * 400)
    made = replace(made, answer=replace(made.answer, text="\u202ez\x00 " * 60))
    text = section(made, width)
    assert all(cells(line) <= width for line in text.splitlines())
    assert not {"\x1b", "\x00", "\u202e", "\r", "\x9b"} & set(text)
