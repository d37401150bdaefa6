"""One kept session of a setting."""

from __future__ import annotations

import pytest
from kept_sessions import kept


def test_a_level_is_adjusted_to_any_speed_of_the_machine() -> None:
    """The session's load was 10 % slow and the latency follows it fully: at full speed it is 10 % lower."""
    level = kept(level=0.11, reference=0.0022, slope=1.0)
    assert level.adjusted(0.0020) == pytest.approx(0.1)
    assert level.adjusted(0.0022) == pytest.approx(0.11)


@pytest.mark.parametrize("changes", [{"reference": None, "slope": 1.0}, {"reference": 0.002, "slope": None}])
def test_a_level_that_the_load_does_not_predict_is_not_adjusted(changes: dict[str, float | None]) -> None:
    """Without a load, or without a slope."""
    assert kept(**changes).adjusted(0.002) is None
