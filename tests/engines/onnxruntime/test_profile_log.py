"""What is read from the files of ONNX Runtime's profiler."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from onnxruntime_recordings import recorded

from modelzoo.engines.onnxruntime.profile_log import (
    NodeCall,
    ProfileLogError,
    Tensor,
    fixed_sizes,
    marks_of,
    operator_of,
    parse_calls,
    parse_profile,
)
from modelzoo.evidence.kernel_names import PASS_EVENT
from modelzoo.evidence.profiler import nest_spans
from modelzoo.frozen import replace


def test_the_nodes_of_one_call_are_named_by_operator_layout_and_operands() -> None:
    """Converted convolutions are told from plain ones, and products with constant weights from others."""
    events = nest_spans(parse_profile(recorded(), 1))
    assert Counter(event.name for event in events) == {
        PASS_EVENT: 1,
        "ReorderInput": 1,
        "Conv [NCHWc]": 2,
        "GlobalAveragePool [NCHWc]": 1,
        "ReorderOutput": 1,
        "Flatten": 1,
        "Gemm": 1,
        "MatMul [constant]": 1,
        "FusedMatMul": 1,
        "Loop": 1,
        "Identity": 2,
        "MatMul": 2,
    }


def test_shapes_and_types_are_those_of_the_inputs() -> None:
    """Constant weights that were packed are missing; those of convolutions are there."""
    spans = parse_profile(recorded(), 1)
    convolution = next(span for span in spans if span.name == "Conv [NCHWc]")
    assert convolution.shapes == ((2, 16, 8, 8), (16, 16, 3, 3))
    assert convolution.dtypes == ("float", "float")
    product = next(span for span in spans if span.name == "MatMul [constant]")
    assert product.shapes == ((2, 16),)


def test_the_time_of_a_loop_does_not_count_twice() -> None:
    """Its body's nodes are its children, and all self times add up to the two calls."""
    entries = json.loads(recorded())
    events = nest_spans(parse_profile(recorded(), 2))
    calls = sum(entry["dur"] for entry in entries if entry["name"] == "model_run")
    assert sum(event.seconds for event in events) == pytest.approx(calls / 1e6)
    assert {events[event.parent].name for event in events if event.name == "MatMul"} == {"Loop"}


def test_earlier_calls_are_left_out() -> None:
    """A profiled session begins with calls to warm up."""
    one, two = nest_spans(parse_profile(recorded(), 1)), nest_spans(parse_profile(recorded(), 2))
    assert [event.name for event in two] == [event.name for event in one] * 2
    assert one == tuple(
        replace(event, parent=event.parent - len(one) * (event.parent >= 0)) for event in two[len(one) :]
    )


@pytest.mark.parametrize(
    ("text", "passes", "reason"),
    [(recorded()[:5000], 1, "cannot be read"), (recorded(), 3, "has 2 runs instead of 3"), (b"[]", 1, "has 0 runs")],
)
def test_incomplete_files_are_refused(text: bytes, passes: int, reason: str) -> None:
    """The reason is one line."""
    with pytest.raises(ProfileLogError, match=reason) as caught:
        parse_profile(text, passes)
    assert "\n" not in str(caught.value)


def test_calls_have_inputs_and_outputs() -> None:
    """Those of the last run; a scalar has an empty shape."""
    calls = parse_calls(recorded())
    assert len(calls) == 14
    layer = next(call for call in calls if call.operator == "Gemm")
    assert layer == NodeCall("Gemm", (Tensor("float", (2, 16)), Tensor("float", (16,))), (Tensor("float", (2, 16)),))
    loop = next(call for call in calls if call.operator == "Loop")
    assert loop.inputs[0] == Tensor("int64", ())


def test_another_provider_is_part_of_the_name() -> None:
    """So that it cannot pass for the CPU's."""
    text = recorded().replace(b'"CPUExecutionProvider"', b'"ACLExecutionProvider"')
    names = {span.name for span in parse_profile(text, 1)}
    assert "Gemm [ACLExecutionProvider]" in names
    assert "Conv [NCHWc, ACLExecutionProvider]" in names


def test_names_can_be_taken_apart() -> None:
    """Into operator and marks."""
    assert (operator_of("Conv [NCHWc, X]"), tuple(marks_of("Conv [NCHWc, X]"))) == ("Conv", ("NCHWc", "X"))
    assert (operator_of("Gemm"), tuple(marks_of("Gemm"))) == ("Gemm", ())


def test_the_number_of_items_is_not_a_fixed_size() -> None:
    """The first size of each shape is left out; scalars stay."""
    assert fixed_sizes(((2, 3), (), (4,))) == ((3,), (), ())
