"""Reads what many families spell alike: rotary positions, and which layers have a window."""

import math
from collections.abc import Callable, Mapping, Sequence

from clearhead.errors import InputError
from clearhead.positions.kinds import Rotary
from clearhead.positions.scaling import (
    DynamicScaling,
    LinearScaling,
    Llama3Scaling,
    LongRopeScaling,
    RotaryScaling,
    YarnScaling,
    longrope_attention_factor,
    yarn_attention_factor,
)
from clearhead.transformer.config import LayerKind
from clearhead.transformer.families.keys import ConfigKeys

__all__ = ["layer_windows", "read_rotary", "shortest", "turning"]

_ORIGINAL = "original_max_position_embeddings"
_PART = "partial_rotary_factor"


def read_rotary(
    keys: ConfigKeys,
    *,
    d_k: int,
    context: int,
    theta: float = 10_000.0,
    fraction: float | None = None,
    interleaved: bool = False,
) -> Rotary:
    """Read base, scaling and width of rotary positions, in the new spelling or the old one.

    New: ``rope_parameters`` holds everything. Old: ``rope_theta`` and ``partial_rotary_factor``
    stand alone, and ``rope_scaling`` may stretch.

    Args:
        keys: the config.
        d_k: width of a head.
        context: number of positions, for a scaling that does not name the original one.
        theta: base where none is named.
        fraction: how much of a head turns where nothing is said; None for a family that turns the
            whole of it, whatever a file says, as transformers does.
        interleaved: whether neighbours are a pair.

    Returns:
        The positions.
    """
    new, old = keys.within("rope_parameters"), keys.within("rope_scaling")
    if new and old:
        keys.faults.append("rope_parameters and rope_scaling are both set, only one of them may be")
    group = old or new
    theta = group.number("rope_theta", default=keys.number("rope_theta", default=theta))
    part = group.number(_PART, default=keys.number(_PART, default=fraction or 1.0))
    if part > 1:
        keys.mean_nothing(_PART, f"must be at most 1, got {part}")
        part = 1.0
    rotary = turning(
        keys,
        group,
        d_k=d_k,
        context=context,
        # what stands outside the group goes before what stands in it, as in transformers
        original=keys.maybe_size(_ORIGINAL, default=None),
        theta=theta,
        fraction=1.0 if fraction is None else part,
        pairs=interleaved,
    )
    if fraction is None and part != 1 and rotary.scaling is not None:
        # transformers makes too few scaled frequencies for such a head, and cannot run the model
        keys.refuse(_PART, f"is {part}, only 1.0 is known where all of a head turns")
    keys.faults += group.finish()
    return rotary


def turning(
    keys: ConfigKeys,
    group: ConfigKeys,
    *,
    d_k: int,
    context: int,
    original: int | None = None,
    theta: float,
    fraction: float = 1.0,
    pairs: bool = False,
) -> Rotary:
    """Make rotary positions of a group of keys.

    Args:
        keys: the whole config, where faults are noted.
        group: the keys that tell of the scaling.
        d_k: width of a head.
        context: number of positions.
        original: of the model before its positions were scaled; None is what the group says, or
            ``context``.
        theta: base of the frequencies.
        fraction: how much of a head turns.
        pairs: whether neighbours are a pair.
    """
    width = None if fraction == 1.0 else int(d_k * fraction)
    before = len(group.faults) + len(keys.faults)
    try:
        scaling = _scaling(group, original, context)
        rotary = Rotary(theta=theta, scaling=scaling, width=width, interleaved=pairs)
    except InputError as fault:
        rotary = Rotary()
        if len(group.faults) + len(keys.faults) == before:
            keys.faults.append(" ".join(str(fault).split()))
    return rotary


def layer_windows(
    keys: ConfigKeys, *, layers: int, kinds: Sequence[str], window: int | None
) -> tuple[LayerKind, ...]:
    """Read which layers have a window.

    Args:
        keys: the config; ``layer_types`` there goes before ``kinds``, and ``sliding_window`` before
            ``window``.
        layers: how many there are.
        kinds: ``"sliding_attention"`` or ``"full_attention"`` for each layer, or a pattern of them.
        window: keys a token sees where nothing is said; None is all.

    Returns:
        The shortest pattern of layers.
    """
    window = keys.maybe_size("sliding_window", default=window)
    known = ["sliding_attention", "full_attention"]
    kinds = keys.names("layer_types", known, count=layers) or kinds
    return shortest(
        [LayerKind(window=window if kind == "sliding_attention" else None) for kind in kinds]
    )


def shortest(kinds: Sequence[LayerKind]) -> tuple[LayerKind, ...]:
    """Cut a list of layers down to the pattern that, repeated, gives it.

    Args:
        kinds: one for each layer.
    """
    for length in range(1, len(kinds)):
        pattern = kinds[:length]
        if all(kind == pattern[place % length] for place, kind in enumerate(kinds)):
            return tuple(pattern)
    return tuple(kinds)


def _scaling(group: ConfigKeys, original: int | None, context: int) -> RotaryScaling | None:
    kind, older_name = group.value("rope_type"), group.value("type")
    kind = str(kind or older_name or "default")
    if kind == "default":
        return None
    if kind not in _SCALINGS:
        group.refuse("rope_type", f"is {kind!r}, only default, {', '.join(_SCALINGS)} are known")
        return None
    return _SCALINGS[kind](group, original, context)


def _linear(group: ConfigKeys, original: int | None, context: int) -> LinearScaling:
    del original, context
    return LinearScaling(group.number("factor"))


def _dynamic(group: ConfigKeys, original: int | None, context: int) -> DynamicScaling:
    del original
    group.value(_ORIGINAL)  # the released models go by the whole context
    return DynamicScaling(group.number("factor"), original_context=context)


def _llama3(group: ConfigKeys, original: int | None, context: int) -> Llama3Scaling:
    return Llama3Scaling(
        factor=group.number("factor"),
        low_frequency_factor=group.number("low_freq_factor"),
        high_frequency_factor=group.number("high_freq_factor"),
        original_context=_original(group, original, context),
    )


def _yarn(group: ConfigKeys, original: int | None, context: int) -> YarnScaling:
    factor = group.number("factor")
    mscale, of_all = group.maybe_number("mscale"), group.maybe_number("mscale_all_dim")
    natural = yarn_attention_factor(factor, mscale=mscale, mscale_all_dim=of_all)
    return YarnScaling(
        factor=factor,
        original_context=_original(group, original, context),
        attention_factor=group.number("attention_factor", default=natural),
        beta_fast=group.number("beta_fast", default=32.0),
        beta_slow=group.number("beta_slow", default=1.0),
        truncate=group.flag("truncate", default=True),
    )


def _longrope(group: ConfigKeys, original: int | None, context: int) -> LongRopeScaling:
    original = _original(group, original, context)
    factor = group.number("factor", default=context / original)
    # a text of one position has no longer one to compare with: inf is refused where it counts
    natural = (
        longrope_attention_factor(factor, original_context=original) if original > 1 else math.inf
    )
    return LongRopeScaling(
        short_factors=group.numbers("short_factor"),
        long_factors=group.numbers("long_factor"),
        original_context=original,
        attention_factor=group.number("attention_factor", default=natural),
    )


def _original(group: ConfigKeys, original: int | None, context: int) -> int:
    """Positions before scaling; what the group says is read in any case."""
    within = group.size(_ORIGINAL, default=context)
    return original or within


_SCALINGS: Mapping[str, Callable[[ConfigKeys, int | None, int], RotaryScaling]] = {
    "linear": _linear,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "longrope": _longrope,
    "su": _longrope,
    "llama3": _llama3,
}
