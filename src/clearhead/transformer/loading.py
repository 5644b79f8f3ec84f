"""From a model folder to a model in memory: which engine, which numbers, where."""

import torch
from torch import nn

from clearhead.errors import CheckpointError, InputError, UnsupportedError
from clearhead.pipeline.devices import present_device
from clearhead.tokens import TextTokenizer
from clearhead.transformer.available_memory import available_bytes, check_memory
from clearhead.transformer.families.keys import NonsenseError
from clearhead.transformer.families.own import OWN
from clearhead.transformer.families.spelling import Described, described
from clearhead.transformer.generation.endings import endings_of
from clearhead.transformer.model import Transformer
from clearhead.transformer.model_folder import ModelFolder
from clearhead.transformer.released import Released, load_released

__all__ = ["load"]

_DTYPES = ("float32", "bfloat16", "float16", "float64")


def load(
    folder: ModelFolder, *, engine: str | None, dtype: object, device: object, name: str
) -> nn.Module:
    """Load a model, with the words and the tokenizer that belong to it.

    Args:
        folder: the folder, looked over.
        engine: ``clearhead``, ``transformers``, or None for the first that can.
        dtype: of the weights, as torch's or by name; None is float32.
        device: where to put them, as torch's or by name; None is the CPU.
        name: what the user called the model.

    Returns:
        The model in eval mode. Its ``clearhead_name`` is ``name``; its
        ``clearhead_origin`` says in words what its weights are; its
        ``clearhead_tokenizer`` is a `TextTokenizer`, or None where the folder has none; and an
        encoder-decoder of ours has the ids its decoder begins with as ``clearhead_start_tokens``.

    Raises:
        InputError: no such dtype or device, or the weights are more than there is memory for.
        UnsupportedError: the engine was named and cannot load this folder.
        CheckpointError: the weights cannot be used.
    """
    number = _dtype(dtype)
    place = present_device("cpu" if device is None else device)
    told = _told(folder)
    refusal = told if isinstance(told, str) else None
    if refusal and folder.family == OWN.model_type and engine != "transformers":
        raise CheckpointError(f"{folder.path / 'config.json'} cannot be read: {refusal}")
    if engine == "clearhead" and refusal:
        raise UnsupportedError(f'engine="clearhead" cannot load {name}: {refusal}')
    if place.type == "cpu":
        _check_memory(folder, told, number)
    if engine == "transformers" or refusal:
        # Its import takes seconds, which a model of ours does without.
        from clearhead.transformer.hugging_face import load_hugging_face, wrapped_tokenizer

        model = load_hugging_face(folder, dtype=number, device=place)
        tokenizer = _tokenizer(folder) or wrapped_tokenizer(folder)
    else:
        model = load_released(folder, dtype=number, device=place)
        tokenizer = _tokenizer(folder)
    said = {"clearhead_name": name, "clearhead_origin": _origin(folder, number, name)}
    # what a trace of the model tells and needs, and what saving it writes again
    vars(model).update(said, clearhead_tokenizer=tokenizer)
    vars(model).update(clearhead_released=Released(folder.config, folder.path, tokenizer))
    if isinstance(model, Transformer) and model.encoder is not None:
        vars(model).update(clearhead_start_tokens=endings_of(model, tokenizer).start)
    return model


def _told(folder: ModelFolder) -> Described | str:
    """What our own Transformer reads, or why it cannot; what no engine can read is raised."""
    try:
        return described(folder.config)
    except NonsenseError as fault:
        raise CheckpointError(f"{folder.path / 'config.json'} cannot be read: {fault}") from fault
    except CheckpointError as fault:
        return str(fault)


def _check_memory(folder: ModelFolder, told: Described | str, dtype: torch.dtype) -> None:
    """Refuse weights that memory cannot hold, before any of them is read.

    Those that stay mapped to their file count as well: the first run reads them all into memory,
    and where there is no room for all, every run reads them from the disk again.
    """
    again: list[str] = []
    if isinstance(told, Described) and told.config.tied_embeddings:
        # of two that are one tensor in the model, a file may hold both
        again = [twin for twin, name in told.family.twins.items() if name in folder.tensors]
    name = str(dtype).removeprefix("torch.")
    smaller = "load it in a smaller dtype, such as bfloat16, or " if dtype.itemsize > 2 else ""
    check_memory(
        {f"the weights in {folder.path} as {name}": folder.bytes_as(name, apart_from=again)},
        available_bytes(),
        advice=f"{smaller}take a smaller model",
    )


def _tokenizer(folder: ModelFolder) -> TextTokenizer | None:
    present = (folder.path / "tokenizer.json").is_file()
    return TextTokenizer.from_folder(folder.path) if present else None


def _origin(folder: ModelFolder, dtype: torch.dtype, name: str) -> str:
    """What the weights are, and what they became on loading."""
    stored = " and ".join(folder.stored_as)
    asked = str(dtype).removeprefix("torch.")
    origin = folder.origin or f"{name} {stored}, as stored"
    return origin if folder.stored_as == (asked,) else f"{origin}, loaded as {asked}"


def _dtype(dtype: object) -> torch.dtype:
    """A dtype by torch's object or its name."""
    name = "float32" if dtype is None else str(dtype).removeprefix("torch.")
    if name not in _DTYPES:
        raise InputError(f"dtype: expected one of {', '.join(_DTYPES)}, got {dtype!r}")
    return getattr(torch, name)
