from families.table import document
from families.verdict import Verdict

FOUND = [
    Verdict("llama", "causal", "LlamaForCausalLM", kind="traced", layers=4, error=5e-7),
    Verdict("bloom", "causal", "BloomForCausalLM", kind="refused", why="a|b_c " + "long " * 90),
    Verdict("esm", "masked", "EsmForMaskedLM", kind="not made", why="no vocabulary"),
]


def test_the_counts_come_first() -> None:
    page = document(FOUND)
    assert page.index("| | traced | refused | not made |") < page.index("## ")
    assert "| causal | 1 | 1 | 0 |" in page
    assert "| masked | 0 | 0 | 1 |" in page


def test_every_family_has_a_row() -> None:
    page = document(FOUND)
    assert "| llama | `LlamaForCausalLM` | traced: 4 layers | 5e-07 |" in page
    assert "| esm | `EsmForMaskedLM` | no tiny model could be made: no vocabulary |  |" in page


def test_a_reason_is_shortened_and_breaks_no_table() -> None:
    [row] = [line for line in document(FOUND).splitlines() if line.startswith("| bloom")]
    assert row.startswith("| bloom | `BloomForCausalLM` | refused: a\\|b\\_c long")
    assert row.endswith("long … |  |")
    assert len(row) < 340


def test_what_is_wrong_is_said_so() -> None:
    page = document([Verdict("x", "causal", "X", kind="WRONG", layers=4, error=0.5)])
    assert "| | WRONG | traced |" in page
    assert "| x | `X` | **WRONG**: 4 layers | 5e-01 |" in page


def test_versions_and_what_was_not_tried_are_named() -> None:
    page = document(FOUND)
    assert "with transformers 5." in page
    assert "Not text models, and not tried: " in page
