"""A device is read by name or object, and one that is not there is said."""

import pytest
import torch

from clearhead.errors import InputError
from clearhead.pipeline.devices import present_device


@pytest.mark.parametrize("device", ["cpu", torch.device("cpu")])
def test_a_device_by_name_or_object(device):
    assert present_device(device) == torch.device("cpu")


@pytest.mark.parametrize("device", ["no such place", "cuda:99", object(), None])
def test_a_device_that_is_not_there_is_said(device):
    with pytest.raises(InputError) as caught:
        present_device(device)
    # the reason after it is PyTorch's
    said = f"device: expected one of this machine, got {device!r}: "
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)
