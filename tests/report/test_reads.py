"""What stands in for a trace in these tests answers to the names a report reads."""

from clearhead.report import reads


def test_the_fake_has_what_a_report_reads(animal):
    assert isinstance(animal, reads.ReadableTrace)
    assert isinstance(animal.pieces[0], reads.ReadablePiece)
    assert isinstance(animal.next_tokens()[0], reads.ReadableNextToken)
    sources = animal.sources()
    assert isinstance(sources, reads.ReadableSources)
    assert isinstance(sources.share, reads.ReadableShares)
    assert isinstance(sources.strongest[0], reads.ReadableLink)
