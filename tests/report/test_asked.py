"""What no model could answer is refused in one wording, with all faults in one message."""

import pytest

from clearhead.errors import InputError
from clearhead.report.asked import check_asked


@pytest.mark.parametrize(
    ("by", "top", "told"),
    [
        ("size", 1, "cannot look: by: expected contribution or attention; got 'size'"),
        ("attention", 0, "cannot look: top: expected at least 1; got 0"),
        (
            "",
            -3,
            (
                "cannot look, 2 faults:\n"
                "  - by: expected contribution or attention; got ''\n"
                "  - top: expected at least 1; got -3"
            ),
        ),
    ],
)
def test_what_cannot_be_served(by, top, told):
    with pytest.raises(InputError) as raised:
        check_asked(by, top)
    assert str(raised.value) == told


@pytest.mark.parametrize("by", ["contribution", "attention"])
def test_what_can_be_served(by):
    check_asked(by, 1)
