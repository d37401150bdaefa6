"""The records of the weights and of the counts that the amount of work depends on."""

from __future__ import annotations

import pytest

from modelzoo.records.workload import Count


@pytest.mark.parametrize(("value", "is_typical"), [(4.9, False), (5, True), (42.5, True), (100, True), (101, False)])
def test_a_count_is_compared_with_the_range_of_trained_weights(value: float, is_typical: bool) -> None:
    """Both ends belong to the range."""
    count = Count("detections per image", value, 5, 100, "a source")
    assert count.is_typical is is_typical
