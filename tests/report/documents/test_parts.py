"""The tree's part about an answer is plain values that JSON can hold."""

import json
from dataclasses import FrozenInstanceError, asdict

import pytest

from clearhead.report.documents.parts import (
    Answer,
    AnswerToken,
    Documents,
    Drawn,
    DrawnOnAverage,
    Segment,
)

DRAWN = Drawn(segments=(0.5,), elsewhere=0.25, answer=0.25, depth=(0.75,))
DOCUMENTS = Documents(
    prompt_tokens=4,
    question="Who?",
    answer=Answer("he", 4, 5, generated=True, ended_by="end_token"),
    segments=(Segment("a", "passage", 1, 3),),
    depth_edges=(0, 4),
    average=DrawnOnAverage(None, DRAWN),
    each=(AnswerToken(4, None, DRAWN),),
)


def test_it_is_json():
    tree = json.loads(json.dumps(asdict(DOCUMENTS)))
    assert tree["segments"] == [{"name": "a", "kind": "passage", "start": 1, "stop": 3}]
    assert tree["average"] == {"contribution": None, "attention": tree["each"][0]["attention"]}
    assert tree["each"][0]["attention"] == {
        "segments": [0.5],
        "elsewhere": 0.25,
        "answer": 0.25,
        "depth": [0.75],
    }


def test_it_is_frozen():
    with pytest.raises(FrozenInstanceError):
        DOCUMENTS.question = "other"
