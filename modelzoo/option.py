"""Options of the command line, declared at the fields of the records that commands receive, and notations of values.

Errors of values are ``argparse.ArgumentTypeError``, which argparse shows in one line.
"""

from __future__ import annotations

import argparse
import re
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator
from enum import Enum
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin

import msgspec


class Option(msgspec.Struct, frozen=True):
    """The declaration of an option, as the annotation of a field: ``Annotated[float, Option("…", "TIME", duration)]``.

    The field's type says the rest: ``bool`` is a switch, a tuple an option that may be repeated (unless ``parse`` makes
    it of one text), an enumeration has its values as choices. A field without a default must be given.

    Attributes:
        help: what it is, for ``--help``.
        metavar: its placeholder; empty for a switch, and for choices that are listed.
        parse: makes a value of a text; by default the field's type does.
        flags: its names, if they are not that of the field.
    """

    help: str
    metavar: str = ""
    parse: Callable[[str], object] | None = None
    flags: tuple[str, ...] = ()


Record = TypeVar("Record", bound=msgspec.Struct)


def _fields(record: type[msgspec.Struct]) -> Iterator[tuple[msgspec.structs.FieldInfo, Any, Any]]:
    """The fields of a record: each with the type of one value, and its declaration, if it has one."""
    for field in msgspec.structs.fields(record):
        declared = get_origin(field.type) is Annotated
        plain = field.type.__origin__ if declared else field.type
        kinds = [each for each in get_args(plain) if each is not NoneType]
        yield field, kinds[0] if kinds else plain, field.type.__metadata__[0] if declared else None


def add_options(group: argparse._ActionsContainer, record: type[msgspec.Struct], *names: str, **defaults: str) -> None:
    """Add the options that the fields of a record declare.

    Args:
        group: receives them.
        record: the record.
        names: the fields, in the order of the help; by default all.
        defaults: what the help of an option calls its default, by field.
    """
    found = {field.name: (field, kind, option) for field, kind, option in _fields(record) if option is not None}
    for name in names or found:
        field, kind, option = found[name]
        text = option.help + (f" (default: {defaults[name]})" if name in defaults else "")
        given: dict[str, Any] = {"dest": name, "help": text}
        if kind is bool:
            given["action"] = "store_true"
        elif option.parse is None and get_origin(field.type.__origin__) is tuple:
            given.update(action="append", default=[], metavar=option.metavar, required=field.required)
        else:
            is_choice = issubclass(kind, Enum) if isinstance(kind, type) else False
            given.update(
                type=str if is_choice else option.parse or kind,
                choices=[str(each) for each in kind] if is_choice else None,
                default=None if field.required else field.default,
                metavar=option.metavar or None,
                required=field.required,
            )
        group.add_argument(*(option.flags or (f"--{name.replace('_', '-')}",)), **given)


def read_options(args: argparse.Namespace, record: type[Record]) -> Record:
    """Return the record of what was parsed; options that a command does not have keep their defaults.

    Raises:
        UsageError: a value is out of range.
    """
    given: dict[str, Any] = {}
    for field, kind, option in _fields(record):
        value = getattr(args, field.name, None)
        if option is None and isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            given[field.name] = read_options(args, kind)
        elif value is not None:
            is_choice = isinstance(kind, type) and issubclass(kind, Enum)
            given[field.name] = kind(value) if is_choice else tuple(value) if isinstance(value, list) else value
    return record(**given)


SWITCH = {"off": False, "on": True}


def switch(text: str) -> bool:
    """Return what ``off`` or ``on`` means."""
    if text not in SWITCH:
        raise ArgumentTypeError(f"{text!r} is neither off nor on")
    return SWITCH[text]


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_SHORT_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}
_NUMBER = r"(?:\d+(?:\.\d+)?|\.\d+)"


def duration(text: str) -> float:
    """Return a duration in seconds: ``90s``, ``10m``, ``2h``, ``1h30m``.

    >>> duration("1h30m")
    5400.0
    """
    parts = re.findall(rf"({_NUMBER})([smh])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ArgumentTypeError(f"{text!r} is not a duration; write it with its unit: 90s, 10m or 2h")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def fraction(text: str) -> float:
    """Return a fraction, given as such or as a percentage: ``0.05``, ``5%``.

    Without the sign, a number from 1 on is refused: who writes 3 may mean 3 % as well as 300 %.

    >>> fraction("5%")
    0.05
    """
    number = text[:-1].rstrip() if text.endswith("%") else text
    if not re.fullmatch(_NUMBER, number):
        raise ArgumentTypeError(f"{text!r} is not a fraction; write 5% or 0.05")
    if number == text and float(text) >= 1:
        raise ArgumentTypeError(
            f"{text!r} may mean {text} % or {100 * float(text):g} %; write it with its sign: {text}%"
        )
    return float(number) / (100 if text.endswith("%") else 1)


def short_time(text: str) -> float:
    """Return a time in seconds that is given in milliseconds, microseconds or seconds.

    >>> short_time("5ms")
    0.005
    """
    match = re.fullmatch(rf"({_NUMBER})(ms|us|µs|s)", text)
    if match is None:
        raise ArgumentTypeError(f"{text!r} is not a time; write it with its unit: 5ms, 250us or 1.5s")
    return float(match[1]) * _SHORT_UNITS[match[2]]


def whole_numbers(text: str) -> tuple[int, ...]:
    """Return a list of numbers from 1 on: ``1,2,4``.

    >>> whole_numbers("1,2,4")
    (1, 2, 4)
    """
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and int(word) > 0 for word in words):
        raise ArgumentTypeError(f"{text!r} is not a list of whole numbers over 0, such as 1,2,4")
    return tuple(dict.fromkeys(map(int, words)))
