"""Models from a hub, into the cache that transformers uses too."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from clearhead.errors import CheckpointError, UnknownModelError

__all__ = ["from_hub"]

# Safetensors alone: other forms of weights can run any program when they are read.
_WANTED = ["*.json", "*.safetensors", "*.jinja", "*.txt", "*.model"]
_PATIENCE_SECONDS = 5


def from_hub(name: str, *, revision: str | None) -> Path:
    """The local folder of a model on the hub; fetched when it is not there yet.

    Args:
        name: ``organisation/model``.
        revision: a branch, a tag or a commit; None for the main branch.

    Returns:
        The folder.

    Raises:
        UnknownModelError: the hub has no such model, or shows it to nobody without a key.
        CheckpointError: the hub cannot be reached, and the model was not fetched before.
    """
    import huggingface_hub
    from huggingface_hub import constants
    from huggingface_hub.errors import (
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        with _quiet():
            return Path(
                cast("Any", huggingface_hub).snapshot_download(
                    name,
                    revision=revision,
                    allow_patterns=_WANTED,
                    ignore_patterns=["*/*"],
                    etag_timeout=_PATIENCE_SECONDS,
                )
            )
    except (RepositoryNotFoundError, RevisionNotFoundError, HFValidationError) as fault:
        at = f" at revision {revision!r}" if revision else ""
        raise UnknownModelError(f"the model hub shows no model {name!r}{at}") from fault
    except LocalEntryNotFoundError as fault:
        offline = " (HF_HUB_OFFLINE is set)" if constants.HF_HUB_OFFLINE else ""
        raise CheckpointError(
            f"{name!r} is no folder here, was not fetched before, and the model hub cannot be "
            f"reached{offline}; connect to it once, or give a model folder or a GGUF file"
        ) from fault
    except Exception as fault:
        reason = str(fault).splitlines()[0] if str(fault) else type(fault).__name__
        raise CheckpointError(f"{name!r} cannot be fetched from the model hub: {reason}") from fault


@contextmanager
def _quiet() -> Generator[None]:
    """Keep the library's warnings to itself, and its bars where no terminal is."""
    from huggingface_hub.utils import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
        logging,
    )

    level, shown = logging.get_verbosity(), not are_progress_bars_disabled()
    logging.set_verbosity_error()
    if shown and not (sys.stderr and sys.stderr.isatty()):
        disable_progress_bars()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            enable_progress_bars()
