"""Rows are written until each has ended, and those that go on do not notice."""

from collections.abc import Callable, Sequence

import pytest
import torch

from clearhead.tokens.tokenizer import TextTokenizer
from clearhead.transformer.generation.generated import Generated
from clearhead.transformer.generation.limits import Limit
from clearhead.transformer.generation.sampling import Sampler
from clearhead.transformer.generation.settings import Sampling
from clearhead.transformer.generation.wording import Wording
from clearhead.transformer.generation.writing import Row, Writing
from tests.tokens import tiny

WORDS = TextTokenizer.wrap(tiny.byte_level())


class Script:
    """Stands for a model that says what is written down for it."""

    def __init__(self, *texts: Sequence[int]) -> None:
        self.texts = [list(text) for text in texts]
        self.given: list[list[int]] = []
        self.cache = object()

    def begin(self, progress: Callable[[int], None]) -> torch.Tensor:
        progress(1)
        return self.next()

    def step(self, tokens: Sequence[int]) -> torch.Tensor:
        self.given.append(list(tokens))
        return self.next()

    def keep(self, rows: Sequence[int]) -> None:
        self.texts = [self.texts[row] for row in rows]

    def next(self) -> torch.Tensor:
        wanted = torch.tensor([text.pop(0) for text in self.texts])
        return torch.nn.functional.one_hot(wanted, 300).float()


def row(limit: int, *, stops: Sequence[str] = (), end: Sequence[int] = ()) -> Row:
    words = Wording(WORDS, stops=stops)
    most = Limit(limit, "max_new_tokens")
    return Row([0], most, sampler=Sampler(Sampling()), wording=words, end=end)


def written(script: Script, *rows: Row) -> list[Generated]:
    return Writing(script, rows).whole()


def test_rows_end_one_by_one() -> None:
    text = WORDS.encode("hello")
    script = Script(text, [*text[:2], 1], text)
    first, second, third = written(script, row(4), row(9, end=[1]), row(2))
    assert first.token_ids == tuple(text[:4])
    assert (first.stopped_by, first.stopped_at) == ("max_new_tokens", None)
    assert second.token_ids == (*text[:2], 1)
    assert (second.stopped_by, second.stopped_at) == ("end_token", 1)
    assert third.token_ids == tuple(text[:2])
    assert [len(tokens) for tokens in script.given] == [3, 2, 1]
    assert first.text.startswith(second.text)


@pytest.mark.parametrize("stop", ["lo", "l"])
def test_a_stop_string_ends_a_row(stop) -> None:
    text = WORDS.encode("hello")
    (found,) = written(Script(text), row(99, stops=[stop]))
    assert (found.stopped_by, found.stopped_at) == ("stop_string", stop)
    assert found.text == "hello"[: "hello".index(stop)]
    assert found.token_ids == tuple(text[: len(found.token_ids)])


def test_what_was_held_back_is_shown_when_nothing_more_comes() -> None:
    text = WORDS.encode("xa")
    last = row(2, stops=["ab"])
    writing = Writing(Script(text), [last])
    assert [last.fresh for _ in writing.steps()] == ["x", "a"]
    (found,) = writing.generated()
    assert (found.text, found.stopped_by) == ("xa", "max_new_tokens")
    ended = row(9, stops=["ab"], end=[1])
    (found,) = written(Script([*text, 1]), ended)
    assert (found.text, found.stopped_by) == ("xa", "end_token")


def test_what_was_written_is_there_at_any_time() -> None:
    text = WORDS.encode("abc")
    writing = Writing(Script(text), [row(3)])
    before = writing.generated()[0]
    assert (before.text, before.token_ids, before.stopped_by) == ("", (), "interrupted")
    steps = writing.steps()
    next(steps)
    begun = writing.generated()[0]
    assert (begun.text, begun.token_ids, begun.stopped_by) == ("a", tuple(text[:1]), "interrupted")
    assert begun.prompt_seconds >= 0
    list(steps)
    assert writing.generated()[0].stopped_by == "max_new_tokens"


def test_a_row_without_a_tokenizer_has_ids_alone() -> None:
    bare = Row([0], Limit(2, "context"), sampler=Sampler(Sampling()), wording=None, end=())
    (found,) = written(Script([5, 6]), bare)
    assert (found.text, found.token_ids, found.stopped_by) == (None, (5, 6), "context")


def test_its_cache_can_be_taken_before_all_is_written() -> None:
    script = Script([5, 6])
    writing = Writing(script, [row(2)])
    assert writing.cache is script.cache
    writing.whole()
    assert writing.cache is None
