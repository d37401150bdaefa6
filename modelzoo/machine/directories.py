"""Where the suite keeps what it can make again."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import platformdirs


def cache_directory() -> Path:
    """Return ``$MODELZOO_CACHE``, or else the user's cache directory for ``modelzoo``; neither need exist.

    On Linux the latter is ``$XDG_CACHE_HOME/modelzoo``, by default ``~/.cache/modelzoo``. If the user has no home
    directory, as in a container that runs under an unknown user id, it is below the directory for temporary files.
    """
    configured = os.environ.get("MODELZOO_CACHE")
    if configured:
        return Path(configured)
    path = platformdirs.user_cache_path("modelzoo", appauthor=False)
    if path.is_absolute():
        return path
    return Path(tempfile.gettempdir()) / f"modelzoo-{os.getuid()}"
