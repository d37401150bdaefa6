"""Records to plain JSON values and back: the one converter.

A record is a frozen dataclass. Its annotations are evaluated on Python 3.9 too, so a record spells ``Optional[X]``,
never ``X | None``.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def encode(record: object, *, keep_bytes: bool = False) -> Any:
    """Return ``record`` as dicts, lists, strings and numbers.

    Enums become their values; bytes become base64, unless ``keep_bytes``.
    """
    kept = (bytes,) if keep_bytes else ()
    return msgspec.to_builtins(record, str_keys=True, builtin_types=kept, enc_hook=_number)


def encode_json(record: object) -> bytes:
    """Return ``record`` as compact JSON. NaN and infinities become null."""
    return msgspec.json.encode(record, enc_hook=_number)


def decode(kind: type[T], data: Any) -> T:
    """Rebuild a record of ``kind`` from the result of ``encode``.

    Unknown fields are ignored.

    Raises:
        msgspec.ValidationError: a field is missing or of another type; the message names it.
    """
    return msgspec.convert(data, kind)


def _number(value: object) -> Any:
    """Convert numpy's scalars, which libraries return as figures."""
    item = getattr(value, "item", None)
    if item is None:
        raise TypeError(f"a {type(value).__name__} cannot be part of a record")
    return item()
