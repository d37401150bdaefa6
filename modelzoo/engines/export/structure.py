"""Take nested inputs and outputs apart into arrays, and put them together again. Pure; for arrays of any library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from modelzoo.errors import UsageError

ARRAY, SCALAR, NONE, TUPLE, LIST, DICT, OUTPUT = "array", "scalar", "none", "tuple", "list", "dict", "output"


@dataclass(frozen=True)
class Structure:
    """How arrays are nested.

    Attributes:
        kind: ``array``; ``scalar`` (a Python number, kept as an array without dimensions); ``none``; ``tuple``,
            ``list``; ``dict``; or ``output`` (a ``ModelOutput`` of transformers).
        keys: of a ``dict`` or ``output``, in order.
        parts: what a container holds, in order.
    """

    kind: str
    keys: tuple[str, ...] = ()
    parts: tuple[Structure, ...] = ()

    def names(self, prefix: str = "") -> tuple[str, ...]:
        """Return a name for each array, in order: ``0``, ``1.boxes``; ``output`` if the whole is one array."""
        if self.kind in (ARRAY, SCALAR):
            return (prefix or "output",)
        keys = self.keys or tuple(map(str, range(len(self.parts))))
        return tuple(
            name for key, part in zip(keys, self.parts) for name in part.names(f"{prefix}.{key}" if prefix else key)
        )

    @property
    def count(self) -> int:
        """Number of arrays."""
        return 1 if self.kind in (ARRAY, SCALAR) else sum(part.count for part in self.parts)


class NamedOutput(dict[str, Any]):
    """The arrays of a ``ModelOutput``, which are found by key, attribute and number."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key) if isinstance(key, str) else tuple(self.values())[key]


def flatten(value: Any) -> tuple[Structure, list[Any]]:
    """Return how the arrays in ``value`` are nested, and the arrays in order.

    Raises:
        UsageError: ``value`` holds an object that is neither an array, a number nor a container of these.
    """
    if value is None:
        return Structure(NONE), []
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return Structure(ARRAY), [value]
    if isinstance(value, (bool, int, float)):
        return Structure(SCALAR), [value]
    if isinstance(value, Mapping):
        kind = OUTPUT if hasattr(value, "to_tuple") else DICT
        found = [flatten(each) for each in value.values()]
        return _container(kind, found, tuple(map(str, value)))
    if isinstance(value, (tuple, list)):
        return _container(LIST if isinstance(value, list) else TUPLE, [flatten(each) for each in value])
    raise UsageError(
        f"a {type(value).__name__} cannot be passed to an exported model; use tensors, numbers, and lists, tuples and "
        "dicts of them, or run with --engine torch"
    )


def _container(
    kind: str, found: Sequence[tuple[Structure, list[Any]]], keys: tuple[str, ...] = ()
) -> tuple[Structure, list[Any]]:
    parts = tuple(structure for structure, _ in found)
    return Structure(kind, keys, parts), [array for _, arrays in found for array in arrays]


def rebuild(structure: Structure, arrays: Sequence[Any]) -> Any:
    """Put ``arrays`` together as ``structure`` says; the inverse of ``flatten``.

    A named tuple becomes a plain one.

    Raises:
        ValueError: the number of arrays is another one.
    """
    if len(arrays) != structure.count:
        raise ValueError(f"{len(arrays)} arrays do not fit a structure of {structure.count}")
    return _rebuild(structure, iter(arrays))


def _rebuild(structure: Structure, arrays: Iterator[Any]) -> Any:
    if structure.kind == ARRAY:
        return next(arrays)
    if structure.kind == SCALAR:
        value = next(arrays)
        return value.item() if hasattr(value, "item") else value
    if structure.kind == NONE:
        return None
    parts = [_rebuild(part, arrays) for part in structure.parts]
    if structure.kind == LIST:
        return parts
    if structure.kind == TUPLE:
        return tuple(parts)
    found = zip(structure.keys, parts)
    return NamedOutput(found) if structure.kind == OUTPUT else dict(found)
