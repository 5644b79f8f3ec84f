"""The tree of parts says what the trace says."""

import dataclasses

import pytest
import torch

import clearhead
from clearhead.errors import InputError, NotKeptError, TokenError, TraceError
from clearhead.report.asked import TWO_TEXTS
from clearhead.report.build import build_report
from clearhead.tokens.pieces import Piece
from tests.report.fakes import FakeTrace
from tests.tracing.shapes import ACROSS, drawn


def test_every_number_is_the_trace_s(animal):
    report = build_report(animal, token=" it", top=3)
    by_contribution = animal.sources(8).share.tolist()
    by_attention = animal.sources(8, by="attention").share.tolist()
    assert [token.share for token in report.strip.tokens] == by_contribution
    assert [token.contribution_share for token in report.strip.tokens] == by_contribution
    assert [token.attention_share for token in report.strip.tokens] == by_attention
    assert [token.text for token in report.strip.tokens] == list(animal.tokens)
    assert [dataclasses.astuple(row) for row in report.heads.rows] == [
        (link.layer, link.head, link.source, animal.tokens[link.source], *rest)
        for link in animal.sources(8, top=3).strongest
        for rest in [(link.weight, link.contribution, link.share)]
    ]
    assert report.first_token.attention == by_attention[0]
    assert report.first_token.contribution_share == by_contribution[0]
    assert [likely.probability for likely in report.next_tokens.likeliest] == [
        likely.probability for likely in animal.likeliest
    ]
    assert report.head.trace_bytes == animal.nbytes
    assert report.head.dense_bytes == animal.dense_nbytes
    assert report.head.seconds == animal.seconds
    assert (report.head.tokens, report.head.heads) == (12, 9)
    assert report.head.layers == tuple(range(30))


def test_by_attention_changes_what_share_follows(animal):
    report = build_report(animal, token=" it", by="attention")
    assert [t.share for t in report.strip.tokens] == [
        t.attention_share for t in report.strip.tokens
    ]
    assert report.strip.by == "attention"
    assert report.strip.strongest[0] == 0


def test_ranks_and_strongest(animal):
    strip = build_report(animal, token=8).strip
    assert sorted(token.rank for token in strip.tokens) == list(range(1, 13))
    assert strip.strongest == (1, 8, 6, 7, 4)
    assert [strip.tokens[position].rank for position in strip.strongest] == [1, 2, 3, 4, 5]


def test_later_tokens_are_out_of_reach_in_a_causal_model(animal):
    tokens = build_report(animal, token=8).strip.tokens
    assert [token.reachable for token in tokens] == [True] * 9 + [False] * 3
    encoder = dataclasses.replace(animal, causal=False)
    assert all(token.reachable for token in build_report(encoder, token=8).strip.tokens)


def test_a_word_that_occurs_twice_takes_the_last_and_says_where_the_others_are():
    trace = FakeTrace.of("the", " cat", " and", " the", " dog")
    strip = build_report(trace, token="the").strip
    assert (strip.target, strip.occurrences, strip.found_at, strip.asked) == (3, 2, (0, 3), "the")


def test_a_position_was_asked_for_once(animal):
    strip = build_report(animal, token=-1).strip
    assert (strip.target, strip.occurrences, strip.asked) == (11, 1, None)


def test_a_token_that_is_not_there(animal):
    with pytest.raises(TokenError, match="'zebra' is not in the text"):
        build_report(animal, token="zebra")


def test_layers_narrow_the_sum(animal):
    report = build_report(animal, layers=[5, 0, 5])
    assert report.head.layers == (0, 5)
    assert {row.layer for row in report.heads.rows} <= {0, 5}


def test_all_faults_of_one_call_in_one_message(animal):
    with pytest.raises(InputError) as raised:
        build_report(animal, by="size", layers=[2, 31], top=0)
    assert str(raised.value) == (
        "cannot look, 3 faults:\n"
        "  - by: expected contribution or attention; got 'size'\n"
        "  - top: expected at least 1; got 0\n"
        "  - layers: expected some of 0-29; got 31"
    )


def test_no_layer_at_all(animal):
    some = dataclasses.replace(animal, layers=(1, 4))
    with pytest.raises(InputError) as raised:
        build_report(some, layers=[])
    assert str(raised.value) == "cannot look: layers: expected some of 1, 4; got no layer at all"


def test_shares_that_are_no_numbers_are_refused():
    trace = FakeTrace.of("a", " b", contribution=(float("nan"),))
    with pytest.raises(TraceError, match="by contribution of token 1 are not finite"):
        build_report(trace)


def test_a_trace_of_an_encoder_decoder_is_refused(seeded_weights):
    found = clearhead.trace(drawn(ACROSS["T5"]), [5, 6], target=[7])
    with pytest.raises(InputError) as raised:
        build_report(found)
    assert str(raised.value) == TWO_TEXTS


def test_the_scale_stands_in_the_report(animal):
    scale = build_report(animal).strip.scale
    assert [band.at_least for band in scale] == [2.0**-power for power in range(8, 0, -1)]


def test_first_tokens_that_soak_are_told(animal):
    report = build_report(animal, token=" it")
    assert report.first_token.soaks
    note = report.notes[0]
    assert note.subject == "first token"
    assert "takes 56.4% of the attention and brings 3.8% of the contribution" in note.text


def test_first_tokens_that_bring_less_than_they_take_are_told():
    trace = FakeTrace.of("a", " b", contribution=(0.4, 0.6), attention=(0.5, 0.5))
    assert "but bring less than their weights suggest: here it takes 50.0%" in (
        build_report(trace).notes[0].text
    )


def test_a_model_whose_output_projection_is_not_known(animal):
    unknown = dataclasses.replace(animal, projection_known=False)
    report = build_report(unknown, token=" it", by="attention")
    assert {token.contribution_share for token in report.strip.tokens} == {None}
    assert {row.contribution for row in report.heads.rows} == {None}
    assert report.first_token.contribution_share is None
    assert report.strip.strongest[0] == 0
    assert '"contribution": null' in report.to_json()
    with pytest.raises(NotKeptError, match="W_O is not known"):
        build_report(unknown, token=" it")


def test_a_real_trace(tiny_llama):
    trace = clearhead.trace(tiny_llama, [5, 7, 8, 9, 11])
    report = build_report(trace, token=3, layers=[0, 2], by="attention", top=4)
    sources = trace.sources(3, by="attention", layers=[0, 2], top=4)
    assert [token.share for token in report.strip.tokens] == sources.share.tolist()
    assert [(row.layer, row.head, row.source) for row in report.heads.rows] == [
        (link.layer, link.head, link.source) for link in sources.strongest
    ]
    assert [token.reachable for token in report.strip.tokens] == [True] * 4 + [False]
    assert report.next_tokens.likeliest[0].probability == trace.next_tokens(1)[0].probability
    weights = [trace[layer].weights[:, 3, 0].mean().item() for layer in (0, 2)]
    assert report.first_token.attention == pytest.approx(sum(weights) / 2, abs=1e-6)


def test_what_stands_in_for_a_trace_has_only_what_a_trace_has(animal, tiny_llama):
    trace = clearhead.trace(tiny_llama, [1, 7, 8, 9])
    pairs = (
        (animal.sources(), trace.sources()),
        (animal.sources().strongest[0], trace.sources().strongest[0]),
        (animal.next_tokens()[0], trace.next_tokens()[0]),
    )
    for fake, real in pairs:
        assert {field.name for field in dataclasses.fields(fake)} <= set(dir(real))
    of_the_stand_in = {"of", "attention", "contribution", "projection_known", "likeliest"}
    of_the_stand_in |= {"places", "share", "links"}
    named = {name for name in dir(animal) if not name.startswith("_")}
    assert named - of_the_stand_in <= set(dir(trace))


def test_a_first_token_that_brings_what_it_takes_is_not_said_to_soak():
    trace = FakeTrace.of("a", " b", " c", contribution=(9.0,), attention=(9.0,))
    report = build_report(trace)
    assert report.heads.reading_first_token == 8
    assert not report.first_token.soaks
    assert report.notes[0].text.startswith("First tokens often soak up attention")


def test_the_first_token_looking_at_itself_is_no_sink(animal):
    report = build_report(animal, token=0)
    assert report.heads.reading_first_token == 0
    assert [note.subject for note in report.notes] == ["contribution", "share", "limits"]


def test_one_token_alone():
    report = build_report(FakeTrace.of("a"))
    assert [token.share for token in report.strip.tokens] == [1.0]
    assert report.strip.strongest == (0,)


def test_parts_of_a_character_are_kept(hostile):
    tokens = build_report(hostile).strip.tokens
    parts = [(token.text, token.part, token.parts) for token in tokens if token.parts > 1]
    assert parts == [("😀", part, 4) for part in range(1, 5)]
    assert [token.position for token in tokens if token.special] == [0]


def test_numbers_of_a_tensor_become_plain():
    trace = FakeTrace((Piece("a"), Piece(" b")), seconds=torch.tensor(0.5))
    assert type(build_report(trace).head.seconds) is float
