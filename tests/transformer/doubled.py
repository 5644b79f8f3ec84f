"""float64 throughout, for models whose norms and angles are float32 whatever their dtype.

Released models take the root of an RMS norm, rotary angles, softmax, expert shares and temperatures
in float32 even where the model is float64, and so does ours: that is how they are defined. Two such
models, both right, then differ by 1e-7, for a last bit that falls the other way inside; and a real
fault of 1e-8 would hide behind it. Inside :class:`Doubled`, "float32" means float64, for theirs and
ours alike, so that what remains to differ is structure: which number goes where. That is then held
to 1e-10. How float32 itself rounds is judged apart, without it.
"""

from collections.abc import Callable, Iterable
from typing import Any, Self

import torch
from torch.overrides import TorchFunctionMode

__all__ = ["Doubled"]


class Doubled(TorchFunctionMode):
    """Inside, every call of PyTorch that asks for float32 gets float64.

    ``x.float()`` gives float64; so does float32 wherever it is an argument, as in ``x.to``,
    ``softmax(dtype=)`` and ``arange(dtype=)``; and tensors made without a dtype are float64, a
    model's parameters among them. What was made outside keeps its dtype.
    """

    def __enter__(self) -> Self:
        """Begin."""
        self._default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        super().__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        """End."""
        super().__exit__(*raised)
        torch.set_default_dtype(self._default)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        """Make one call, wider."""
        func = torch.Tensor.double if func is torch.Tensor.float else func
        named = {name: _wide(value) for name, value in (kwargs or {}).items()}
        return func(*map(_wide, args), **named)


def _wide(value: object) -> object:
    return torch.float64 if value is torch.float32 else value
