"""The history of a directory of sessions."""

from __future__ import annotations

from collections.abc import Sequence

from fake_runs import MACHINE
from stored_sides import session

from modelzoo.comparison.model import StoredResult
from modelzoo.document import Figure, Section, Table
from modelzoo.frozen import replace
from modelzoo.records.run import Result
from modelzoo.views.page.build import history_section


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


def test_machines_are_separate_series() -> None:
    """Their levels are not to be compared in time."""
    other = replace(MACHINE, cpu="Neoverse-V1")
    mixed = [*sessions((1.0, 1.0)), *sessions((2.0, 2.0), machine=other)]
    found = workload(history_section("d", mixed, "h"))
    figure = next(block for block in found.blocks if isinstance(block, Figure))
    assert {row[0] for row in figure.data.rows} == {"fp32, machine 1", "fp32, machine 2"}


def test_every_session_is_in_a_table_with_its_file_and_versions() -> None:
    """Failed sessions are not: they have no level."""
    failed = StoredResult("x.json", Result(("modelzoo",), "2026-01-01"))
    found = workload(history_section("d", [failed, *sessions((1.0, 1.1))], "h"))
    table = next(block for block in found.blocks if isinstance(block, Table))
    cells = {column.title: column.cells for column in table.columns}
    assert cells["file"] == ("1.json", "2.json")
    assert {"torch", "modelzoo", "kernel", "weights"} <= set(cells)
