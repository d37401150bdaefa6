"""Warnings are data: every one can be filled in, is one line, and says what to do."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from places import ROOT

from modelzoo.warning import Severity, WarningCode, rank, warning_for


def fields(template: str) -> dict[str, str]:
    """The names in a template, with their format specifications."""
    return {name: spec or "" for _, name, spec, _ in string.Formatter().parse(template) if name}


@pytest.mark.parametrize("code", WarningCode, ids=lambda code: code.name)
def test_every_warning_is_a_line_with_a_hint(code: WarningCode) -> None:
    """Message and hint can be filled in, fit on a line each, and end without a full stop."""
    _, message, hint = code.value
    values = {
        name: 1.5 if spec.endswith(("f", "g")) else "X" for name, spec in {**fields(message), **fields(hint)}.items()
    }
    found = warning_for(code, **values)
    assert found.code == code.name
    for text in (found.message, found.hint):
        assert text and "\n" not in text and "{" not in text
        assert not text.endswith(".")


def test_codes_are_listed_most_harmful_first() -> None:
    """The order of the definitions is the order in which conditions are shown."""
    severities = [code.value[0] for code in WarningCode]
    assert severities == sorted(severities)
    assert set(severities) == set(Severity)


def test_an_unknown_code_is_neither_hidden_nor_first() -> None:
    """A result of a later version may hold codes that this version does not know."""
    assert rank("FP32_NOT_FP32") < rank("OTHER_LOAD") < rank("INVENTED_LATER") < rank("OUTLIERS")
    assert rank("INVENTED_LATER")[0] is Severity.DISTORTS


def test_every_code_is_used() -> None:
    """A code that nothing gives is dead."""
    sources = [path for path in (ROOT / "modelzoo").rglob("*.py") if path.name != "warning.py"]
    text = "\n".join(Path(path).read_text(encoding="utf-8") for path in sources)
    assert [code.name for code in WarningCode if f"WarningCode.{code.name}" not in text] == []
