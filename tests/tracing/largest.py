"""How large tensors become inside a piece of code."""

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["Largest"]


class Largest(TorchDispatchMode):
    """Watches how many bytes the largest tensor takes that is made inside."""

    def __init__(self) -> None:
        super().__init__()
        self.nbytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Run one operation of PyTorch, and look at what it made."""
        out = func(*args, **(kwargs or {}))
        found = out if isinstance(out, list | tuple) else [out]
        sizes = [x.untyped_storage().nbytes() for x in found if isinstance(x, Tensor)]
        self.nbytes = max([self.nbytes, *sizes])
        return out
