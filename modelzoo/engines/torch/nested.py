"""Apply a function to every tensor of a nested value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable


def mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """Return ``value`` with ``function`` applied to its tensors.

    Args:
        value: a tensor, or nested lists, tuples and mappings of them, such as the outputs of transformers; anything
            else stays as it is.
        function: takes a tensor.
    """
    import torch

    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, Mapping):
        items = {key: mapped(item, function) for key, item in value.items()}
        return items if type(value) is dict else type(value)(**items)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(item, function) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(item, function) for item in value)
    return value
