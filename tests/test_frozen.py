"""Structs and dataclasses are copied alike."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest

from modelzoo.frozen import field_names, replace


class Struct(msgspec.Struct, frozen=True):
    """A stored value."""

    a: int = 1
    b: str = "x"


@dataclass(frozen=True)
class Data:
    """Another value."""

    a: int = 1
    b: str = "x"


@pytest.mark.parametrize("value", [Struct(), Data()])
def test_a_copy_has_the_changes(value: Struct | Data) -> None:
    """The original stays as it was."""
    assert replace(value, b="y") == type(value)(1, "y")
    assert value == type(value)(1, "x")


@pytest.mark.parametrize("value", [Struct(), Data()])
def test_fields_have_names(value: Struct | Data) -> None:
    """In their order."""
    assert field_names(value) == ("a", "b")
    assert field_names(3) == field_names(Data) == field_names(Struct) == ()


@pytest.mark.parametrize("value", [Struct(), Data()])
def test_a_change_needs_an_existing_field(value: Struct | Data) -> None:
    """Otherwise a misspelt one would be lost."""
    with pytest.raises(TypeError):
        replace(value, c=1)  # type: ignore[call-arg]
