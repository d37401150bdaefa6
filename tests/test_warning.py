"""Warnings are data: every one can be filled in, is one line, and says what to do."""

from __future__ import annotations

import re
import string

import pytest

from modelzoo.warning import Severity, WarningCode, rank, warning_for


@pytest.mark.parametrize("code", WarningCode, ids=lambda code: code.name)
def test_every_warning_is_a_line_with_a_hint(code: WarningCode) -> None:
    """Message and hint can be filled in, fit on a line each, and end without a full stop."""
    parts = [part for text in code.value[1:] for part in string.Formatter().parse(text)]
    values = {name: 1.5 if (spec or "").endswith(("f", "g")) else "X" for _, name, spec, _ in parts if name}
    found = warning_for(code, **values)
    assert found.code == code.name
    for text in (found.message, found.hint):
        assert text and not re.search(r"\n|{|\.$", text)


def test_codes_are_listed_most_harmful_first() -> None:
    """The order of the definitions is the order in which conditions are shown."""
    severities = [code.value[0] for code in WarningCode]
    assert severities == sorted(severities)
    assert set(severities) == set(Severity)


def test_an_unknown_code_is_neither_hidden_nor_first() -> None:
    """A result of a later version may hold codes that this version does not know."""
    assert rank("FP32_NOT_FP32") < rank("OTHER_LOAD") < rank("INVENTED_LATER") < rank("OUTLIERS")
    assert rank("INVENTED_LATER")[0] is Severity.DISTORTS
