"""How numbers are written."""

import pytest

from clearhead.report.figures import counted, length, percent, percent_at_most, scale_bound, size


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 tokens"), (1, "1 token"), (1024, "1,024 tokens")]
)
def test_counted(count, shown):
    assert counted(count, "token") == shown


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0, "0.0%"), (1e-9, "<0.1%"), (0.000499, "<0.1%"), (0.0005, "0.1%"), (0.773, "77.3%")],
)
def test_percent(share, shown):
    assert percent(share) == shown


@pytest.mark.parametrize(
    ("share", "shown"), [(0, "0.0%"), (1e-9, "0.1%"), (0.00101, "0.2%"), (0.5, "50.0%")]
)
def test_percent_at_most_never_rounds_down(share, shown):
    assert percent_at_most(share) == shown


@pytest.mark.parametrize(
    ("contribution", "shown"),
    [(29.04, "29.0"), (0.5, "0.500"), (60.9123, "60.9"), (12345, "1.23e+04"), (None, "–")],
)
def test_length(contribution, shown):
    assert length(contribution) == shown


@pytest.mark.parametrize(
    ("share", "shown"), [(0.5, "50%"), (0.125, "12.5%"), (0.0625, "6.25%"), (1 / 256, "0.39%")]
)
def test_scale_bound(share, shown):
    assert scale_bound(share) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1_572_864, "1.5 MiB"),
        (18 * 2**30, "18.0 GiB"),
        (2**60, "1048576.0 TiB"),
    ],
)
def test_size(count, shown):
    assert size(count) == shown
