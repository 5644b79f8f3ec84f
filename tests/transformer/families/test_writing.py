"""Every writer tells what its family's reader reads."""

import json

import pytest
import transformers

from clearhead.transformer.families.known import FAMILIES, from_hugging_face
from clearhead.transformer.families.writing import WRITERS
from tests.transformer.released_families import RELEASED

UNWRITTEN = {"llama4_text"}  # chunks and experts: a loaded one keeps its own keys


def test_the_families_with_a_writer() -> None:
    assert FAMILIES.keys() - WRITERS.keys() == UNWRITTEN
    assert WRITERS.keys() <= FAMILIES.keys()


@pytest.mark.parametrize("variant", [name for name in RELEASED if not name.startswith("llama4")])
def test_what_is_read_is_told_and_read_again(variant: str) -> None:
    name, settings = RELEASED[variant]
    theirs = getattr(transformers, name).config_class(**settings, architectures=[name])
    config = from_hugging_face(theirs.to_dict())
    told = WRITERS[theirs.model_type](config)
    keys = {"model_type": theirs.model_type, "architectures": [name], **told}
    assert from_hugging_face(json.loads(json.dumps(keys))) == config


def test_every_writer_is_tried() -> None:
    types = {getattr(transformers, name).config_class.model_type for name, _ in RELEASED.values()}
    assert set(WRITERS) <= types
