"""What frozen values have in common, whether they are msgspec structs or dataclasses.

A value that is stored, sent to another process, or compared is a struct: its class is created ten times as fast as a
dataclass, and there are more than a hundred of them to be imported before a stored result can be read.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated

import msgspec

if TYPE_CHECKING:
    # mypy checks the names and types of the changes for both kinds, but only by this name.
    from dataclasses import replace as replace
else:

    def replace(value, /, **changes):
        """Return a copy of ``value`` in which some fields have other values."""
        if isinstance(value, msgspec.Struct):
            return msgspec.structs.replace(value, **changes)
        import dataclasses  # here, and below: --help does without

        return dataclasses.replace(value, **changes)


PUBLIC, MESSAGE, DATA, ARGUMENT = "public", "message", "data", "argument"
"""What ``report --redact`` does with a string is declared at its field; one without a mark is hidden."""
Public = Annotated[str, PUBLIC]
"""It stays: what was measured, with which software, on which hardware."""
Message = Annotated[str, MESSAGE]
"""Free text: it stays if nothing in it may be private."""
OwnData = Annotated[str, DATA]
"""A name or a quotation from the user's data: it stays if the data set is built in."""
Argument = Annotated[str, ARGUMENT]
"""Part of a command line: it stays if it is an option, a number or a word of the suite."""


class Word(str, Enum):
    """Base class of enumerations: a member is written as its value."""

    def __str__(self) -> str:
        return str(self.value)


def field_names(value: object) -> tuple[str, ...]:
    """The names of the fields of a struct or dataclass, in their order; nothing for any other value."""
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    import dataclasses

    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return tuple(each.name for each in dataclasses.fields(value))
    return ()
