"""The history of a directory of sessions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from fake_runs import MACHINE
from stored_sides import session

from modelzoo.comparison.model import StoredResult
from modelzoo.document import Figure, Lines, Section, Table
from modelzoo.frozen import replace
from modelzoo.records.run import Result
from modelzoo.stats import trend
from modelzoo.views.page import history


def sessions(levels: Sequence[float], **changes: object) -> list[StoredResult]:
    """One session a day, with two processes each."""
    return [
        StoredResult(f"/r/{day}.json", session([level * 0.999, level * 1.001], day=day, **changes))
        for day, level in enumerate(levels, 1)
    ]


def workload(found: Section) -> Section:
    """The history of the only workload."""
    [section] = [block for block in found.blocks if isinstance(block, Section)]
    return section


def said(section: Section) -> str:
    """All sentences of a section."""
    return " ".join(str(each.text) for block in section.blocks if isinstance(block, Lines) for each in block.items)


LEVELS = (1.0, 1.01, 0.99, 1.0, 1.005, 0.995)


@pytest.mark.skipif(not trend.can_find_changes(), reason="the package ruptures is not installed")
def test_a_change_is_named_with_what_changed_at_the_same_time() -> None:
    """By how much, since when, and which version is another one."""
    before = sessions(LEVELS, versions={"torch": "2.9.1"})
    after = [
        StoredResult(f"/r/n{day}.json", session([1.2 * level] * 2, day=day, versions={"torch": "2.10.0"}))
        for day, level in enumerate(LEVELS, 7)
    ]
    found = workload(history.section("d", [*before, *after], "h"))
    assert said(found).startswith(
        "fp32: 20.0 % slower from 2026-07-07T00:00:00+00:00 on; at the same time changed: torch"
    )
    assert "torch 2.9.1 → 2.10.0" in said(found)
    figure = next(block for block in found.blocks if isinstance(block, Figure))
    assert [row for row in figure.data.rows if "new level" in row]


def test_the_minimum_of_sessions_is_stated() -> None:
    """Below it nothing is searched, and the page says so."""
    found = history.section("d", sessions((1.0, 2.0)), "h")
    if trend.can_find_changes():
        assert f"at least {trend.LEAST_LEVELS} sessions" in said(found)
        assert said(workload(found)) == "Fewer than 10 sessions, so no changes are searched for: fp32."


def test_without_ruptures_the_page_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The history is drawn all the same."""
    monkeypatch.setattr(trend, "can_find_changes", lambda: False)
    found = history.section("d", sessions(LEVELS * 2), "h")
    assert "pip install ruptures" in said(found)
    assert any(isinstance(block, Figure) for block in workload(found).blocks)
    assert said(workload(found)) == ""


def test_machines_are_separate_series() -> None:
    """Their levels are not to be compared in time."""
    other = replace(MACHINE, cpu="Neoverse-V1")
    mixed = [*sessions((1.0, 1.0)), *sessions((2.0, 2.0), machine=other)]
    found = workload(history.section("d", mixed, "h"))
    figure = next(block for block in found.blocks if isinstance(block, Figure))
    assert {row[0] for row in figure.data.rows} == {"fp32, machine 1", "fp32, machine 2"}


def test_every_session_is_in_a_table_with_its_file_and_versions() -> None:
    """Failed sessions are not: they have no level."""
    failed = StoredResult("x.json", Result(("modelzoo",), "2026-01-01"))
    found = workload(history.section("d", [failed, *sessions((1.0, 1.1))], "h"))
    table = next(block for block in found.blocks if isinstance(block, Table))
    cells = {column.title: column.cells for column in table.columns}
    assert cells["file"] == ("1.json", "2.json")
    assert {"torch", "modelzoo", "kernel", "weights"} <= set(cells)
