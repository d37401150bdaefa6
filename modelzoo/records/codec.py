"""Records to plain JSON values and back: the one converter.

A record is a frozen ``msgspec.Struct`` (or a dataclass).
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


def encode_json(record: object, *, strict: bool = False) -> bytes:
    """Return ``record`` as compact JSON.

    NaN and infinities become null. Characters that UTF-8 cannot represent become escapes such as ``\\udcff``; names of
    files in another encoding contain them.

    Raises:
        UnicodeEncodeError: ``strict``, and there are such characters.
    """
    try:
        return msgspec.json.encode(record, enc_hook=_number)
    except UnicodeEncodeError:
        if strict:
            raise
        return msgspec.json.encode(_valid(encode(record, keep_bytes=True)))


def decode(kind: type[T], data: Any) -> T:
    """Rebuild a record of ``kind`` from the result of ``encode``.

    Unknown fields are ignored.

    Raises:
        msgspec.ValidationError: a field is missing or of another type; the message names it.
    """
    return msgspec.convert(data, kind, str_keys=True)


def _valid(data: Any) -> Any:
    """Return a copy of JSON data in which every string can be encoded in UTF-8."""
    if isinstance(data, str):
        return data.encode("utf-8", "backslashreplace").decode()
    if isinstance(data, dict):
        return {_valid(key): _valid(value) for key, value in data.items()}
    return [_valid(value) for value in data] if isinstance(data, (list, tuple)) else data


def _number(value: object) -> Any:
    """Convert numpy scalars, which some libraries return instead of plain numbers."""
    item = getattr(value, "item", None)
    if item is None:
        raise TypeError(f"a {type(value).__name__} cannot be part of a record")
    return item()
