"""Writes one token a row and step, until every row has ended."""

import time
from collections.abc import Collection, Iterator, Sequence

from jaxtyping import Float
from torch import Tensor

from clearhead.transformer.cache import KVCache
from clearhead.transformer.generation.generated import Generated, StopReason
from clearhead.transformer.generation.limits import Limit
from clearhead.transformer.generation.reading import PART, Reader
from clearhead.transformer.generation.sampling import Sampler
from clearhead.transformer.generation.wording import Wording
from clearhead.transformer.progress import said_reading

__all__ = ["Row", "Writing"]


class Row:
    """One text on its way.

    Args:
        prompt: what it continues.
        limit: how long it may become.
        sampler: chooses its tokens.
        wording: makes text of them; None where there is no tokenizer.
        end: tokens that end it.
    """

    def __init__(
        self,
        prompt: Sequence[int],
        limit: Limit,
        *,
        sampler: Sampler,
        wording: Wording | None,
        end: Collection[int],
    ) -> None:
        self.prompt = tuple(prompt)
        self.tokens: list[int] = []
        #: text that the last token made ready to be shown
        self.fresh = ""
        self.stopped_by: StopReason | None = None
        self.stopped_at: int | str | None = None
        self.ended: float | None = None
        self._limit, self._sampler, self._wording = limit, sampler, wording
        self._end = frozenset(end)

    def write(self, logits: Float[Tensor, "vocabulary"]) -> None:
        """Choose the next token.

        Args:
            logits: a score for each.
        """
        token = self._sampler.choose(logits)
        self.tokens.append(token)
        words = self._wording
        self.fresh = "" if words is None or token in self._end else words.add(token)
        if words is not None and words.stopped is not None:
            self._stop("stop_string", words.stopped)
        elif token in self._end:
            self._stop("end_token", token)
        elif len(self.tokens) == self._limit.tokens:
            self._stop(self._limit.reason, None)

    def generated(self, *, started: float, read: float | None) -> Generated:
        """What was written so far.

        Args:
            started: when its prompt began to be read.
            read: when it had been read, or None.
        """
        now = time.perf_counter()
        read = now if read is None else read
        return Generated(
            text=None if self._wording is None else self._wording.text,
            token_ids=tuple(self.tokens),
            prompt_ids=self.prompt,
            stopped_by=self.stopped_by or "interrupted",
            stopped_at=self.stopped_at,
            seed=self._sampler.seed,
            prompt_seconds=read - started,
            seconds=(now if self.ended is None else self.ended) - read,
        )

    def _stop(self, reason: StopReason, at: int | str | None) -> None:
        self.stopped_by, self.stopped_at = reason, at
        if self._wording is not None and reason != "stop_string":
            self.fresh += self._wording.finish()
        self.ended = time.perf_counter()


class Writing:
    """All rows of a batch on their way.

    Args:
        reader: reads prompts and tokens.
        rows: the texts.
    """

    def __init__(self, reader: Reader, rows: Sequence[Row]) -> None:
        self.rows = tuple(rows)
        self._reader: Reader | None = reader
        self._started = time.perf_counter()
        self._read: float | None = None

    @property
    def cache(self) -> KVCache | None:
        """Keys and values of what was read, until all has been written; None where none are kept.

        Whoever wants to read on from there takes it before.
        """
        return None if self._reader is None else self._reader.cache

    def steps(self) -> Iterator[None]:
        """Write one token in every row that has not ended, and again, until all have."""
        reader = self._reader
        assert reader is not None
        live = list(self.rows)
        self._started = time.perf_counter()
        longest = max(len(row.prompt) for row in live)
        with said_reading(longest, least=PART) as progress:
            logits = reader.begin(progress)
        self._read = time.perf_counter()
        while True:
            for row, scores in zip(live, logits, strict=True):
                row.write(scores)
            yield
            going = [place for place, row in enumerate(live) if row.stopped_by is None]
            if not going:
                break
            if len(going) < len(live):
                reader.keep(going)
                live = [live[place] for place in going]
            logits = reader.step([row.tokens[-1] for row in live])
        self._reader = None  # its cache is no longer needed

    def whole(self) -> list[Generated]:
        """Write until every row has ended, and give what was written, a value a row."""
        for _ in self.steps():
            pass
        return self.generated()

    def generated(self) -> list[Generated]:
        """What was written so far, a value a row."""
        return [row.generated(started=self._started, read=self._read) for row in self.rows]
