"""What an operator of a profile costs, and the types of its tensors, from the recorded calls of the same pass."""

from __future__ import annotations

from evidence_samples import gemm_event

from modelzoo.evidence.flops import Call, CostTable, tensor_shapes
from modelzoo.evidence.observation import Event
from modelzoo.frozen import replace
from modelzoo.records.evidence import OperatorClass

IMAGE, FILTER = (1, 8, 8, 8), (8, 8, 3, 3)


def test_the_operator_of_a_kernel_is_found_by_class_and_shapes() -> None:
    """The recorder sees convolution, the profiler mkldnn_convolution."""
    table = CostTable([Call("aten::convolution", (IMAGE, FILTER, (8,)), 100, 10)])
    assert table.find("aten::mkldnn_convolution", OperatorClass.CONV, (IMAGE, FILTER)) == (100, 10)
    assert table.find("aten::mkldnn_convolution", OperatorClass.CONV, (IMAGE, IMAGE)) is None
    assert table.find("aten::convolution", None, (IMAGE, FILTER, (8,))) is None


def test_calls_that_differ_in_more_than_their_shapes_cost_the_least() -> None:
    """Strides are no shapes: what was multiplied must not be overstated."""
    calls = [Call("aten::convolution", (IMAGE, FILTER), flop, 10) for flop in (100, 25, 50)]
    assert CostTable(calls).find("aten::_slow_conv2d_forward", OperatorClass.CONV, (IMAGE, FILTER)) == (25, 10)


def test_the_types_of_an_operator_are_those_of_its_call() -> None:
    """For profilers that record none; if the calls of these shapes differ, they are not known."""
    event = replace(gemm_event("aten::addmm", ""), dtypes=())
    call = Call("aten::addmm", tensor_shapes(event), 1, 1, ("float32",) * 3)
    assert CostTable([call]).dtypes(event, OperatorClass.LINEAR) == ("float",) * 3
    other = replace(call, dtypes=("bfloat16",) * 3)
    assert CostTable([call, other]).dtypes(event, OperatorClass.LINEAR) == ()
    assert CostTable([]).dtypes(event, OperatorClass.LINEAR) == ()


def test_arguments_that_are_no_tensors_have_no_shape() -> None:
    """Scalars and lists."""
    assert tensor_shapes(Event("aten::mm", 1.0, 0, ((2, 3), (), (3, 4)))) == ((2, 3), (3, 4))
