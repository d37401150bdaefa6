"""Values that partial results derive from what they hold."""

from __future__ import annotations

import pytest

from modelzoo.records.partial import LayerError, MatchedPair


def test_an_error_that_is_not_finite_has_no_ratio() -> None:
    """And a scale without a value exceeds nothing; NaN is judged by ``finite``."""
    layer = LayerError("a", "Conv2d", None, None, None, 0.004, 0.0, False)
    assert (layer.ratio, layer.excess_scale) == (None, 0.0)
    layer = LayerError("a", "Conv2d", 0.008, 0.05, 0.01, 0.004, 0.01, True)
    assert layer.ratio == 2
    assert layer.excess_scale == pytest.approx(0.01)


def test_a_pair_below_an_iou_of_nine_tenths_has_moved() -> None:
    """Its score change is tested minus reference."""
    pair = MatchedPair(0, 1, 3, 0.75, 0.5, 0.89, (0, 0, 0, 0))
    assert pair.moved
    assert pair.score_change == -0.25
