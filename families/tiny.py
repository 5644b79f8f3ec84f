"""Tiny random models of every family of transformers."""

import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import CONFIG_MAPPING, PreTrainedConfig, PreTrainedModel
from transformers.models.auto import modeling_auto

from families.sizes import FILLED, LATENT, LAYERS, OVERRIDES, SIZES

__all__ = [
    "CLASSES",
    "FAMILIES",
    "NotMadeError",
    "class_name",
    "inputs",
    "target",
    "text",
    "tiny_model",
]

#: Names of model classes, by task and family.
CLASSES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "causal": modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        "masked": modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
        "seq2seq": modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    }
)

#: Families, by task.
FAMILIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {task: tuple(names) for task, names in CLASSES.items()}
)

TOKENS = 12
#: Spread of the weights: at the usual 0.02 every row of A is nearly flat, and errors hardly show.
SPREAD = 0.1


class NotMadeError(Exception):
    """No tiny model of a family could be made; says why."""


def class_name(family: str, task: str) -> str:
    """The class of a family's models for a task."""
    names = CLASSES[task][family]
    return names if isinstance(names, str) else names[0]


def text(*, rows: int = 1, tokens: int = TOKENS) -> Tensor:
    """Token ids that every tiny model knows and that no family sets apart, always the same."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(10, 60, (rows, tokens), generator=generator)


def inputs(model: PreTrainedModel, ids: Tensor) -> dict[str, Any]:
    """What a model is called with for a text; an encoder-decoder reads its start as a target."""
    called: dict[str, Any] = {"input_ids": ids, "use_cache": False}
    if model.config.is_encoder_decoder:
        called["decoder_input_ids"] = target(ids)
    return called


def target(ids: Tensor) -> Tensor:
    """What a decoder reads beside a text: seven of its tokens, backwards."""
    return ids.flip(-1)[:, :7]


def tiny_model(family: str, task: str) -> PreTrainedModel:
    """Make a tiny model of a family, with random weights that are always the same.

    Args:
        family: a model type of transformers, one of ``FAMILIES[task]``.
        task: "causal", "masked" or "seq2seq".

    Returns:
        The model, in float32 and evaluation mode; it has read a text once.

    Raises:
        NotMadeError: the configuration, the model or its first run failed.
    """
    with torch.random.fork_rng(devices=[]), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what a default configuration lacks
        torch.manual_seed(0)
        step = "its configuration"
        try:
            config = _tiny_config(family, task)
            step = "the model"
            made = getattr(transformers, class_name(family, task))
            if not isinstance(config, made.config_class):
                config = config.get_text_config(decoder=True)
            model = made(config).float().eval()
            _spread(model)
            step = "its first run"
            logits = model(**inputs(model, text())).logits
        except Exception as error:
            said = " ".join(str(error).split())
            raise NotMadeError(f"{step}: {type(error).__name__}: {said}") from error
    if not logits.isfinite().all():
        raise NotMadeError("its first run: logits are not finite")
    return model


def _tiny_config(family: str, task: str) -> PreTrainedConfig:
    made = CONFIG_MAPPING[family]
    sizes = _sizes(made)
    held = vars(made())
    if task == "causal" and "is_decoder" in held:
        sizes["is_decoder"] = True
    return made(**sizes)


def _sizes(made: type[PreTrainedConfig]) -> dict[str, Any]:
    """Arguments of a tiny configuration: its fields, each made as small as the tables say."""
    held = vars(made())
    aliases = getattr(made, "attribute_map", {})
    sizes: dict[str, Any] = {}
    for name, size in SIZES.items():
        value = held.get(name, "absent")
        if name in aliases:
            continue
        if value is None and name in FILLED:
            sizes[name] = size
        elif isinstance(value, int) and not isinstance(value, bool):
            sizes[name] = min(size, value)
    if "kv_lora_rank" in held:
        sizes |= {name: size for name, size in LATENT.items() if held.get(name) is not None}
    sizes |= _by_layer(held, sizes)
    for name, value in held.items():
        if (
            name.endswith("_token_id")
            and isinstance(value, int)
            and value >= sizes.get("vocab_size", 99)
        ):
            sizes[name] = 1
        elif isinstance(value, float) and name.endswith(("dropout", "pdrop", "dropout_prob")):
            sizes[name] = 0.0
        elif isinstance(value, PreTrainedConfig):
            sizes[name] = type(value)(**_sizes(type(value)))
    return sizes | dict(OVERRIDES.get(made.model_type or made.__name__, {}))


def _by_layer(held: Mapping[str, Any], sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Lists with an entry for each layer, cut; of kinds of layers, each kind is there."""
    counts = [name for name in LAYERS if name in sizes]
    if not counts:
        return {}
    before, count = held[counts[0]], sizes[counts[0]]
    lists = {
        name: list(value)
        for name, value in held.items()
        if isinstance(value, list | tuple) and len(value) == before
    }
    cut: dict[str, Any] = {}
    for name, value in lists.items():
        kinds = list(dict.fromkeys(value)) if all(isinstance(v, str) for v in value) else []
        many = 1 < len(kinds) <= count
        cut[name] = (kinds * count)[:count] if many else value[:count]
    return cut


def _spread(model: PreTrainedModel) -> None:
    """Widen what was drawn narrowly, so that attention is far from flat."""
    for weight in model.parameters():
        if weight.ndim > 1 and 0 < float(weight.std()) < SPREAD / 2:
            weight.mul_(SPREAD / float(weight.std()))
