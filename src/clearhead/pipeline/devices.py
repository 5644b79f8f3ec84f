"""Where a person wants tensors to lie."""

from typing import cast

import torch

from clearhead.errors import InputError

__all__ = ["present_device"]


def present_device(device: object) -> torch.device:
    """Read a device by torch's object or its name, one that this machine has.

    Args:
        device: what a person gave.

    Returns:
        The device.

    Raises:
        InputError: it is no device, or this machine has none of that name.
    """
    try:
        found = torch.device(cast("str", device))
        torch.empty(0, device=found)
    # PyTorch raises, in this order: for a name it does not know, for a device that this build was
    # made without, for one that has no memory to lay out, and for what is no name at all
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as fault:
        reason = str(fault).splitlines()[0]
        raise InputError(
            f"device: expected one of this machine, got {device!r}: {reason}"
        ) from fault
    return found
