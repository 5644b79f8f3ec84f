"""What a cache takes, from the configuration alone, to the byte."""

import numpy as np
import pytest
import torch

from clearhead.errors import InputError
from clearhead.transformer.cache import KVCache
from clearhead.transformer.cache_cost import cache_bytes, whole
from tests.transformer.tiny_models import BOTH, DECODERS, tiny, tiny_config


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("capacity", [1, 64, 700])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_it_is_the_cache_to_the_byte(name, capacity, dtype) -> None:
    config = tiny_config(name)
    cache = KVCache(config, batch=3, capacity=capacity, dtype=getattr(torch, dtype))
    assert cache_bytes(config, batch=3, capacity=capacity, dtype=dtype) == cache.nbytes


@pytest.mark.parametrize("name", BOTH)
def test_what_a_source_takes_is_counted(name) -> None:
    model = tiny(name, dtype=torch.float32)
    cache = KVCache(model.config, batch=2, capacity=10)
    ids = torch.zeros(2, 7, dtype=torch.int64)
    model(ids[:, :1], source=model.encode(ids), cache=cache)
    assert cache_bytes(model.config, batch=2, capacity=10, source_length=7) == cache.nbytes


def test_no_such_dtype() -> None:
    with pytest.raises(InputError) as caught:
        cache_bytes(tiny_config(), capacity=1, dtype="int8")
    assert str(caught.value) == (
        "no such cache: dtype: expected one of float64, float32, bfloat16, float16, got 'int8'"
    )


def test_sizes_that_are_no_whole_numbers() -> None:
    with pytest.raises(InputError) as caught:
        cache_bytes(tiny_config(), batch=0, capacity=1.5, dtype="float", source_length=-1)
    assert str(caught.value) == (
        "no such cache, 4 faults:\n"
        "  - batch must be a positive whole number, got 0\n"
        "  - capacity must be a positive whole number, got 1.5\n"
        "  - dtype: expected one of float64, float32, bfloat16, float16, got 'float'\n"
        "  - source_length must be a whole number of 0 or more, got -1"
    )


def test_whole_numbers() -> None:
    assert [whole(value) for value in (3, -1, np.int64(3), torch.tensor(3))] == [3, -1, 3, 3]
    wrong = (True, 3.0, "3", None, np.True_, np.float32(3), torch.tensor(True), torch.ones(2))
    assert {whole(value) for value in wrong} == {None}
