from families.apart import verdict_apart


def test_a_verdict_comes_back_from_its_process() -> None:
    made = verdict_apart("llama", "causal")
    assert (made.kind, made.layers) == ("traced", 4)


def test_a_family_that_takes_too_long_is_ended() -> None:
    made = verdict_apart("llama", "causal", seconds=0.0)
    assert (made.kind, made.why) == ("not made", "it took more than 0 seconds")
