"""Stored results do not reveal who measured them: private names are masked in every string."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from modelzoo.files import private_path


def mask(data: Any, environ: Mapping[str, str] = os.environ) -> Any:
    """Return a copy of JSON data with home directories and user names masked in every string.

    Keys and bytes stay as they are.

    Args:
        data: dicts, lists, tuples, strings, bytes and numbers.
        environ: the variables that give the home directory and the user's name; see ``private_path``.
    """
    if isinstance(data, dict):
        return {key: mask(value, environ) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [mask(value, environ) for value in data]
    # Most strings contain no path.
    if isinstance(data, str) and ("/" in data or "\\" in data):
        return private_path(data, environ)
    return data
