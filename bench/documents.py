"""An answer from eight passages, looked at, beside transformers writing the same answer.

    python -m bench.documents [tokens]

Ours answers, traces the answer's rows, prints the report and writes the page; transformers reads
the same prompt and writes as many tokens. Both in turns, in one process. The passages are this
project's own documents.
"""

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

import clearhead as ch
from bench.generate import write_theirs
from bench.measure import calibrated, clock
from clearhead.report.look import Look

ROOT = Path(__file__).parent.parent
QUESTION = "What does a trace keep of every attention layer, and why is that enough?"
TOKENS, PASSAGES, WRITTEN, RUNS = 8000, 8, 64, 3
#: Tokens of the template, the names and the question.
AROUND = 120


def passages(model: Any, tokens: int) -> dict[str, str]:
    """Eight texts that together with the question are nearly this many tokens."""
    words = model.clearhead_tokenizer
    files = [ROOT / "DESIGN.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
    ids = words.encode("\n".join(file.read_text("utf-8") for file in files), special=False)
    each = (tokens - AROUND) // PASSAGES
    while len(ids) < PASSAGES * each:
        ids += ids
    parts = [ids[place * each : (place + 1) * each] for place in range(PASSAGES)]
    return {f"passage {place}": words.decode(part) for place, part in enumerate(parts, start=1)}


def answered(model: Any, texts: dict[str, str]) -> Look:
    """The answer, its trace and its shares."""
    return ch.look(model, passages=texts, question=QUESTION, max_new_tokens=WRITTEN)


def reported(seen: Look, page: Path) -> None:
    """What a terminal and a browser show."""
    str(seen)
    seen.save(page)


def in_turns(ours: Any, theirs: Any, texts: dict[str, str], page: Path) -> None:
    """Run both, one after the other."""
    seen = answered(ours, texts)
    answer = seen.report.documents.answer
    prompt = torch.tensor([seen.trace.token_ids[: answer.start]])
    count = answer.stop - answer.start + (answer.ended_by == "end_token")
    rows, same = [], True
    for _ in range(RUNS):
        answering = clock(lambda: answered(ours, texts))
        reporting = clock(lambda: reported(seen, page))
        written: list[int] = []
        peer = clock(lambda: written.extend(write_theirs(theirs, prompt, count)))  # noqa: B023  called at once
        same &= written[: answer.stop - answer.start] == list(
            seen.trace.token_ids[answer.start : answer.stop]
        )
        rows.append((answering, reporting, peer))
        print(f"  ours {answering:.1f} + {reporting:.1f} s, transformers {peer:.1f} s", flush=True)
    answering, reporting, peer = (statistics.median(column) for column in zip(*rows, strict=True))
    ratio = statistics.median((a + b) / c for a, b, c in rows)
    print(
        f"  prompt of {answer.start:,} tokens, {count} written; the same tokens: "
        f"{'yes' if same else 'no'}\n"
        f"  ours {answering:.1f} s answered and traced, {reporting:.1f} s reported, "
        f"page {page.stat().st_size / 1e6:.1f} MB; transformers {peer:.1f} s answered\n"
        f"  ours / transformers {ratio:.2f} (bar 1.20)"
    )


def main(tokens: int) -> None:
    """Everything about one length."""
    ours = ch.from_pretrained("smollm2", engine="clearhead")
    theirs = ch.from_pretrained("smollm2", engine="transformers")
    with (
        calibrated(f"An answer from {PASSAGES} passages with SmolLM2"),
        tempfile.TemporaryDirectory() as folder,
    ):
        in_turns(ours, theirs, passages(ours, tokens), Path(folder) / "page.html")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else TOKENS)
