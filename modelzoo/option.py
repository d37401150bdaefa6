"""Options of the command line: their declarations, and notations of values.

A field of a setting is declared by a ``Field``, one of the records that commands receive by an ``Option``.

Errors of values are ``argparse.ArgumentTypeError``, which argparse shows in one line.
"""

from __future__ import annotations

import argparse
import re
import shlex
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator
from enum import Enum
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import msgspec

from modelzoo.errors import UsageError, suggestion


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


def add_repeatable(group: argparse._ActionsContainer, name: str, metavar: str, text: str) -> None:
    """Add an option that may be repeated: its value is a list of texts."""
    group.add_argument(name, action="append", default=[], metavar=metavar, help=f"{text}; may be repeated")


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


Labelled = Literal["bare", "named", "if varied"]
"""When a field is part of a setting's label, and how.

bare: its value, unless it is the default. named: ``name=value``, likewise. if varied: ``name=value``, if the settings
that are labelled differ in it.
"""


class Field(msgspec.Struct, frozen=True):
    """A declaration, from which everything follows: the options of the command line, ``--vary`` and
    ``--setting``, checks, labels, tables, the JSON schema and the pairing of stored results.

    Attributes:
        help: what it is, for ``--help`` and the documentation.
        metavar: its placeholder on the command line; empty if it has no option of this name.
        choices: the values that it may have; empty if there are others.
        others: besides ``choices``, a value that contains this.
        low: the smallest number that it may be.
        bits: the largest is 2**bits - 1; ``None``: there is no largest.
        label: when it is part of a label.
        word: what a label has for a switch that is on, by default its name.
        is_execution: whether it says how torch executes a model; the reference of predictions has the default.
        is_work: whether it says which model runs, or on which inputs; settings that differ in it do other work.
        is_launch: whether it decides how a worker is started; a label has the short name of its value.
        per_process: whether instances, which share the machine, cannot have values of their own; the help of their
            commands leaves it out.
    """

    help: str
    metavar: str = ""
    choices: tuple[str, ...] = ()
    others: str = ""
    low: int | None = None
    bits: int | None = None
    label: Labelled = "if varied"
    word: str = ""
    is_execution: bool = False
    is_work: bool = False
    is_launch: bool = False
    per_process: bool = False

    def check(self, option: str, value: object) -> None:
        """Check a value.

        Args:
            option: the field as the command line has it, for the error.
            value: the value; ``None`` is always right where it is allowed.

        Raises:
            UsageError: it is out of range.
        """
        if isinstance(value, str) and self.choices and value not in self.choices:
            if not (self.others and self.others in value):
                hint = suggestion(value, self.choices)
                raise UsageError(f"{option} must be one of {', '.join(self.choices)}, not {value!r}{hint}")
        elif isinstance(value, int) and self.low is not None:
            if self.bits is not None and not self.low <= value < 2**self.bits:
                raise UsageError(f"{option} must be from {self.low} to 2**{self.bits} - 1, not {value}")
            if value < self.low:
                raise UsageError(f"{option} must be {self.low} or more, not {value}")


def parse_words(text: str, source: str, side: str = "") -> dict[str, str]:
    """Parse ``NAME=VALUE NAME=VALUE …``; a value with spaces is quoted as in a shell.

    Args:
        text: what to parse; it may be empty.
        source: the option with what was given to it, for errors.
        side: which part of it ``text`` is, for errors: `` on one side``.

    Raises:
        UsageError: it has another form, or names an option twice.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{source}: {error}") from None
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise UsageError(f"{source}: {word!r} must have the form NAME=VALUE")
        if name in found:
            raise UsageError(f"{source} names {name} twice{side}")
        found[name] = value
    return found
