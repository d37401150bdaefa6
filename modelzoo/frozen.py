"""What frozen values have in common, whether they are msgspec structs or dataclasses.

A value that is stored, sent to another process, or compared is a struct: its class is created ten times as fast as a
dataclass, and there are more than a hundred of them to be imported before a stored result can be read.
"""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    # mypy checks the names and types of the changes for both kinds, but only by this name.
    from dataclasses import replace as replace
else:

    def replace(value, /, **changes):
        """Return a copy of ``value`` in which some fields have other values."""
        if isinstance(value, msgspec.Struct):
            return msgspec.structs.replace(value, **changes)
        return dataclasses.replace(value, **changes)


class Word(str, Enum):
    """Base class of enumerations: a member is written as its value."""

    def __str__(self) -> str:
        return str(self.value)


def field_names(value: object) -> tuple[str, ...]:
    """The names of the fields of a struct or dataclass, in their order; nothing for any other value."""
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return tuple(each.name for each in dataclasses.fields(value))
    return ()
