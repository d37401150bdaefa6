"""Results as a stranger might write them: markup, control characters, formulas and extreme numbers in every field."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from modelzoo.frozen import field_names, replace
from modelzoo.records.codec import encode_json
from modelzoo.records.run import Result
from modelzoo.setting import Setting, fields

FORGED = "[TARGET] resnet50 Time 0.0001"
STRINGS = (
    f"x\n{FORGED}",
    f"{'long ' * 30}\r{FORGED}\n[VALID] resnet50 top1 1 1 VALID",
    "\x1b[2J\x1b]0;title\x07\x9b31m",
    "[/x][bold red]no[/] [link=file:///]",
    "<script>alert(1)</script>\"' onload=x &amp;",
    "=1+cmd|' /C calc'!A0",
    "@SUM(A1)\t|--|\n|a|",
    "\u202egnp.exe\u2066\u200b\ufeff",
    "$\\frac{1}$ ${x} {0} {x.y} %s %(x)d",
    "\x00\x7f\u2028\u2029\x85",
    "\ud800 lone",
    "",
    "/",
    "é" * 300,
    FORGED,
)
NUMBERS = (0, -1, 1, 2**63 - 1, -(2**63), 1e-300, 1e300, -1e300, 1e15, 5e-324, float("nan"), float("inf"))
UNSHOWN = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""What no output may contain: control characters, and those that change the direction of text."""


@functools.cache
def closed(kind: type) -> set[str]:
    """The fields of a record that hold a word of a closed list."""
    hints = get_type_hints(kind)
    return {name for name, hint in hints.items() if Literal in {get_origin(each) for each in (hint, *get_args(hint))}}


def with_strings(record: Any, chosen: Callable[[str], str], *, keys: bool = True) -> Any:
    """A copy of ``record`` in which ``chosen`` has replaced every string that is not of a closed list."""

    def changed(value: Any) -> Any:
        if isinstance(value, str) and not isinstance(value, Enum):
            return chosen(value)
        if isinstance(value, tuple):
            is_numbers = value and isinstance(value[0], (int, float)) and not isinstance(value[0], Enum)
            return value if is_numbers else tuple(map(changed, value))
        if isinstance(value, dict):
            return {chosen(key) if keys and isinstance(key, str) else key: changed(each) for key, each in value.items()}
        names = field_names(value)
        if not names:
            return value
        kept = closed(type(value)) | ({"format"} if isinstance(value, Result) else set())
        if isinstance(value, Setting):
            kept |= {name for name, declared in fields().items() if declared.choices or name == "device"}
        return replace(value, **{name: changed(getattr(value, name)) for name in names if name not in kept})

    return changed(record)


def numbers(record: Any, found: dict[tuple[type, str], None] | None = None) -> dict[tuple[type, str], None]:
    """Every field of every record in ``record`` that holds numbers."""
    found = {} if found is None else found
    if isinstance(record, tuple):
        for each in record:
            numbers(each, found)
    for name in field_names(record):
        value = getattr(record, name)
        values = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else (value,)
        if any(isinstance(each, (int, float)) and not isinstance(each, (bool, Enum)) for each in values):
            found[type(record), name] = None
        numbers(tuple(values), found)
    return found


def with_number(record: Any, kind: type, field: str, number: float) -> Any:
    """A copy of ``record`` with ``number`` in the field of every record of the type."""

    def changed(value: Any) -> Any:
        if isinstance(value, tuple):
            is_numbers = value and isinstance(value[0], (int, float)) and not isinstance(value[0], Enum)
            return value if is_numbers else tuple(map(changed, value))
        if isinstance(value, dict):
            return value
        changes = {name: changed(getattr(value, name)) for name in field_names(value)}
        if type(value) is kind:
            old = changes[field]
            if isinstance(old, tuple):
                changes[field] = (number, *old[1:])
            elif isinstance(old, dict):
                changes[field] = dict.fromkeys(old, number)
            elif old is not None:
                changes[field] = number
        return replace(value, **changes) if changes else value

    return changed(record)


def with_record(record: Any, kind: type, new: Any) -> Any:
    """A copy of ``record`` with ``new`` in every field that may hold a record of its kind."""
    names = field_names(record)
    if isinstance(record, tuple) and not (record and isinstance(record[0], (int, float))):
        return tuple(with_record(each, kind, new) for each in record)
    if not names or isinstance(record, Setting):
        return record
    hints, changes = get_type_hints(type(record)), {}
    for name in names:
        within = (
            hints[name],
            *get_args(hints[name]),
            *(part for each in get_args(hints[name]) for part in get_args(each)),
        )
        own = (new,) if get_origin(hints[name]) is tuple else new
        changes[name] = own if kind in within else with_record(getattr(record, name), kind, new)
    return replace(record, **changes)


def stored(result: Result, path: Path) -> Path:
    """Write the result as it is; what JSON cannot hold is written as it can."""
    path.write_bytes(encode_json(result))
    return path


def flaws(text: str) -> Iterator[str]:
    """What is wrong with an output."""
    yield from (f"unshown: {match.group()!r}" for match in UNSHOWN.finditer(text))
    for line in text.split("\n"):
        if line.startswith(("[TARGET]", "[VALID]")):
            form = r"\[TARGET\] \S+ Time [\d.]+|\[VALID\] \S+ \S+ \S+ \S+ (VALID|NOT VALID|[A-Z ]+)( \(.*\))?"
            if line.startswith(FORGED) or not re.fullmatch(form, line):
                yield f"forged: {line}"
