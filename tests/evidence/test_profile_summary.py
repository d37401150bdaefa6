"""A profile sums up times, operations and bytes; two profiles can be compared."""

from __future__ import annotations

import pytest

from modelzoo.evidence.flops import Call
from modelzoo.evidence.kernel_names import PASS_EVENT
from modelzoo.evidence.observation import Event
from modelzoo.evidence.profile import LAYER_PREFIX, summarize_profile


def events() -> list[Event]:
    """One pass: layer a runs a product in its child a.b, and a ReLU."""
    shapes = ((4, 8), (8, 2))
    return [
        Event(PASS_EVENT, 0.1, -1),
        Event(LAYER_PREFIX + "a", 0.1, 0),
        Event(LAYER_PREFIX + "a.b", 0.1, 1),
        Event("aten::mm", 0.5, 2, shapes, ("float", "float")),
        Event("aten::relu_", 0.2, 1, ((4, 2),), ("float",)),
    ]


def test_times_and_operations() -> None:
    """Operations and bytes are joined by name and shapes; layers hold their children."""
    calls = [Call("aten::mm", ((4, 8), (8, 2)), 128, 224), Call("aten::relu_", ((4, 2),), 0, 64)]
    found = summarize_profile(events(), calls, 1, kinds={"a": "Block"})
    assert found.seconds == pytest.approx(1.0)
    product = found.operators[0]
    assert (product.name, product.flop, product.bytes, product.share) == ("aten::mm", 128, 224, 0.5)
    assert product.gflops_per_second == pytest.approx(256e-9)
    rows = {row.path: row for row in found.layers}
    assert rows["a"].kind == "Block"
    assert rows["a"].seconds == pytest.approx(0.9)
    assert rows["a"].own_seconds == pytest.approx(0.3)
    assert rows["a.b"].seconds == pytest.approx(0.6)
    assert rows["a"].flop == rows["a.b"].flop == 128


def test_a_product_below_another_name_finds_its_operations() -> None:
    """The recorder sees aten::convolution, the profiler mkldnn_convolution: same class and shapes, same operations."""
    shapes = ((1, 8, 8, 8), (8, 8, 3, 3))
    events = [Event(PASS_EVENT, 0.0, -1), Event("aten::mkldnn_convolution", 1.0, 0, (*shapes, ()), ("float",) * 2)]
    (row, _) = summarize_profile(events, [Call("aten::convolution", shapes, 73728, 6400)], 1).operators
    assert (row.name, row.flop, row.bytes) == ("aten::mkldnn_convolution", 73728, 6400)


def test_a_recursive_layer_counts_once() -> None:
    """A module that calls itself holds its time once, not once per level."""
    nested = [Event(PASS_EVENT, 0.0, -1), Event(LAYER_PREFIX + "a", 0.0, 0), Event(LAYER_PREFIX + "a", 1.0, 1)]
    (layer,) = summarize_profile(nested, [], 1).layers
    assert (layer.count, layer.seconds, layer.own_seconds) == (2, 1.0, 1.0)


def test_many_shapes_are_folded() -> None:
    """Rows beyond the limit become one row, and the shares still add up."""
    many = [Event(PASS_EVENT, 0.0, -1)] + [Event("aten::add", 1.0, 0, ((size,),), ("float",)) for size in range(1, 401)]
    found = summarize_profile(many, [], 1)
    assert len(found.operators) == 301
    assert found.operators[-1].name == "(others)"
    assert sum(row.share for row in found.operators) == pytest.approx(1.0)
