"""Containers of arrays, as models take and return them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from copy import copy
from dataclasses import fields, is_dataclass
from typing import Any


def mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """Return ``value`` with ``function`` applied to its arrays and scalars.

    Args:
        value: nested lists, tuples, mappings and dataclasses, each of which becomes another one of its type, with the
            attributes that it has besides: a named tuple, a ``BatchEncoding`` or an output of transformers.
        function: takes anything else but ``None``.
    """
    if isinstance(value, MutableMapping) or is_dataclass(value):
        found: Any = copy(value)
        if isinstance(value, MutableMapping):
            for key, each in value.items():
                found[key] = mapped(each, function)
        else:
            for field in fields(value):
                object.__setattr__(found, field.name, mapped(getattr(value, field.name), function))
        return found
    if isinstance(value, Mapping):
        return {key: mapped(each, function) for key, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(each, function) for each in value))
    if isinstance(value, (list, tuple)):
        return type(value)([mapped(each, function) for each in value])
    return value if value is None else function(value)


def leaves(value: Any) -> Iterator[Any]:
    """The arrays and scalars that ``mapped`` would apply a function to, in order."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if is_dataclass(value):
        value = [getattr(value, each.name) for each in fields(value)]
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(item)
    elif value is not None:
        yield value


def tensors_in(value: Any) -> list[Any]:
    """The tensors of torch among ``leaves``; of nested tensors their values, as a vector."""
    import torch

    found = (each for each in leaves(value) if isinstance(each, torch.Tensor))
    return [each.values() if each.is_nested else each for each in found]
