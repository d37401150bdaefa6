"""Partial results and exhibits: every record survives JSON, and derived values."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import record_strategies
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from modelzoo.records import codec
from modelzoo.records.exhibits import Exhibit
from modelzoo.records.partial import LayerError, MatchedPair, PartialResult, TopClasses
from modelzoo.records.validity import Validity, ValidityRequest


@pytest.mark.parametrize("kind", [Exhibit, PartialResult, Validity, ValidityRequest])
@given(data=st.data())
@settings(max_examples=30, suppress_health_check=list(HealthCheck))
def test_records_survive_json(kind: type[Any], data: st.DataObject) -> None:
    """Written and read again, a record is equal, whatever its values."""
    record = data.draw(record_strategies.values(kind))
    assume(_is_finite(codec.encode(record)))
    assert codec.decode(kind, json.loads(codec.encode_json(record))) == record


def _is_finite(value: Any) -> bool:
    """Whether plain values hold neither NaN nor Inf, which records must not contain."""
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


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


def test_top_classes_read_back_as_tuples() -> None:
    """JSON knows lists only."""
    top = TopClasses((3, 1), (0.75, 0.25), True)
    assert codec.decode(TopClasses, json.loads(codec.encode_json(top))) == top
