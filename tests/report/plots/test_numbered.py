"""The numbers of marks."""

from __future__ import annotations

from modelzoo.report.plots.numbered import number_offsets


def test_numbers_of_neighbours_are_on_different_sides() -> None:
    """Even if two marks are at the same place, their numbers are not."""
    first, second = number_offsets([(100, 100), (100, 100)])
    assert first != second
    assert number_offsets([(100, 100), (110, 100)])[1] != (-13.0, 0.0)
