"""Stored results do not tell who measured them: private names are masked in every string."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from modelzoo.files import private_path


def mask(data: Any, environ: Mapping[str, str] = os.environ) -> Any:
    """Return a copy of JSON data with home directories and user names masked in every string.

    Keys and bytes stay as they are. A string that is not valid Unicode (a path in another encoding) is made valid.

    Args:
        data: dicts, lists, tuples, strings, bytes and numbers.
        environ: the variables that give the home directory and the user's name; see ``private_path``.
    """
    if isinstance(data, dict):
        return {key: mask(value, environ) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [mask(value, environ) for value in data]
    return _mask_text(data, environ) if isinstance(data, str) else data


def _mask_text(text: str, environ: Mapping[str, str]) -> str:
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode()
    # Most strings hold no path.
    return private_path(text, environ) if "/" in text or "\\" in text else text
