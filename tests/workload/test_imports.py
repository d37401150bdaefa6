"""What a workload.py imports."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelzoo.errors import UsageError
from modelzoo.workload.discovery import load_workload


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("from modelzoo.inputs import pictures", "'modelzoo.inputs'; docs/workload.md says what"),
        (
            "from modelzoo.workload import ROOT",
            "cannot import name 'ROOT' from .*; docs/workload.md",
        ),
        ("import nowhere", "No module named 'nowhere'; install it, or name its directory in PYTHONPATH"),
    ],
)
def test_an_import_that_fails_is_one_line_with_advice(line: str, message: str, tmp_path: Path) -> None:
    """An outdated name of the suite's, or a library that is not installed."""
    (tmp_path / "workload.py").write_text(line)
    with pytest.raises(UsageError, match=message) as caught:
        load_workload(tmp_path)
    assert "\n" not in str(caught.value)
