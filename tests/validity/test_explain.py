"""``--explain``: the first suspect layer, its neighbours, and what is handed over for writing."""

from __future__ import annotations

from modelzoo.frozen import replace
from modelzoo.records.partial import LayerError
from modelzoo.validity import TaskContext, ValidityRequest
from modelzoo.validity.layers import exhibits, explained, first_suspect

GOOD = LayerError("a", "Conv2d", 0.004, 0.0, 0.001, 0.004, 0.0, True)
LAYERS = (
    GOOD,
    replace(GOOD, name="b", error=0.011),
    replace(GOOD, name="c", error=0.1),
    replace(GOOD, name="d", error=None, scale=None, finite=False),
)


def test_the_first_suspect_is_the_first_layer_beyond_a_limit() -> None:
    """By its error, its scale or NaN; a tolerance replaces the limit."""
    assert first_suspect(LAYERS, {}) == 2
    assert first_suspect(LAYERS, {"layer_drift": 100.0}) == 3
    assert first_suspect(LAYERS, {"layer_drift": 2.0}) == 1
    assert first_suspect([GOOD, replace(GOOD, scale=0.05)], {}) == 1
    assert first_suspect([GOOD], {}) is None
    assert first_suspect([replace(GOOD, error=1.0, baseline=None)], {}) is None


def test_the_first_suspect_is_shown_with_its_neighbours() -> None:
    """Without a suspect, the layers with the largest errors."""
    found = explained(LAYERS, {})
    assert ([each.name for each in found.layers], found.suspect) == (["a", "b", "c", "d"], 2)
    found = explained((GOOD, *LAYERS), {})
    assert ([each.name for each in found.layers], found.suspect) == (["a", "b", "c", "d"], 2)
    found = explained(LAYERS[:2], {})
    assert ([each.name for each in found.layers], found.suspect) == (["b", "a"], None)
    assert explained((), {}).layers == ()


def test_exhibits_only_on_request() -> None:
    """``--explain`` gives a CSV with every layer and a plot; without it there is nothing."""
    context = TaskContext("toy", ValidityRequest(explain=True, tolerance={"layer_drift": 2.0}), tested_name="bf16")
    listing, plot = exhibits(LAYERS, context)
    assert listing.csv is not None
    assert [row[0] for row in listing.csv.rows] == ["a", "b", "c", "d"]
    assert listing.csv.rows[3] == ("d", "Conv2d", "nan", "0.004", "nan", "False")
    assert plot.layer_errors is not None
    assert (plot.layer_errors.limit, plot.layer_errors.first_suspect) == (2.0, 1)
    silent = replace(context, request=ValidityRequest())
    assert list(exhibits(LAYERS, silent)) == []
    assert list(exhibits((), context)) == []
