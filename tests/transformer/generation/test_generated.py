"""What was generated, as a value."""

from dataclasses import replace

from clearhead.transformer.generation.generated import Generated

MADE = Generated(
    text=" Paris.",
    token_ids=(7042, 30, 2),
    prompt_ids=(504, 3575),
    stopped_by="end_token",
    stopped_at=2,
    seed=None,
    prompt_seconds=0.5,
    seconds=0.25,
)


def test_it_prints_as_its_text() -> None:
    assert str(MADE) == " Paris."
    assert str(replace(MADE, text=None)) == "7042 30 2"


def test_speed_is_that_of_the_tokens_after_the_first() -> None:
    assert MADE.tokens_per_second == 8.0
    assert replace(MADE, token_ids=(1,)).tokens_per_second is None
    assert replace(MADE, seconds=0.0).tokens_per_second is None
