"""Where clearhead keeps what it has fetched or made, for every project of a user."""

import os
from pathlib import Path

import platformdirs

__all__ = ["VARIABLE", "cache_folder"]

#: Names the folder to use instead of the user's cache folder.
VARIABLE = "CLEARHEAD_CACHE"


def cache_folder() -> Path:
    """The folder: ``$CLEARHEAD_CACHE``, or clearhead's own in the user's cache."""
    chosen = os.environ.get(VARIABLE)
    return (
        Path(chosen).expanduser().absolute()
        if chosen
        else platformdirs.user_cache_path("clearhead")
    )
