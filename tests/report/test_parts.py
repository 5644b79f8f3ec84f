"""The JSON form carries the tree, whatever the tokens hold."""

import dataclasses
import json

import pytest

from clearhead.report.build import build_report


@pytest.mark.parametrize("name", ["animal", "hostile", "thousand"])
def test_json_is_the_tree(name, request):
    report = build_report(request.getfixturevalue(name))
    written = report.to_json()
    assert written.isascii()
    assert "\n" not in written
    read = json.loads(written)
    assert read.pop("format") == "clearhead-look/1"
    tree = dataclasses.asdict(report)
    assert read == json.loads(json.dumps(tree))
    assert read["strip"]["tokens"][0]["text"] == report.strip.tokens[0].text


def test_target(animal):
    assert build_report(animal, token=" it").target.text == " it"
