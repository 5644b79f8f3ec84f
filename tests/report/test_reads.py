"""A trace, and what stands in for one in these tests, answer to the names a report reads."""

import pytest

from clearhead.report import reads


@pytest.mark.parametrize("kind", ["fake", "real"])
def test_there_is_what_a_report_reads(kind, animal, tiny_llama):
    from clearhead import trace

    traced = animal if kind == "fake" else trace(tiny_llama, [1, 7, 8, 9])
    assert isinstance(traced, reads.ReadableTrace)
    assert isinstance(traced.next_tokens()[0], reads.ReadableNextToken)
    sources = traced.sources()
    assert isinstance(sources, reads.ReadableSources)
    assert isinstance(sources.share, reads.ReadableShares)
    assert isinstance(sources.strongest[0], reads.ReadableLink)
