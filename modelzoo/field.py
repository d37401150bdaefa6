"""The declaration of a field of a setting, and the notation in which several fields are given: ``NAME=VALUE …``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from enum import Enum

import msgspec

from modelzoo.errors import UsageError, suggestion


class Labelled(Enum):
    """When a field is part of a setting's label, and how.

    BARE: its value, unless it is the default. NAMED: ``name=value``, likewise. IF_VARIED: ``name=value``, if the
    settings that are labelled differ in it.
    """

    BARE = "bare"
    NAMED = "named"
    IF_VARIED = "if varied"


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
        words: what a label has in place of ``name=value``, by value.
        is_execution: whether it says how torch executes a model; the reference of predictions has the default.
        is_work: whether it says which model runs, or on which inputs; settings that differ in it do other work.
        is_launch: whether it decides how a worker is started; a label has the short name of its value.
        per_process: whether instances, which share the machine, cannot have values of their own; the help of their
            commands leaves it out.
    """

    help: str
    metavar: str
    choices: tuple[str, ...] = ()
    others: str = ""
    low: int | None = None
    bits: int | None = None
    label: Labelled = Labelled.IF_VARIED
    words: Mapping[object, str] = msgspec.field(default_factory=dict)
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
