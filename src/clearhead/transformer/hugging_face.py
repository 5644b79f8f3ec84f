"""Loads a model folder into transformers' own class of model, strictly.

One of the few files that let in unknown types: transformers leaves much untyped.
"""

import warnings
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import torch
import transformers
from torch import nn
from transformers.utils import logging

from clearhead.errors import CheckpointError, gathered
from clearhead.tokens import TextTokenizer
from clearhead.transformer.model_folder import ModelFolder

__all__ = ["load_hugging_face", "wrapped_tokenizer"]


def load_hugging_face(
    folder: ModelFolder, *, dtype: torch.dtype, device: torch.device
) -> nn.Module:
    """Load a folder with the transformers class that its configuration names.

    Args:
        folder: the folder, looked over.
        dtype: what to convert the weights to.
        device: where to put them.

    Returns:
        The model, in eval mode.

    Raises:
        CheckpointError: tensors are missing, unexpected or of a wrong shape, all listed; the
            folder needs code of its own; or transformers cannot load it.
    """
    with _quiet():
        try:
            config = cast("Any", transformers.AutoConfig).from_pretrained(
                folder.path, local_files_only=True, trust_remote_code=False
            )
            model, report = _class_of(folder).from_pretrained(
                folder.path,
                config=config,
                dtype=dtype,
                use_safetensors=folder.form == "safetensors",
                local_files_only=True,
                # Raised as ours, with all others; the model is not used.
                ignore_mismatched_sizes=True,
                output_loading_info=True,
            )
        except Exception as fault:
            reason = " ".join(str(fault).split()) or type(fault).__name__
            raise CheckpointError(f"transformers cannot load {folder.path}: {reason}") from fault
    faults = _faults(report)
    if faults:
        name = type(model).__name__
        raise CheckpointError(gathered(f"the weights in {folder.path} are no {name}'s", faults))
    return model.to(device).eval()


def wrapped_tokenizer(folder: ModelFolder) -> TextTokenizer | None:
    """The tokenizer of a folder without ``tokenizer.json``, as transformers builds it; or None.

    Args:
        folder: the folder, looked over.
    """
    with _quiet():
        try:
            host = cast("Any", transformers.AutoTokenizer).from_pretrained(
                folder.path, local_files_only=True, trust_remote_code=False
            )
        except Exception:  # noqa: BLE001  (whatever the reason, a model can be used without one)
            return None
    # Where its files are missing, transformers makes a tokenizer of a few special tokens instead.
    vocabulary = [name for name in host.vocab_files_names.values() if name != "tokenizer.json"]
    needed = vocabulary or ["tokenizer_config.json"]
    there = any((folder.path / name).is_file() for name in needed)
    return TextTokenizer.wrap(host) if there else None


def _class_of(folder: ModelFolder) -> Any:
    """The class the configuration names, or the family's model without a head."""
    library = cast("Any", transformers)
    named = getattr(library, folder.architecture or "", None)
    is_model = isinstance(named, type) and issubclass(named, library.PreTrainedModel)
    return cast("Any", named) if is_model else library.AutoModel


def _faults(report: dict[str, Any]) -> list[str]:
    """What transformers reports and goes on with: it would fill in random numbers."""
    faults = [f"missing {name}" for name in sorted(report["missing_keys"])]
    faults += [f"unexpected {name}" for name in sorted(report["unexpected_keys"])]
    for name, there, wanted in sorted(report["mismatched_keys"]):
        faults.append(f"{name} has the shape {tuple(there)}, expected {tuple(wanted)}")
    return faults + [str(message) for message in report.get("error_msgs", ())]


@contextmanager
def _quiet() -> Generator[None]:
    """Keep transformers' warnings and bars to itself: what matters is raised instead."""
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
