"""An answer read out of passages, made up: shares by passage and by depth, from a page's values."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from tests.report.fakes import FakeTrace
from tests.report.page.made import Made, made

__all__ = ["answered"]


def answered(
    lengths: Sequence[int],
    *,
    seed: int,
    answer: int = 6,
    names: Sequence[str] | None = None,
    words: Sequence[str] | None = None,
    question: str = "Who was tired?",
    named: str = "SmolLM2-135M-Instruct",
    **asked: Any,
) -> Made:
    """Make a page of an answer: a template token, passages with one between, then the answer."""
    segments, at = [], 1
    for place, count in enumerate(lengths):
        name = names[place] if names else f"passage {place + 1}"
        segments.append({"name": name, "kind": "passage", "start": at, "stop": at + count})
        at += count + 1
    total = at + answer
    texts = words or ["<|im_start|>", *(f" w{n}" for n in range(1, total))]
    trace = FakeTrace.of(*texts[:total], layers=(0, 1), heads=2, model_name=named)
    page = made(trace, seed=seed, target=total - 1, rows=range(at, total), **asked)
    edges = np.unique(np.linspace(0, at, 11).astype(int)).tolist()
    each = [
        {"position": at + row}
        | {
            by: _entry(page.shares(by)[row], segments, edges, at)
            for by in ("contribution", "attention")
        }
        for row in range(answer)
    ]
    documents = {
        "prompt_tokens": at,
        "question": question,
        "answer": {
            "text": "The animal.",
            "start": at,
            "stop": total,
            "generated": True,
            "ended_by": "<|im_end|>",
        },
        "segments": segments,
        "depth_edges": edges,
        "average": {
            by: _average([entry[by] for entry in each]) for by in ("contribution", "attention")
        },
        "each": each,
    }
    return replace(page).with_documents(documents)


def _entry(
    shares: np.ndarray, segments: list[dict[str, Any]], edges: list[int], prompt: int
) -> dict[str, Any]:
    exact = shares.astype(float)
    inside = [float(exact[part["start"] : part["stop"]].sum()) for part in segments]
    return {
        "segments": inside,
        "elsewhere": float(exact[:prompt].sum()) - sum(inside),
        "answer": float(exact[prompt:].sum()),
        "depth": [float(exact[start:stop].sum()) for start, stop in pairwise(edges)],
    }


def _average(entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        name: np.mean([entry[name] for entry in entries], axis=0).tolist() for name in entries[0]
    }
