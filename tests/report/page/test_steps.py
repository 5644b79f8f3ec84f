"""A head's steps, gone from a page's values alone, give the trace's numbers."""

import numpy as np
import pytest
import torch

from clearhead.report.build import build_report
from clearhead.report.page.steps import steps_of
from clearhead.report.page.values import page_values
from clearhead.tracing.survey import survey
from clearhead.tracing.trace import trace
from tests.report.page.reading_back import stepped, unpacked
from tests.tracing.shapes import ALONE, drawn

IDS = [5, 6, 7, 8, 5, 6, 9, 9, 3, 5]


@pytest.fixture(params=ALONE)
def traced(request, seeded_weights):
    return trace(drawn(ALONE[request.param]), IDS)


def near(ours, truth, *, of=None):
    """Within the rounding of float32 sums: scores of some size s are exact to eps · s."""
    ours, truth = np.asarray(ours, dtype=float), truth.double().numpy()
    size = max(1.0, np.abs(truth[np.isfinite(truth)]).max(initial=0), 0 if of is None else of)
    assert (np.isneginf(ours) == np.isneginf(truth)).all()
    finite = np.isfinite(truth)
    assert np.abs(ours[finite] - truth[finite]).max(initial=0) <= 64 * 2.0**-23 * size


def test_every_step_is_the_traces(traced):
    values = unpacked(page_values(traced, build_report(traced)).to_json())
    assert len(values["steps"]) == len(values["heads"])
    for step in values["steps"]:
        at = values["heads"][step["head"]]
        layer, head = traced[at["layer"]], at["head"]
        largest = float(layer.raw_scores[head].to_dense().abs().max())
        for row in range(len(IDS)):
            gone = stepped(values, step, row)
            near(gone.raw, layer.raw_scores[head, row])
            near(gone.scores, layer.scores[head, row], of=largest)
            near(gone.weights, layer.weights[head, row], of=largest)
            near(gone.context, layer.context[head, row], of=largest * 8)
            near(step["context"][row], layer.context[head, row])
            brought = layer.weights[head, row] * layer.value_norms[head]
            near(gone.lengths, brought, of=largest * 8)


def test_a_part_of_o_has_the_length_that_is_said(traced):
    values = unpacked(page_values(traced, build_report(traced)).to_json())
    shown = [step for step in values["steps"] if step["projection"] is not None]
    assert len(shown) == min(8, len(values["steps"]))
    for step in shown:
        value = values["values"][step["value"]].astype(float)
        lengths = np.linalg.norm(value @ step["projection"].astype(float), axis=1)
        near(lengths, torch.from_numpy(step["value_norm"]))


def test_what_heads_share_is_stored_once(traced):
    values = unpacked(page_values(traced, build_report(traced)).to_json())
    groups = {(s["key"], s["value"]) for s in values["steps"]}
    kv_heads = sum(layer.key.shape[0] for layer in traced)
    assert len(values["keys"]) == len(values["values"]) == len(groups) == kv_heads
    assert len(values["masks"]) <= len(traced.layers)


def test_only_what_fits_is_taken_and_the_first_always(traced):
    found = survey(traced)
    for room in (0, 1500, 4000, 10**7):
        order = list(reversed(range(len(found.heads))))
        steps = steps_of(
            traced, heads=found.heads, order=order, rows=found.rows, columns=None, room=room
        )
        assert [step["head"] for step in steps.heads] == order[: len(steps.heads)]
        assert len(steps.heads) >= 1
        assert room < 10**7 or len(steps.heads) == len(order)


def test_some_rows_and_columns_are_those_of_all(traced):
    found, rows, columns = survey(traced), [2, 6, 9], [0, 3, 5, 9]
    heads, order = found.heads, range(len(found.heads))
    room = 10**7
    every = steps_of(traced, heads=heads, order=order, rows=found.rows, columns=None, room=room)
    some = steps_of(traced, heads=heads, order=order, rows=rows, columns=columns, room=room)
    for one, whole in zip(some.heads, every.heads, strict=True):
        for name in ("query", "level", "context"):
            assert (one[name].values == whole[name].values[rows]).all()
        assert (one["value_norm"].values == whole["value_norm"].values[columns]).all()
        assert (one["bias"] is None) == (whole["bias"] is None)
        if one["bias"] is not None:
            assert (one["bias"].values == whole["bias"].values[rows][:, columns]).all()
    for one, whole in zip(some.keys, every.keys, strict=True):
        assert (one.values == whole.values[columns]).all()
    for one, whole in zip(some.masks, every.masks, strict=True):
        assert (one.values == whole.values[rows]).all()
