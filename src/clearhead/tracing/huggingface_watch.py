"""What is observed of a transformers model while it runs: X, O and W_O.

None of them is part of the call that its attention interface makes. X is what the attention module
is handed. O is what comes of the context: W_O is the linear layer that is next handed exactly the C
we returned, if it is the only one and what it gives is what goes on. Nothing is guessed from names.
"""

from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, cast
from weakref import WeakKeyDictionary

from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from clearhead.errors import TraceError
from clearhead.pipeline.tap import Site, visit
from clearhead.tracing.models import OutputProjection

__all__ = ["Watch", "watch_of", "watching"]

#: What an attention module is handed that attends to another text.
_ANOTHER_TEXT = ("key_value_states", "encoder_hidden_states")


@dataclass(eq=False, slots=True)
class _Returned:
    """A context that was handed to the model, and who has read it since.

    Attributes:
        site: the layer.
        context: C as returned. It is held so that no tensor of the same size takes its memory and
            passes for it.
        writes: how often its memory had been written to.
        reader: the outermost module that was handed C alone: W_O, or what is wrapped around it.
        linear: the linear layer, the reader itself or inside it, that was handed C last.
        linears: how many were.
        product: what it gave, and how often that had been written to.
        finished: whether the reader has given what it makes of C.
    """

    site: Site
    context: Tensor
    writes: int | None
    reader: nn.Module | None = None
    linear: nn.Linear | Conv1D | None = None
    linears: int = 0
    product: tuple[Tensor, int | None] | None = None
    finished: bool = False

    def is_handed_to(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Whether these arguments are this context, untouched, and no other tensor."""
        tensors = [given for given in (*args, *kwargs.values()) if isinstance(given, Tensor)]
        return (
            len(tensors) == 1
            and _is_joined(tensors[0], self.context)
            and _writes(self.context) == self.writes
        )

    def projection(self, output: Tensor) -> OutputProjection | None:
        """W_O, where what the reader gives is what its one linear layer gave, untouched."""
        if self.linear is None or self.linears != 1 or self.product is None:
            return None
        given, writes = self.product
        same = output.data_ptr() == given.data_ptr() and output.numel() == given.numel()
        return _projection(self.linear) if same and _writes(output) == writes else None


class Watch:
    """What is observed of one model while it runs.

    Args:
        sites: the attention modules, and which site each one is.

    Attributes:
        projections: W_O of each site, once a run has shown it.
        misread: sites whose context was read once more after their output had been seen: that
            output is a part of O.
        ran: sites of which anything ran.
    """

    def __init__(self, sites: Mapping[nn.Module, Site]) -> None:
        self.projections: dict[Site, OutputProjection] = {}
        self.misread: set[Site] = set()
        self.ran: set[Site] = set()
        self._sites = WeakKeyDictionary(sites)
        self._runs = 0
        self._undo = ExitStack()
        self._returned: _Returned | None = None

    @contextmanager
    def watching(self, model: nn.Module) -> Generator[bool]:
        """Observe a model's modules; inside another watch of the same model, go on with that one.

        Yields:
            Whether this is the outermost watch.
        """
        if self._runs == 0:
            self.ran.clear()
            self._begin(model)
        self._runs += 1
        try:
            yield self._runs == 1
        finally:
            self._runs -= 1
            if self._runs == 0:
                self._undo.close()
                self._returned = None

    def site(self, module: nn.Module) -> Site:
        """Which site an attention module is."""
        return self._sites[module]

    def returned(self, site: Site, context: Tensor) -> None:
        """Remember the context that was just handed to the model, until nothing can read it.

        That is when its attention module has ended with C read, or when the next layer comes.
        """
        self.projections.pop(site, None)
        self.misread.discard(site)
        self._returned = _Returned(site, context, _writes(context))

    def _begin(self, model: nn.Module) -> None:
        for module, site in self._sites.items():
            _WATCHED[module] = self
            self._undo.callback(_WATCHED.pop, module, None)
            sees = partial(self._sees_input, site)
            hook = module.register_forward_pre_hook(sees, with_kwargs=True)
            self._undo.callback(hook.remove)
            for part in set(module.modules()) - {module}:
                # a part may be called past its module, which must not pass for one that rested
                hook = part.register_forward_pre_hook(partial(self._runs_at, site))
                self._undo.callback(hook.remove)
            self._undo.callback(module.register_forward_hook(self._ends).remove)
        for module in _readers(model, set(self._sites)):
            hook = module.register_forward_pre_hook(self._reads, with_kwargs=True)
            self._undo.callback(hook.remove)
            self._undo.callback(module.register_forward_hook(self._gives).remove)

    def _sees_input(
        self, site: Site, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        del module
        self.ran.add(site)
        if site.kind == "self" and any(kwargs.get(name) is not None for name in _ANOTHER_TEXT):
            raise TraceError(
                f"{site.name} was taken for self-attention, and reads another text: this model "
                "cannot be traced"
            )
        if args:
            return (visit(site, "attention_input", args[0]), *args[1:]), kwargs
        if "hidden_states" not in kwargs:
            return None
        read = visit(site, "attention_input", kwargs["hidden_states"])
        return args, {**kwargs, "hidden_states": read}

    def _runs_at(self, site: Site, module: nn.Module, args: tuple[Any, ...]) -> None:
        del module, args
        self.ran.add(site)

    def _reads(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A module is about to run: is it handed the context that was just returned?"""
        context = self._returned
        if context is None or not context.is_handed_to(args, kwargs):
            return
        if context.finished:
            self.projections.pop(context.site, None)
            self.misread.add(context.site)
            return
        if context.reader is None:
            context.reader = module
        if isinstance(module, nn.Linear | Conv1D):
            context.linear, context.linears = module, context.linears + 1

    def _gives(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        del args
        context = self._returned
        if context is None or context.finished or not isinstance(output, Tensor):
            return output
        if module is context.linear:
            context.product = (output, _writes(output))
        if module is not context.reader:
            return output
        projection = context.projection(output)
        if projection is not None:
            self.projections[context.site] = projection
        context.finished, context.product = True, None
        return visit(context.site, "output", output)

    def _ends(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        """An attention module has run: what of its context was read inside it is all there is."""
        del module, args, output
        if self._returned is not None and self._returned.finished:
            self._returned = None


#: The watch of each attention module of a model that is being watched.
_WATCHED: WeakKeyDictionary[nn.Module, Watch] = WeakKeyDictionary()


def watch_of(sites: Mapping[nn.Module, Site]) -> Watch:
    """The watch that is on these modules already, or a new one."""
    known = next((_WATCHED[module] for module in sites if module in _WATCHED), None)
    return Watch(sites) if known is None else known


def watching(module: nn.Module) -> Watch | None:
    """The watch that is on an attention module now, or None."""
    return _WATCHED.get(module)


def _readers(model: nn.Module, attention: set[nn.Module]) -> Iterator[nn.Module]:
    """Linear layers, and what may be wrapped around one: all that holds some and no attention."""
    for module in model.modules():
        inside = set(module.modules())
        linear = any(isinstance(part, nn.Linear | Conv1D) for part in inside)
        if linear and not inside & attention:
            yield module


def _projection(linear: nn.Linear | Conv1D) -> OutputProjection | None:
    """W_O as a linear layer holds it; None for one with a forward of its own (packed, adapted)."""
    kind: Any = Conv1D if isinstance(linear, Conv1D) else nn.Linear
    if cast("Any", type(linear)).forward is not kind.forward:
        return None
    weight: Tensor = linear.weight.T if isinstance(linear, Conv1D) else linear.weight
    bias = cast("Tensor | None", linear.bias)
    return OutputProjection(weight.detach(), None if bias is None else bias.detach())


def _is_joined(tensor: Tensor, context: Tensor) -> bool:
    """Whether a tensor is this context, its heads side by side and nothing else changed."""
    return (
        tensor.data_ptr() == context.data_ptr()
        and tensor.numel() == context.numel()
        and tensor.shape[-1] == context.shape[-2] * context.shape[-1]
        and tensor.is_contiguous()
    )


def _writes(tensor: Tensor) -> int | None:
    """How often a tensor's memory was written to; None where PyTorch does not count."""
    # the counter has no public name
    return None if tensor.is_inference() else tensor._version  # noqa: SLF001
