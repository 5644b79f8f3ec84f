"""What a cache takes, from the configuration alone, to the byte."""

import pytest
import torch

from clearhead.errors import InputError
from clearhead.transformer.cache import KVCache
from clearhead.transformer.cache_cost import cache_bytes
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
        "dtype: expected one of float64, float32, bfloat16, float16, got 'int8'"
    )
