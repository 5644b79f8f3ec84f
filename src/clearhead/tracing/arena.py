"""One allocation for everything a trace keeps, sized when the first layer is seen.

References kept layer by layer pin the heap between the model's own buffers, so that the peak grows
by more than the trace; one arena does not.
"""

import torch
from torch import Tensor

__all__ = ["Arena"]

#: Start of every tensor, in bytes: a cache line.
ALIGNMENT = 64


class Arena:
    """Memory from which tensors are cut one after the other.

    Args:
        device: where the memory lies.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.nbytes = 0
        self._room: Tensor = torch.empty(0, dtype=torch.uint8)
        self._used = 0

    def reserve(self, nbytes: int) -> None:
        """Make room for this many more bytes, in one allocation, unless that much is left.

        Args:
            nbytes: bytes to come, alignment included (:meth:`padded`).
        """
        if self._room.numel() - self._used < nbytes:
            self._room = torch.empty(nbytes, dtype=torch.uint8, device=self.device)
            self._used = 0

    def store(self, tensor: Tensor) -> Tensor:
        """Copy a tensor into the arena.

        Args:
            tensor: what to keep, of any layout.

        Returns:
            The copy, contiguous, without gradient.
        """
        size = tensor.numel() * tensor.element_size()
        self.reserve(self.padded(size))
        part = self._room[self._used : self._used + size].view(tensor.dtype).view(tensor.shape)
        part.copy_(tensor.detach())
        self._used += self.padded(size)
        self.nbytes += size
        return part

    @staticmethod
    def padded(nbytes: int) -> int:
        """Bytes that a tensor takes, up to the start of the next."""
        return -(-nbytes // ALIGNMENT) * ALIGNMENT
