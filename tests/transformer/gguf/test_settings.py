"""Settings are read once each, and what nobody reads is a fault."""

from pathlib import Path

import pytest

from clearhead.errors import CheckpointError
from clearhead.transformer.gguf.header import GgufHeader
from clearhead.transformer.gguf.settings import Settings


def settings(**values: object) -> Settings:
    named = {f"a.{name.replace('__', '.')}": value for name, value in values.items()}
    return Settings(GgufHeader(Path("x.gguf"), named | {"b.other": 1}, {}), "a")


def test_what_is_read_is_gone() -> None:
    one = settings(n=3, x=0.1, word="w")
    assert "n" in one
    assert (one.whole("n"), one.real("x"), one.value("word")) == (3, 0.1, "w")
    assert "n" not in one
    assert (one.whole("n", 4), one.maybe_real("x"), one.value("word")) == (4, None, None)
    assert (one.rows("t"), one.factors("t")) == (None, None)
    one.finish()  # what is of another architecture is nobody's


def test_settings_that_change_nothing_need_no_reader() -> None:
    plain = {"expert_count": 0, "attention__causal": True, "pooling_type": 0}
    settings(**plain, rope__scaling__finetuned=True, rope__scaling__type="none").finish()


def test_all_faults_are_told_at_once() -> None:
    one = settings(n=-1, x=float("nan"), width=7, attention__causal=False, new=[1] * 99)
    assert (one.whole("n"), one.real("x"), one.real("y"), one.layers()) == (1, 1.0, 1.0, 1)
    one.same("width", 8, "as it was")
    with pytest.raises(CheckpointError) as caught:
        one.finish()
    assert str(caught.value) == (
        "x.gguf cannot be read, 8 faults:\n"
        "  - a.n: expected a positive whole number, got -1\n"
        "  - a.x: expected a positive number, got nan\n"
        "  - a.y: expected a positive number, got nothing\n"
        "  - a.block_count: expected a positive whole number, got nothing\n"
        "  - a.block_count: expected at most 0, the tensors there, got 1\n"
        "  - a.width: expected 8, as it was, got 7\n"
        "  - a.attention.causal: expected True, got False\n"
        f"  - a.new: expected no such setting, got {repr([1] * 99)[:80]}"
    )
